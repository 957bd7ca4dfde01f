//! The rules of `restricted` and of every other policy, a test for each. What a test here says is what the documentation
//! promises.

mod addresses;
mod http;
mod limits;
mod names;
mod tls;

use std::net::SocketAddr;

use stead_egress::Policy;

use crate::harness::Proxy;

/// A proxy for a session that may reach `ok.test` alone, which is where these upstreams are.
fn restricted(upstreams: &[SocketAddr]) -> Proxy {
    Proxy::open(Policy::exact("t", ["ok.test".parse().unwrap()]), upstreams, |_| {})
}

fn get(host: &str) -> String {
    format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

fn connect(host: &str, port: u16) -> String {
    format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
}
