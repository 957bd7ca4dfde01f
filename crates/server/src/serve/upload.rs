//! Request bodies as they come. A body that stalls is broken off, so that it holds its connection no longer. And a body that
//! nobody reads to its end, because the request was refused before, is read and thrown away for a while: a connection that
//! is closed with unread bytes is reset, and most clients would then lose the answer that says why.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// How long a body may be waited for. Each piece gives the time back that its bytes would take at [`SLOWEST`].
const STALL: Duration = Duration::from_mins(1);
/// Bytes in a second that even a slow client sends.
const SLOWEST: u64 = 1 << 10;
/// How long a body may be silent once the server stops.
const AT_STOP: Duration = Duration::from_secs(3);
/// How long a refused body is read.
const LINGER: Duration = Duration::from_secs(10);
/// How many bytes of a refused body are read.
const LEFTOVER: u64 = 1 << 30;

/// Lets the handler read the body under these rules.
pub(super) async fn watch(State(stopping): State<CancellationToken>, request: Request, next: Next) -> Response {
    next.run(request.map(|body| Body::new(Upload::new(body, STALL, stopping)))).await
}

struct Upload {
    /// None once it has ended or broken.
    body: Option<Body>,
    stall: Duration,
    /// How long it may be waited for from now on.
    patience: Duration,
    /// Runs while a piece is waited for, since then.
    deadline: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Until the server stops.
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Upload {
    fn new(body: Body, stall: Duration, stopping: CancellationToken) -> Self {
        let body = Some(body).filter(|body| !body.is_end_stream());
        let stop = body.is_some().then(|| Box::pin(stopping.cancelled_owned()));
        Self { body, stall, patience: stall, deadline: None, stop }
    }

    /// From a stop on, nobody is waited for as long as before.
    fn hurry(&mut self, context: &mut Context<'_>) {
        if let Some(stop) = &mut self.stop
            && stop.as_mut().poll(context).is_ready()
        {
            self.stop = None;
            self.stall = self.stall.min(AT_STOP);
            self.patience = self.patience.min(AT_STOP);
            self.deadline = None;
        }
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let Poll::Ready(frame) = Pin::new(body).poll_frame(context) else {
            this.hurry(context);
            let patience = this.patience;
            let begin = || (Instant::now(), Box::pin(tokio::time::sleep(patience)));
            let (_, deadline) = this.deadline.get_or_insert_with(begin);
            ready!(deadline.as_mut().poll(context));
            this.body = None;
            return Poll::Ready(Some(Err(axum::Error::new(std::io::Error::from(std::io::ErrorKind::TimedOut)))));
        };
        if let Some((since, _)) = this.deadline.take() {
            this.patience = this.patience.saturating_sub(since.elapsed());
        }
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            this.patience = this.stall.min(this.patience + Duration::from_millis(bytes * 1000 / SLOWEST));
        }
        if !matches!(frame, Some(Ok(_))) {
            this.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        // Without a runtime the connection is gone too.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(LINGER, discard(body)));
        }
    }
}

async fn discard(mut body: Body) {
    let mut left = LEFTOVER;
    while let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let read = frame.data_ref().map_or(0, Bytes::len) as u64;
        left = left.saturating_sub(read);
        if left == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::put;
    use axum::{Router, middleware};
    use futures_util::{StreamExt, stream};
    use http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_body_that_stalls_is_broken_off() {
        let pieces = stream::iter([Ok::<_, std::io::Error>("a")]).chain(stream::pending());
        let mut upload =
            Body::new(Upload::new(Body::from_stream(pieces), Duration::from_millis(50), CancellationToken::new()))
                .into_data_stream();
        assert_eq!(upload.next().await.unwrap().unwrap(), "a");
        assert!(upload.next().await.unwrap().is_err());
        assert!(upload.next().await.is_none());
    }

    #[tokio::test]
    async fn a_body_that_trickles_is_broken_off_and_a_slow_one_is_not() {
        let every = |millis: u64, bytes: usize| {
            let pieces = stream::repeat(vec![b'a'; bytes]).take(60).then(move |piece| async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok::<_, std::io::Error>(piece)
            });
            let stall = Duration::from_secs(1);
            Body::new(Upload::new(Body::from_stream(Box::pin(pieces)), stall, CancellationToken::new()))
                .into_data_stream()
        };
        let whole = |upload: axum::body::BodyDataStream| upload.all(|piece| async move { piece.is_ok() });
        assert!(!whole(every(800, 1)).await);
        assert!(!whole(every(50, 20)).await);
        assert!(whole(every(50, 400)).await);
    }

    #[tokio::test]
    async fn a_body_that_says_nothing_keeps_no_stop_waiting() {
        let stopping = CancellationToken::new();
        let pieces = stream::iter([Ok::<_, std::io::Error>("a")]).chain(stream::pending());
        let mut upload = Body::new(Upload::new(Body::from_stream(pieces), STALL, stopping.clone())).into_data_stream();
        assert_eq!(upload.next().await.unwrap().unwrap(), "a");
        let (begun, waiting) = (Instant::now(), tokio::spawn(async move { upload.next().await.unwrap().is_err() }));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        stopping.cancel();
        assert!(waiting.await.unwrap());
        assert!(begun.elapsed() < STALL / 2, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_client_that_sends_to_the_end_before_it_reads_gets_its_refusal() {
        const BYTES: usize = 32 << 20;
        let refuse = || async { StatusCode::PAYLOAD_TOO_LARGE };
        let app = Router::new()
            .route("/", put(refuse))
            .layer(middleware::from_fn_with_state(CancellationToken::new(), watch));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, app).await });
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = format!("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&vec![0; BYTES]).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        serving.abort();
    }
}
