//! The way to the egress proxy.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::runtime::Runtime;

fn forwarding(folder: TempDir, from: SocketAddr, to: &Path) -> Runtime {
    let program = Path::new(env!("CARGO_BIN_EXE_stead-runtime"));
    let more = ["--proxy".to_owned(), format!("{from}={}", to.display())];
    Runtime::spawn(folder, &[], program, &more)
}

#[tokio::test]
async fn loopback_connections_reach_the_socket() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("egress.sock");
    let proxy = UnixListener::bind(&path).unwrap();
    let runtime = forwarding(folder, free, &path);
    runtime.client().await.ping().await.unwrap();
    // Answers with what it was sent, once the sender has ended.
    std::thread::spawn(move || {
        for connection in proxy.incoming() {
            let mut connection = connection.unwrap();
            let mut bytes = Vec::new();
            connection.read_to_end(&mut bytes).unwrap();
            connection.write_all(&bytes).unwrap();
        }
    });
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 241) as u8).collect();
    for _ in 0..3 {
        let mut program = TcpStream::connect(free).unwrap();
        program.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        program.write_all(&bytes).unwrap();
        program.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        program.read_to_end(&mut answer).unwrap();
        assert!(answer == bytes);
    }
    assert!(runtime.pss() < 6 * 1024);
}

#[tokio::test]
async fn a_proxy_that_is_not_there_closes_the_connection() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let nobody = folder.path().join("nobody");
    let runtime = forwarding(folder, free, &nobody);
    runtime.client().await.ping().await.unwrap();
    let mut program = TcpStream::connect(free).unwrap();
    program.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut bytes = Vec::new();
    assert!(matches!(program.read_to_end(&mut bytes), Ok(0) | Err(_)));
    runtime.client().await.ping().await.unwrap();
}
