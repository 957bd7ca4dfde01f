//! A command on the link, as the port describes it.

use std::sync::Arc;

use bytes::Bytes;
use stead_domain::ports::{
    Adopted, Exec, ExecEvent, ExecExit, ExecRequest, ExitReason, OutputStream, PortFuture, Program, RuntimeError,
};
use stead_link::{Client, Command, ExecSpec, ExitReport, LinkError, StdinMode};
use tokio::runtime::Handle;

use crate::pulse::{Pulse, while_alive};
use crate::runtime::fault;
use crate::sandbox::Sandbox;

/// Begins a command and waits until it runs or is refused.
pub(crate) async fn begin(
    sandbox: &Arc<Sandbox>,
    client: &Client,
    request: ExecRequest,
) -> Result<Box<dyn Exec>, RuntimeError> {
    let command = match request.program {
        Program::Argv(argv) => Command::Argv(argv),
        Program::Script(script) => Command::Script(Bytes::from(script)),
    };
    let spec = ExecSpec {
        name: request.name,
        command,
        env: request.env,
        cwd: request.directory,
        stdin: if request.stdin { StdinMode::Open } else { StdinMode::None },
        time_limit: request.time_limit,
        output_limit: request.output_limit,
    };
    let beginning = async {
        let mut exec = client.exec(spec).await.map_err(fault)?;
        let first = match exec.next().await.map_err(fault)? {
            Some(stead_link::ExecEvent::Started { .. }) | None => None,
            Some(other) => translate(other),
        };
        Ok((exec, first))
    };
    let (exec, first) = while_alive(sandbox, client, beginning).await?;
    Ok(Box::new(LinkExec::new(exec, first, Pulse::new(sandbox, client))))
}

/// Takes a named command over.
pub(crate) async fn adopt(
    sandbox: &Arc<Sandbox>,
    client: &Client,
    name: &str,
    from: u64,
) -> Result<Adopted, RuntimeError> {
    let found = while_alive(sandbox, client, client.adopt(name, from)).await.map_err(fault)?;
    let followed = |exec| Adopted::Found(Box::new(LinkExec::new(exec, None, Pulse::new(sandbox, client))));
    Ok(found.map_or(Adopted::Unknown, followed))
}

struct LinkExec {
    /// There until this is dropped.
    inner: Option<stead_link::Exec>,
    /// An event that came before the start was told.
    first: Option<ExecEvent>,
    over: bool,
    pulse: Pulse,
    handle: Handle,
}

impl LinkExec {
    fn new(exec: stead_link::Exec, first: Option<ExecEvent>, pulse: Pulse) -> Self {
        Self { inner: Some(exec), first, over: false, pulse, handle: Handle::current() }
    }

    fn inner(&mut self) -> Result<&mut stead_link::Exec, RuntimeError> {
        self.inner.as_mut().ok_or_else(is_over)
    }
}

fn is_over() -> RuntimeError {
    RuntimeError::Refused("the command is over".to_owned())
}

impl Exec for LinkExec {
    fn next(&mut self) -> PortFuture<'_, Result<ExecEvent, RuntimeError>> {
        Box::pin(async move {
            if let Some(event) = self.first.take() {
                self.over |= matches!(event, ExecEvent::Exited(_));
                return Ok(event);
            }
            loop {
                let Self { inner, pulse, .. } = &mut *self;
                let exec = inner.as_mut().ok_or_else(is_over)?;
                let next = tokio::select! {
                    biased;
                    next = exec.next() => next,
                    never = pulse.feel() => match never {},
                };
                self.pulse.heard();
                let event = match next {
                    Ok(Some(event)) => event,
                    Ok(None) => return Err(is_over()),
                    Err(error) => {
                        self.over = true;
                        return Err(fault(error));
                    }
                };
                if let Some(event) = translate(event) {
                    self.over |= matches!(event, ExecEvent::Exited(_));
                    return Ok(event);
                }
            }
        })
    }

    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> PortFuture<'a, Result<(), RuntimeError>> {
        Box::pin(async move { self.inner()?.stdin(bytes).await.map_err(fault) })
    }

    fn close_stdin(&mut self) -> PortFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move { self.inner()?.close_stdin().map_err(fault) })
    }

    fn kill(&mut self) -> PortFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move { self.inner()?.kill().map_err(fault) })
    }

    fn acknowledge(&mut self, bytes: u64) -> PortFuture<'_, Result<(), RuntimeError>> {
        let outcome = self.inner().and_then(|exec| exec.acknowledge(bytes).map_err(fault));
        Box::pin(std::future::ready(outcome))
    }
}

impl Drop for LinkExec {
    /// On the link, giving a command without a name up kills it; here it goes on, so somebody must take what it says. A named
    /// one waits for whoever takes it over.
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if let Some(mut exec) = self.inner.take().filter(|exec| !exec.is_kept()) {
            self.handle.spawn(async move { while let Ok(Some(_)) = exec.next().await {} });
        }
    }
}

fn translate(event: stead_link::ExecEvent) -> Option<ExecEvent> {
    match event {
        stead_link::ExecEvent::Started { .. } => None,
        stead_link::ExecEvent::Stdout(bytes) => Some(ExecEvent::Output(OutputStream::Stdout, bytes.into())),
        stead_link::ExecEvent::Stderr(bytes) => Some(ExecEvent::Output(OutputStream::Stderr, bytes.into())),
        stead_link::ExecEvent::Exited(report) => Some(ExecEvent::Exited(exit(&report))),
    }
}

fn exit(report: &ExitReport) -> ExecExit {
    use stead_link::ExitReason as Link;
    let reason = match report.reason {
        Link::TimeLimit => ExitReason::TimeLimit,
        Link::OutputLimit => ExitReason::OutputLimit,
        Link::Killed => ExitReason::Killed,
        // A lost status has neither code nor signal, which says it.
        Link::Exited | Link::Signalled | Link::Lost | Link::Other => ExitReason::Exited,
    };
    ExecExit { code: report.code, signal: report.signal, reason }
}

/// What a failure of the link means for the core.
pub(crate) fn is_lost(error: &LinkError) -> bool {
    matches!(
        error,
        LinkError::Dial { .. }
            | LinkError::HandshakeTimeout { .. }
            | LinkError::Disconnected { .. }
            | LinkError::Protocol { .. }
    )
}
