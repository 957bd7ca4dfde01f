//! Connections that are cut at any byte, servers that start again, acknowledgements at any point: what was received in the end is what
//! the command wrote.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stead_link::{Client, Exec, ExecEvent, ExecSpec, ExitReport, StdinMode, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::runtime::{Runtime, TOKEN, script};

/// Commands that are run, each through as many connections as it takes.
const COMMANDS: u64 = 12;

/// Numbers that look random and are the same every time (xorshift).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// From 0 to `most`, small ones as often as large ones.
    fn scale(&mut self, most: u64) -> u64 {
        let bits = self.below(u64::from(most.ilog2()) + 1);
        self.below((2_u64 << bits).min(most))
    }
}

/// A way to a runtime on which every connection is cut after some bytes in either direction.
struct Cutter {
    path: PathBuf,
    _task: tokio::task::JoinHandle<()>,
}

impl Cutter {
    fn new(runtime: &Runtime, mut random: Random) -> Self {
        let path = runtime.folder.path().join(format!("cutter-{}", random.0));
        let listener = UnixListener::bind(&path).unwrap();
        let socket = runtime.socket.clone();
        let task = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let far = UnixStream::connect(&socket).await.unwrap();
                // The hello and its answer take about 150 bytes; the rest is the matter of the test.
                let (to, from) = (random.scale(6_000), random.scale(600_000));
                tokio::spawn(async move {
                    let (near_in, near_out) = near.into_split();
                    let (far_in, far_out) = far.into_split();
                    // Whichever is used up first ends both.
                    tokio::select! {
                        () = copy(near_in, far_out, to) => {}
                        () = copy(far_in, near_out, from) => {}
                    }
                });
            }
        });
        Self { path, _task: task }
    }
}

/// Copies exactly this many bytes, or until the end.
async fn copy(from: tokio::net::unix::OwnedReadHalf, mut to: tokio::net::unix::OwnedWriteHalf, most: u64) {
    let mut from = from.take(most);
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// What a server has written down of a command.
#[derive(Default)]
struct Log {
    /// Standard error or not, and the byte.
    output: Vec<(bool, u8)>,
    acknowledged: u64,
}

/// Follows a command over one connection until its end or the connection's.
async fn follow(client: &Client, spec: &ExecSpec, log: &mut Log, random: &mut Random) -> Option<ExitReport> {
    let name = spec.name.as_deref().unwrap();
    let adopted = client.adopt(name, log.output.len() as u64).await.inspect_err(|error| {
        assert!(error.code().is_none(), "{error}");
    });
    let mut exec: Exec = match adopted.ok()? {
        Some(exec) => exec,
        None => {
            assert!(log.output.is_empty(), "a command with output was forgotten");
            client.exec(spec.clone()).await.ok()?
        }
    };
    loop {
        let event = exec.next().await.inspect_err(|error| assert!(error.code().is_none(), "{error}")).ok()?;
        match event? {
            ExecEvent::Started { .. } => {}
            ExecEvent::Stdout(bytes) => log.output.extend(bytes.iter().map(|byte| (false, *byte))),
            ExecEvent::Stderr(bytes) => log.output.extend(bytes.iter().map(|byte| (true, *byte))),
            ExecEvent::Exited(report) => {
                assert_eq!(report.output_bytes, log.output.len() as u64);
                // Not even the end is written down yet: it comes again.
                if random.below(3) == 0 {
                    return None;
                }
                let _ = exec.acknowledge(log.output.len() as u64);
                return Some(report);
            }
        }
        if random.below(2) == 0 {
            let length = log.output.len() as u64;
            log.acknowledged += random.below(length - log.acknowledged + 1);
            let _ = exec.acknowledge(log.acknowledged);
        }
        if random.below(200) == 0 {
            // A server that lets go.
            return None;
        }
        if exec.position() - log.acknowledged > 100_000 {
            log.acknowledged = exec.position();
            let _ = exec.acknowledge(log.acknowledged);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_comes_twice() {
    let runtime = Runtime::start();
    // Other numbers for a longer search: each run of the test takes as many as there are commands.
    let first = std::env::var("STEAD_CUTS_SEED").map_or(0, |seed| seed.parse::<u64>().unwrap());
    let connections = Arc::new(Mutex::new(0));
    let mut tasks = Vec::new();
    for seed in (first + 1)..=(first + COMMANDS) {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let cutter = Cutter::new(&runtime, random.clone());
        let connections = Arc::clone(&connections);
        // Numbered lines on both streams, in portions of any size; some of it faster than it is read, some slower.
        let text = format!(
            "python3 -c '
import os, random, time
random.seed({seed})
written = [0, 0]
for _ in range(random.choice([3, 60, 400])):
    which = random.randrange(2)
    lines = random.choice([1, 1, 10, 1000])
    text = b\"\".join(b\"%d\\n\" % (written[which] + line) for line in range(lines))
    written[which] += lines
    os.write(which + 1, text)
    if random.randrange(40) == 0: time.sleep(0.02)
'; exit {}",
            seed % 200
        );
        let spec = ExecSpec { name: Some(format!("turn-{seed}")), stdin: StdinMode::None, ..script(text) };
        tasks.push(tokio::spawn(async move {
            let mut log = Log::default();
            loop {
                *connections.lock().unwrap() += 1;
                if let Ok(client) = Client::connect(&cutter.path, &Token::new(TOKEN)).await
                    && let Some(report) = follow(&client, &spec, &mut log, &mut random).await
                {
                    assert_eq!(report.code, Some((seed % 200) as i32));
                    break;
                }
                // What was not acknowledged may be lost with the server's machine.
                let kept = log.acknowledged + random.below(log.output.len() as u64 - log.acknowledged + 1);
                log.output.truncate(kept as usize);
                log.acknowledged = kept;
            }
            for stream in [false, true] {
                let bytes: Vec<u8> =
                    log.output.iter().filter(|(error, _)| *error == stream).map(|(_, byte)| *byte).collect();
                let text = String::from_utf8(bytes).unwrap();
                let mut lines = 0;
                for (number, line) in text.lines().enumerate() {
                    assert_eq!(line, number.to_string(), "seed {seed}");
                    lines += 1;
                }
                assert!(text.is_empty() || text.ends_with('\n'), "seed {seed}");
                println!("seed {seed}: {lines} lines on {}", if stream { "stderr" } else { "stdout" });
            }
        }));
    }
    for task in tasks {
        tokio::time::timeout(Duration::from_mins(2), task).await.expect("a command hangs").unwrap();
    }
    let connections = *connections.lock().unwrap();
    println!("{connections} connections");
    assert!(connections > COMMANDS * 5, "{connections} connections cut little");
}
