//! Accepting connections: with a deadline for a request's head, a bound on how many there are, and a stop in good order.
//!
//! Where the bound is reached, whoever comes takes the place of the connection that has been there longest and has no request:
//! those who say nothing keep nobody out.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::line::{Answering, Line};
use super::places::{Place, Places};

/// How long a connection may take to send the head of a request, or stay without one.
const HEAD: Duration = Duration::from_mins(1);
/// Connections at once. Where each has a request, more wait.
const CONNECTIONS: usize = 4096;
/// The largest head of a request, and what is kept of an answer that its client is slow to take, in bytes.
const BUFFER: usize = 64 << 10;
/// How long it is not said again that there are too many.
const TOLD: Duration = Duration::from_mins(1);
/// How long a connection that has said nothing yet has for its request once the server stops.
const FIRST: Duration = Duration::from_secs(1);
/// How long a connection that has begun a request's head has to finish it once the server stops.
const HALF: Duration = Duration::from_secs(2);
/// How long nothing is accepted after the process has run out of something.
const PAUSE: Duration = Duration::from_millis(500);

/// How connections are treated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listening {
    head: Duration,
    connections: usize,
}

impl Default for Listening {
    fn default() -> Self {
        Self { head: HEAD, connections: CONNECTIONS }
    }
}

impl Listening {
    /// For an address that few have business at.
    pub(super) fn few() -> Self {
        Self { head: HEAD, connections: 16 }
    }

    /// Serves until `stopping` is cancelled, then lets requests that have begun finish for at most `grace`.
    pub(super) async fn serve(self, listener: TcpListener, app: Router, stopping: CancellationToken, grace: Duration) {
        // One protocol, so that nothing is read to find out which it is: the deadline holds from the start.
        let mut builder = Builder::new(TokioExecutor::new()).http1_only();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.head).max_buf_size(BUFFER);
        let places = Places::new(self.connections);
        let connections = TaskTracker::new();
        let mut told = None;
        loop {
            let accepted = async {
                let stream = accept(&listener).await;
                if places.are_taken() && told.is_none_or(|told: Instant| told.elapsed() >= TOLD) {
                    told = Some(Instant::now());
                    tracing::warn!(
                        connections = self.connections,
                        "as many connections as there may be: the oldest without a request make room"
                    );
                }
                (stream, places.take().await)
            };
            let (stream, place) = tokio::select! {
                () = stopping.cancelled() => break,
                accepted = accepted => accepted,
            };
            let connection = serve_one(builder.clone(), stream, app.clone(), stopping.clone(), place);
            connections.spawn(async move {
                metrics::gauge!("stead_http_connections").increment(1.0);
                connection.await;
                metrics::gauge!("stead_http_connections").decrement(1.0);
            });
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(grace, connections.wait()).await.is_err() {
            tracing::warn!(connections = connections.len(), "requests that were not finished are cut");
        }
    }
}

/// The next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if of_the_connection(error.kind()) => {}
            Err(error) => {
                tracing::error!(error = %error, "accepting a connection failed");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn of_the_connection(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

async fn serve_one(
    builder: Builder<TokioExecutor>,
    stream: TcpStream,
    app: Router,
    stopping: CancellationToken,
    place: Place,
) {
    // Live output is many small writes; a connection that refuses the option is served all the same.
    let _ = stream.set_nodelay(true);
    let exchange = Arc::clone(place.exchange());
    let line = Line::new(stream, Arc::clone(&exchange), stopping.clone());
    let begun = CancellationToken::new();
    let (begins, asked) = (begun.clone(), Arc::clone(&exchange));
    let service = tower::service_fn(move |request: http::Request<Incoming>| {
        begins.cancel();
        let (app, answering) = (app.clone(), asked.begin());
        async move {
            let response = app.oneshot(request).await?;
            // The answer is being made until the last of its body is taken.
            Ok::<_, Infallible>(response.map(|body| Held { body, _answering: answering }))
        }
    });
    let connection = builder.serve_connection(TokioIo::new(line), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let stops = async {
        stopping.cancelled().await;
        // What has said nothing yet would be closed at once, while its request may be on the way already.
        let _ = tokio::time::timeout(FIRST, begun.cancelled()).await;
    };
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = place.wanted() => Ok(()),
        () = stops => {
            connection.as_mut().graceful_shutdown();
            let half = async {
                tokio::time::sleep(HALF).await;
                // What has a request by now may finish it.
                if !exchange.is_idle() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                served = connection.as_mut() => served,
                () = half => Ok(()),
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!(error = %error, "a connection ended early");
    }
}

/// The body of an answer.
struct Held {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn silent_connections_are_closed_and_a_stop_lets_requests_finish() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let slow = || async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            "finished"
        };
        let app = Router::new().route("/", get(slow));
        let stopping = CancellationToken::new();
        let listening = Listening { head: Duration::from_millis(200), connections: 2 };
        let serving = tokio::spawn(listening.serve(listener, app, stopping.clone(), Duration::from_secs(10)));

        // Nothing at all, the beginning of another protocol, a part of a head, and nothing after an answer.
        for said in ["", "PRI * HT", "GET / HT", "GET /none HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let mut silent = TcpStream::connect(address).await.unwrap();
            silent.write_all(said.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            let end = tokio::time::timeout(Duration::from_secs(5), silent.read_to_end(&mut rest)).await;
            end.unwrap_or_else(|_| panic!("{said:?} keeps a connection")).unwrap();
        }

        let mut asking = TcpStream::connect(address).await.unwrap();
        asking.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut late = TcpStream::connect(address).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        stopping.cancel();
        // Accepted before the stop, and asks a moment after it.
        tokio::time::sleep(Duration::from_millis(50)).await;
        late.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        late.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("finished"), "{answer}");
        let mut answer = String::new();
        asking.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("finished"), "{answer}");
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn who_says_nothing_keeps_nobody_out_and_who_says_half_keeps_no_stop_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/", get(|| async { "answered" }));
        let stopping = CancellationToken::new();
        let listening = Listening { head: Duration::from_mins(10), connections: 2 };
        let serving = tokio::spawn(listening.serve(listener, app, stopping.clone(), Duration::from_mins(10)));

        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asking = TcpStream::connect(address).await.unwrap();
        asking.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let answered = tokio::time::timeout(Duration::from_secs(30), asking.read_to_string(&mut answer));
        answered.await.expect("silent connections make room").unwrap();
        assert!(answer.ends_with("answered"), "{answer}");

        let mut half = TcpStream::connect(address).await.unwrap();
        half.write_all(b"GET / HT").await.unwrap();
        stopping.cancel();
        tokio::time::timeout(Duration::from_secs(30), serving).await.expect("half a head is not waited for").unwrap();
    }
}
