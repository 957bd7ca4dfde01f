//! A measurement, not a test of correctness: run it alone, in release mode, with `--ignored --nocapture`.

use std::time::Instant;

use stead_egress::Policy;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Proxy, upstream};

const TOTAL: usize = 1 << 30;

async fn drain(stream: &mut (impl AsyncRead + Unpin)) -> f64 {
    let mut buffer = vec![0; 64 * 1024];
    let (mut read, started) = (0, Instant::now());
    while read < TOTAL {
        match stream.read(&mut buffer).await.unwrap() {
            0 => break,
            count => read += count,
        }
    }
    assert_eq!(read, TOTAL);
    TOTAL as f64 / started.elapsed().as_secs_f64() / 1e6
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn a_tunnel_against_a_direct_connection() {
    let address = upstream(|mut stream| async move {
        let block = vec![7; 64 * 1024];
        for _ in 0..TOTAL / block.len() {
            stream.write_all(&block).await.unwrap();
        }
    })
    .await;
    let direct = drain(&mut TcpStream::connect(address).await.unwrap()).await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    let mut client = proxy.client().await;
    client.write_all(format!("CONNECT a.test:{} HTTP/1.1\r\n\r\n", address.port()).as_bytes()).await.unwrap();
    // The head is read to its last byte and no further: the rest is counted.
    let mut head = vec![0; "HTTP/1.1 200 Connection established\r\n\r\n".len()];
    client.read_exact(&mut head).await.unwrap();
    let tunnelled = drain(&mut client).await;
    println!("direct {direct:.0} MB/s, through the proxy {tunnelled:.0} MB/s, ratio {:.2}", tunnelled / direct);
}
