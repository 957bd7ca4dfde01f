//! A command on the scripted machine: it says and does what the test tells it, across all connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_domain::ports::{Exec, ExecEvent, ExecExit, ExitReason, OutputStream, PortFuture, RuntimeError};
use tokio::sync::Notify;

/// A command.
#[derive(Debug, Default)]
pub(super) struct Script {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    output: Vec<u8>,
    acknowledged: u64,
    exit: Option<ExecExit>,
    /// Raised when connections are lost: those of an earlier number are.
    connection: u64,
}

impl Script {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_waiters();
    }

    pub(super) fn say(&self, text: &str) {
        self.change(|state| state.output.extend_from_slice(text.as_bytes()));
    }

    pub(super) fn end(&self, exit: ExecExit) {
        self.change(|state| {
            state.exit.get_or_insert(exit);
        });
    }

    pub(super) fn kill(&self) {
        self.end(ExecExit { code: None, signal: Some(9), reason: ExitReason::Killed });
    }

    /// Cuts every connection to it.
    pub(super) fn lose(&self) {
        self.change(|state| state.connection += 1);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.lock().acknowledged
    }

    /// A new connection, which takes it from all others.
    pub(super) fn connect(self: &Arc<Self>, from: u64) -> Result<Box<dyn Exec>, RuntimeError> {
        self.lose();
        let state = self.lock();
        if from < state.acknowledged || from > state.output.len() as u64 {
            return Err(RuntimeError::Refused(format!("there is no output from byte {from} on")));
        }
        let connection = state.connection;
        drop(state);
        Ok(Box::new(Connected { script: self.clone(), connection, read: from as usize, over: false }))
    }
}

struct Connected {
    script: Arc<Script>,
    connection: u64,
    read: usize,
    over: bool,
}

impl Connected {
    /// What is there to be told, if anything.
    fn look(&mut self) -> Option<Result<ExecEvent, RuntimeError>> {
        let state = self.script.lock();
        if state.connection != self.connection {
            return Some(Err(RuntimeError::Lost("the test has cut the connection".to_owned())));
        }
        if self.over {
            return Some(Err(RuntimeError::Refused("the command is over".to_owned())));
        }
        if self.read < state.output.len() {
            let bytes = state.output[self.read..].to_vec();
            self.read = state.output.len();
            return Some(Ok(ExecEvent::Output(OutputStream::Stdout, bytes)));
        }
        self.over = state.exit.is_some();
        state.exit.map(|exit| Ok(ExecEvent::Exited(exit)))
    }

    fn is_lost(&self) -> bool {
        self.script.lock().connection != self.connection
    }
}

impl Exec for Connected {
    fn next(&mut self) -> PortFuture<'_, Result<ExecEvent, RuntimeError>> {
        Box::pin(async move {
            loop {
                let script = self.script.clone();
                let mut changed = std::pin::pin!(script.changed.notified());
                // Whatever changes after the look is heard.
                changed.as_mut().enable();
                if let Some(event) = self.look() {
                    return event;
                }
                changed.await;
            }
        })
    }

    fn write<'a>(&'a mut self, _: &'a [u8]) -> PortFuture<'a, Result<(), RuntimeError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn close_stdin(&mut self) -> PortFuture<'_, Result<(), RuntimeError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn kill(&mut self) -> PortFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            if self.is_lost() {
                return Err(RuntimeError::Lost("the test has cut the connection".to_owned()));
            }
            self.script.kill();
            Ok(())
        })
    }

    fn acknowledge(&mut self, bytes: u64) -> PortFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            if self.is_lost() {
                return Err(RuntimeError::Lost("the test has cut the connection".to_owned()));
            }
            let mut state = self.script.lock();
            state.acknowledged = state.acknowledged.max(bytes);
            Ok(())
        })
    }
}
