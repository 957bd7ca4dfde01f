//! Traces, with a double of a collector. Only a program that was built with the feature `otlp` sends them.

/// The option under which it is told where a collector is.
const ENDPOINT: &str = "telemetry.otlp_endpoint";

#[cfg(not(feature = "otlp"))]
#[test]
fn a_program_without_the_feature_says_so() {
    use crate::program::{ran, stead};

    let mut command = stead();
    command.args(["serve", "--data", "/nonexistent", "--listen", "127.0.0.1:0"]);
    command.env(format!("STEAD__{}", ENDPOINT.replace('.', "__").to_uppercase()), "http://127.0.0.1:4318/v1/traces");
    let refused = ran(&mut command);
    assert!(refused.status == 1 && refused.stderr.contains("without the feature `otlp`"), "{}", refused.stderr);
}

#[cfg(feature = "otlp")]
mod with_the_feature {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::ENDPOINT;
    use crate::api::Api;
    use crate::objects::eventually;
    use crate::program::needs_root;
    use crate::server::TestServer;

    /// Takes whatever is posted and keeps it.
    fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&taken);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || take(connection, &kept));
            }
        });
        (address, taken)
    }

    fn take(connection: TcpStream, kept: &Mutex<Vec<u8>>) {
        let mut reader = BufReader::new(connection);
        loop {
            let (mut length, mut line) = (0, String::new());
            loop {
                line.clear();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if let Some((name, value)) = line.trim_end().split_once(": ")
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            kept.lock().unwrap().extend(body);
            let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    }

    #[test]
    fn a_request_and_its_turn_are_told_to_a_collector() {
        needs_root!();
        let (address, taken) = collector();
        let server = TestServer::start(&[(ENDPOINT, &address)]);
        let api = Api::of(&server);
        let harness = api.harness();
        let body = json!({"input": "echo hunter2secret", "metadata": {"harness_id": harness}}).to_string();
        let headers = [("X-Request-Id", "traced-1"), ("Content-Type", "application/json")];
        api.send("POST", "/v1/responses", &headers, body.as_bytes()).ok();
        api.delete_sessions();
        let has = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
        eventually("spans at the collector", || {
            let taken = taken.lock().unwrap();
            // The service, the request with its id, the use case, the turn and the operation that made its environment.
            let words = ["stead", "request", "traced-1", "turn_start", "turn.id", "operation.id", "drive a turn"];
            match words.iter().find(|word| !has(&taken, word)) {
                Some(missing) => Err(format!("no `{missing}` in {} bytes", taken.len())),
                None => Ok(()),
            }
        });
        drop(server);
        assert!(!has(&taken.lock().unwrap(), "hunter2secret"));
    }
}
