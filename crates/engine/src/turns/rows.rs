//! The rows that a driver decides on. It holds them in hand, as it or the admission has written them, and reads them again only
//! when a commit meets a newer one.

use stead_domain::attachment::Attachment;
use stead_domain::build::Build;
use stead_domain::changes::{Changes, Row, RowChange};
use stead_domain::environment::Environment;
use stead_domain::operation::Operation;
use stead_domain::ports::CommitError;
use stead_domain::project::Project;
use stead_domain::session::Session;
use stead_domain::turn::Turn;
use stead_domain::{Code, Error, Result, TurnId, WorkspaceId};

use crate::commit::{Pauses, store_failed};
use crate::engine::Engine;

/// How often newer rows are met before something must be wrong.
const ATTEMPTS: u32 = 30;

/// What a turn's admission has written and read.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) turn: Turn,
    pub(crate) session: Session,
    pub(crate) attachment: Attachment,
    pub(crate) reads: Option<(Project, Build)>,
    /// A new environment, and the operation that makes it, claimed already.
    pub(crate) made: Option<(Environment, Operation)>,
}

/// A turn with everything that its driver looks at.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) turn: Turn,
    pub(crate) session: Session,
    pub(crate) environment: Environment,
    /// The project version that it reads.
    pub(crate) reads: Option<(Project, Build)>,
    /// The operation of the environment that this process is at.
    pub(crate) operation: Option<Operation>,
}

impl Rows {
    /// Takes the rows as a commit has left them.
    fn committed(&mut self, changes: Changes) {
        for change in changes.rows {
            let (row, raised) = match change {
                RowChange::Insert(row) => (row, 0),
                RowChange::Update(row) => (row, 1),
            };
            match row {
                Row::Turn(row) if row.id == self.turn.id => {
                    self.turn = Turn { row_version: row.row_version + raised, ..row };
                }
                Row::Session(row) if row.id == self.session.id => {
                    self.session = Session { row_version: row.row_version + raised, ..row };
                }
                Row::Environment(row) if row.id == self.environment.id => {
                    self.environment = Environment { row_version: row.row_version + raised, ..row };
                }
                Row::Operation(row) => {
                    self.operation = Some(Operation { row_version: row.row_version + raised, ..row });
                }
                _ => {}
            }
        }
    }
}

impl Engine {
    /// Everything that a driver looks at, read.
    pub(crate) async fn rows_of(&self, workspace: WorkspaceId, id: TurnId) -> Result<Rows> {
        let turn = self.turn_row(workspace, id).await?;
        let reads = async {
            match turn.reads {
                None => Ok(None),
                Some(pin) => self.pinned(workspace, pin).await.map(Some),
            }
        };
        let (session, attachment, reads) =
            tokio::try_join!(self.session_row(&turn), self.primary_attachment(&turn), reads)?;
        let environment = self.environment(attachment.environment_id).await?;
        Ok(Rows { turn, session, environment, reads, operation: None })
    }

    /// The same from what the admission left.
    pub(crate) async fn rows_after(&self, admitted: Admitted) -> Result<Rows> {
        let Admitted { turn, session, attachment, reads, made } = admitted;
        let (environment, operation) = match made {
            Some((environment, operation)) => (environment, Some(operation)),
            None => (self.environment(attachment.environment_id).await?, None),
        };
        Ok(Rows { turn, session, environment, reads, operation })
    }

    /// Reads again what may have changed.
    pub(crate) async fn refresh(&self, rows: &mut Rows) -> Result<()> {
        let operation = async {
            match &rows.operation {
                None => Ok(None),
                Some(operation) => self.store.operation_fetch(operation.id).await.map_err(store_failed),
            }
        };
        let (turn, session, environment, operation) = tokio::try_join!(
            self.turn_row(rows.turn.workspace_id, rows.turn.id),
            self.session_row(&rows.turn),
            self.environment(rows.environment.id),
            operation
        )?;
        (rows.turn, rows.session, rows.environment, rows.operation) = (turn, session, environment, operation);
        Ok(())
    }

    /// Commits what `decide` makes of the rows in hand. When a commit meets a newer row, they are read again and decided on anew;
    /// when the store does not answer, the same with growing pauses until it does or the server stops. The value is what the decision that
    /// was committed returned beside its changes.
    pub(crate) async fn decide_on<T>(
        &self,
        rows: &mut Rows,
        mut decide: impl FnMut(&Rows) -> Result<(Changes, T)>,
    ) -> Result<T> {
        let stopping = self.supervisor.stopping();
        let mut pauses = Pauses::new();
        let mut conflicts = 0;
        loop {
            let (changes, value) = decide(rows)?;
            let last = stopping.is_cancelled();
            match self.commit(changes.clone()).await {
                Ok(()) => {
                    rows.committed(changes);
                    return Ok(value);
                }
                Err(CommitError::Conflict(what)) if conflicts == ATTEMPTS => {
                    let message = format!("too many others are changing the same {what}; try again");
                    return Err(Error::new(Code::CapacityExhausted, message));
                }
                Err(CommitError::Conflict(table)) => {
                    metrics::counter!("stead_commit_retries_total", "table" => table).increment(1);
                    conflicts += 1;
                    self.refresh_patiently(rows).await?;
                }
                Err(CommitError::Store(error)) => {
                    let error = store_failed(error);
                    if last {
                        return Err(error);
                    }
                    self.pause(&mut pauses, &error).await;
                    self.refresh_patiently(rows).await?;
                    if self.has_happened(&changes).await? {
                        return Ok(value);
                    }
                }
            }
        }
    }

    async fn refresh_patiently(&self, rows: &mut Rows) -> Result<()> {
        let stopping = self.supervisor.stopping();
        let mut pauses = Pauses::new();
        loop {
            let last = stopping.is_cancelled();
            match self.refresh(rows).await {
                Err(error) if crate::commit::is_store_failure(&error) && !last => self.pause(&mut pauses, &error).await,
                outcome => return outcome,
            }
        }
    }

    /// Whether a commit of which the store has not said what became of it has happened, as far as its log entries tell: whatever else a
    /// driver commits can be decided again.
    async fn has_happened(&self, changes: &Changes) -> Result<bool> {
        let Some(first) = changes.events.first() else { return Ok(false) };
        let found = self
            .patiently(|| async {
                let found = self.store.events_after(first.session_id, first.sequence - 1, 1).await;
                found.map_err(store_failed)
            })
            .await?;
        Ok(found.first() == Some(first))
    }
}
