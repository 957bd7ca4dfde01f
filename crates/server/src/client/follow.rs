//! Following what grows on the server: a turn's output and a build's log. Both continue at the offset they had reached when
//! the connection breaks, for as long as the client's patience lasts.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;
use stead_face_stead::wire::{FrameReader, OUTPUT_FRAMES, OutputLine};
use tokio::time::Instant;

use super::{Client, Failure, segment};
use crate::console::note;

const PAUSE: Duration = Duration::from_millis(500);

/// Waits between attempts, until the server has been away for too long.
struct Patience {
    longest: Duration,
    since: Option<Instant>,
}

impl Patience {
    fn of(client: &Client) -> Self {
        Self { longest: client.patience(), since: None }
    }

    fn progress(&mut self) {
        self.since = None;
    }

    async fn wait(&mut self, failure: Failure) -> Result<(), Failure> {
        if !failure.may_pass() {
            return Err(failure);
        }
        let since = *self.since.get_or_insert_with(|| {
            let seconds = self.longest.as_secs();
            note(&match failure.has_answer() {
                true => format!("{}; asking again for up to {seconds} s", failure.message()),
                false => format!("the server went away; asking again for up to {seconds} s"),
            });
            Instant::now()
        });
        if since.elapsed() >= self.longest {
            return Err(failure);
        }
        tokio::time::sleep(PAUSE.min(self.longest)).await;
        Ok(())
    }
}

/// Sends a request that carries an idempotency key until it is answered: the server knows whether it did it already. A server
/// that is not there at all to begin with is not waited for.
pub(crate) async fn until_answered<T: DeserializeOwned>(
    client: &Client,
    request: impl Fn() -> RequestBuilder,
) -> Result<T, Failure> {
    let mut patience = Patience::of(client);
    let mut reached = false;
    loop {
        match client.answer::<T>(request()).await {
            Ok(answer) => return Ok(answer.value),
            Err(failure) if !reached && failure.is_unreached() => return Err(failure),
            Err(failure) => patience.wait(failure).await?,
        }
        reached = true;
    }
}

/// Gives every piece of a turn's output to `take`, each once and in order, the end included, which it returns.
pub(crate) async fn follow_output(
    client: &Client,
    turn: &str,
    mut take: impl FnMut(&OutputLine) -> Result<(), Failure>,
) -> Result<OutputLine, Failure> {
    let mut from = 0;
    let mut patience = Patience::of(client);
    loop {
        match output_once(client, turn, &mut from, &mut patience, &mut take).await? {
            Ok(end) => return Ok(end),
            Err(cut) => patience.wait(cut).await?,
        }
    }
}

/// One connection's worth. The outer error ends everything, the inner one may be tried again.
async fn output_once(
    client: &Client,
    turn: &str,
    from: &mut u64,
    patience: &mut Patience,
    take: &mut impl FnMut(&OutputLine) -> Result<(), Failure>,
) -> Result<Result<OutputLine, Failure>, Failure> {
    let path = format!("/stead/v1/turns/{}/output?from={from}", segment(turn));
    let request = client.request(Method::GET, &path).header(ACCEPT, OUTPUT_FRAMES);
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(failure) => return Ok(Err(failure)),
    };
    if response.headers().get(CONTENT_TYPE).is_none_or(|media| media != OUTPUT_FRAMES) {
        return Err(Failure::new("the server does not send output in a form that this program reads"));
    }
    let mut body = response.bytes_stream();
    let mut frames = FrameReader::new(*from);
    let mut end = None;
    while let Some(bytes) = body.next().await {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(client.unanswered(&error))),
        };
        patience.progress();
        frames.push(&bytes, |line| {
            take(&line)?;
            end = matches!(line, OutputLine::End { .. }).then_some(line);
            Ok::<(), Failure>(())
        })?;
        *from = frames.offset();
        if let Some(end) = end {
            return Ok(Ok(end));
        }
    }
    Ok(Err(Failure::new("the server ended the output before the task had ended")))
}

/// Gives a build's raw log to `take` until it ends. It ends when the build has ended, or when the server shuts down: the
/// caller looks at the build and follows on from the offset returned.
pub(crate) async fn follow_build_log(
    client: &Client,
    project: &str,
    number: u32,
    mut from: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut patience = Patience::of(client);
    loop {
        let path = format!("/stead/v1/projects/{}/builds/{number}/log?from={from}", segment(project));
        let cut = match client.send(client.request(Method::GET, &path)).await {
            Err(failure) => failure,
            Ok(response) => {
                let mut body = response.bytes_stream();
                loop {
                    match body.next().await {
                        None => return Ok(from),
                        Some(Ok(bytes)) => {
                            patience.progress();
                            take(&bytes)?;
                            from += bytes.len() as u64;
                        }
                        Some(Err(error)) => break client.unanswered(&error),
                    }
                }
            }
        };
        patience.wait(cut).await?;
    }
}
