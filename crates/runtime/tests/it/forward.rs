//! The way to the egress proxy.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use crate::runtime::Runtime;

#[tokio::test]
async fn loopback_connections_reach_the_socket() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut proxy = None;
    let runtime = Runtime::start_with(|command, folder| {
        let path = folder.path().join("egress.sock");
        command.arg("--proxy").arg(format!("{free}={}", path.display()));
        proxy = Some(UnixListener::bind(path).unwrap());
    });
    runtime.client().await.ping().await.unwrap();
    let proxy = proxy.unwrap();
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
    let runtime = Runtime::start_with(|command, folder| {
        command.arg("--proxy").arg(format!("{free}={}/nobody", folder.path().display()));
    });
    runtime.client().await.ping().await.unwrap();
    let mut program = TcpStream::connect(free).unwrap();
    program.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut bytes = Vec::new();
    assert!(matches!(program.read_to_end(&mut bytes), Ok(0) | Err(_)));
    runtime.client().await.ping().await.unwrap();
}
