//! Admission: everything a request decides is committed at once, and only then answered.

use std::time::Duration;

use serde_json::json;
use stead_domain::agent::{Agent, Harness};
use stead_domain::attachment::{Attachment, Pin};
use stead_domain::build::Build;
use stead_domain::changes::Changes;
use stead_domain::environment::Environment;
use stead_domain::event::EventKind;
use stead_domain::idempotency::{IdempotencyRecord, IdempotencyScope};
use stead_domain::key::Caller;
use stead_domain::lease::Lease;
use stead_domain::network::NetworkPolicy;
use stead_domain::operation::{Operation, OperationEvent};
use stead_domain::project::Project;
use stead_domain::session::{Face, NewTurn, Session};
use stead_domain::turn::{Turn, TurnInput};
use stead_domain::{
    AgentId, AttachmentId, Code, EnvironmentId, Error, OperationId, ProjectId, Result, SessionId, TurnId,
};

use super::rows::Admitted;
use crate::commit::store_failed;
use crate::engine::Engine;

/// Which version a turn shall read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionChoice {
    /// The active one, whatever the session was pinned to.
    Active,
    /// This one.
    Number(u32),
}

/// What a turn shall read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProjectChoice {
    /// The agent's project; where it names none, what the session has read so far.
    #[default]
    Usual,
    /// Nothing, whatever the agent names. The session lets go of what it has read.
    Nothing,
    /// This project.
    Named(ProjectId),
}

/// Who says which project a turn reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedBy {
    Caller,
    Agent,
    Session,
}

impl NamedBy {
    /// A refusal that concerns the project, in words that fit who named it: a parameter that the caller did not send is not
    /// named as the wrong one.
    fn refusal(self, error: Error) -> Error {
        let gone = error.code == Code::ProjectNotFound;
        let message = match self {
            Self::Caller => return error.at("turn.project"),
            Self::Agent if gone => "the project that the agent names is not there any more".to_owned(),
            Self::Session if gone => "the project that the session has read is not there any more".to_owned(),
            Self::Agent => format!("{}; it is the agent that names the project", error.message),
            Self::Session => format!("{}; it is the project that the session has read", error.message),
        };
        let way_on = if gone { "; `turn.project` names another, or none when it is empty" } else { "" };
        Error { param: None, message: format!("{message}{way_on}"), ..error }
    }
}

/// What a caller asks for.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// The face that a new session is addressable on.
    pub face: Face,
    /// The agent; the session's when a turn is continued.
    pub agent_id: Option<AgentId>,
    /// The turn to continue.
    pub previous: Option<TurnId>,
    /// The project to read.
    pub project: ProjectChoice,
    /// Moves the session's pin.
    pub version: Option<VersionChoice>,
    /// The work.
    pub input: TurnInput,
    /// Wall-clock budget.
    pub time_limit: Option<Duration>,
    /// What it may reach: within what its agent and the deployment allow, and that when absent.
    pub network: Option<NetworkPolicy>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// Whether the record is kept for later reads.
    pub store: bool,
    /// Request fields that nobody will act on.
    pub ignored_fields: Vec<String>,
    /// The caller's retry identity.
    pub retry: Option<RetryKey>,
}

/// What makes two requests the same one.
#[derive(Debug, Clone)]
pub struct RetryKey {
    /// The face that received it, and that the session is addressable on.
    pub face: Face,
    /// Method and route.
    pub route: &'static str,
    /// The caller's key.
    pub key: String,
    /// A hash of the caller's intent, taken before anything mutable was read.
    pub fingerprint: String,
}

/// An admitted turn.
#[derive(Debug, Clone)]
pub struct StartedTurn {
    /// Its session.
    pub session: Session,
    /// The turn.
    pub turn: Turn,
    /// Whether an earlier request with the same key made it.
    pub replayed: bool,
}

fn retry_scope(caller: &Caller, retry: &RetryKey) -> IdempotencyScope {
    IdempotencyScope {
        face: retry.face.as_str(),
        workspace_id: caller.workspace_id,
        route: retry.route,
        key: retry.key.clone(),
    }
}

/// What a continued turn stands on.
struct Continued {
    session: Session,
    attachment: Attachment,
}

impl Engine {
    /// Admits a turn. The answer means that it is recorded: it will run, and what it comes to can be read, whatever happens
    /// to this process.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_start(&self, caller: &Caller, request: TurnRequest) -> Result<StartedTurn> {
        let limit = self.settings.limits.input_bytes;
        if request.input.text.len() as u64 > limit {
            return Err(Error::invalid("input", format!("the input is longer than {limit} bytes")));
        }
        let scope = request.retry.as_ref().map(|retry| retry_scope(caller, retry));
        let turn_id = TurnId::new(self.ids.as_ref());
        // Before anybody can know of the turn: what removes sessions keeps away from those whose turns are driven.
        let driving = self.turns.begin(turn_id);
        // From the look at a version to the commit that pins it, nobody gives versions up.
        let versions = self.collector.versions.read().await;
        let (started, admitted) = self.decide(|| self.admit(caller, &request, scope.as_ref(), turn_id)).await?;
        drop(versions);
        if admitted.is_some() {
            self.faults.point("turn.admitted");
            // While turns are handed over nobody begins to drive: the next server process does.
            if let Some(driving) = driving {
                self.drive(caller.workspace_id, driving, admitted);
            }
        }
        Ok(started)
    }

    /// What an earlier request with this retry identity made, if there was one. A face asks before it takes in what comes
    /// along with a turn, so that a repetition takes in nothing; admission looks again.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_repeated(&self, caller: &Caller, retry: &RetryKey) -> Result<Option<StartedTurn>> {
        self.replayed(caller, &retry_scope(caller, retry)).await
    }

    async fn admit(
        &self,
        caller: &Caller,
        request: &TurnRequest,
        scope: Option<&IdempotencyScope>,
        turn_id: TurnId,
    ) -> Result<(Changes, (StartedTurn, Option<Box<Admitted>>))> {
        let replayed = async {
            match scope {
                None => Ok(None),
                Some(scope) => self.replayed(caller, scope).await,
            }
        };
        let asked = async {
            let continued = self.continued(caller, request).await?;
            let agent = self.agent_for(caller, request, continued.as_ref()).await?;
            Ok::<_, Error>((continued, agent))
        };
        let (replayed, asked) = tokio::join!(replayed, asked);
        if let Some(started) = replayed? {
            return Ok((Changes::new(), (started, None)));
        }
        let (continued, agent) = asked?;
        let reads = self.version_for(caller, request, &agent, continued.as_ref()).await?;
        let pin = reads.as_ref().map(|(project, build)| Pin { project_id: project.id, version: build.number });
        let at = self.now();
        let mut changes = Changes::new();
        let new_turn = NewTurn {
            id: turn_id,
            input: request.input.clone(),
            previous: request.previous,
            reads: pin,
            time_limit: request.time_limit,
            network: self.network_for(request, &agent)?,
            ignored_fields: request
                .ignored_fields
                .iter()
                .map(String::as_str)
                .chain(agent.without_effect())
                .map(str::to_owned)
                .collect(),
            requested_model: request.model.clone().or_else(|| agent.default_model.clone()),
            store: request.store,
        };
        let admitted = match continued {
            Some(Continued { mut session, mut attachment }) => {
                let turn = session.admit(&agent, new_turn, at)?;
                let event = session.event(turn.id, EventKind::TurnCreated, at);
                if pin.is_some_and(|pin| attachment.pin(pin.project_id, pin.version)) {
                    changes = changes.update(attachment.clone());
                    attachment.row_version += 1;
                }
                changes = changes.update(session.clone()).event(event);
                session.row_version += 1;
                Admitted { turn, session, attachment, reads, made: None }
            }
            None => {
                let id = SessionId::new(self.ids.as_ref());
                let mut session = Session::open(id, request.face, &agent, &request.input.text, at);
                let turn = session.admit(&agent, new_turn, at)?;
                let event = session.event(turn.id, EventKind::TurnCreated, at);
                let (environment, operation) = self.new_environment(&session, &turn, reads.as_ref())?;
                let attachment = Attachment {
                    id: AttachmentId::new(self.ids.as_ref()),
                    workspace_id: session.workspace_id,
                    session_id: session.id,
                    environment_id: environment.id,
                    name: Attachment::PRIMARY.to_owned(),
                    pins: pin.into_iter().collect(),
                    created_at: at,
                    row_version: 1,
                };
                changes = changes.insert(environment.clone()).insert(operation.clone()).insert(attachment.clone());
                changes = changes.insert(session.clone()).event(event);
                Admitted { turn, session, attachment, reads, made: Some((environment, operation)) }
            }
        };
        changes = changes.insert(admitted.turn.clone());
        if let (Some(scope), Some(retry)) = (scope, &request.retry) {
            changes = changes.fact(IdempotencyRecord {
                scope: scope.clone(),
                fingerprint: retry.fingerprint.clone(),
                turn_id,
                created_at: at,
            });
        }
        let started = StartedTurn { session: admitted.session.clone(), turn: admitted.turn.clone(), replayed: false };
        Ok((changes, (started, Some(Box::new(admitted)))))
    }

    async fn replayed(&self, caller: &Caller, scope: &IdempotencyScope) -> Result<Option<StartedTurn>> {
        let Some(record) = self.store.idempotency_fetch(scope).await.map_err(store_failed)? else { return Ok(None) };
        let view = self.turn_get(caller, record.turn_id).await?;
        Ok(Some(StartedTurn { session: view.session, turn: view.turn, replayed: true }))
    }

    async fn continued(&self, caller: &Caller, request: &TurnRequest) -> Result<Option<Continued>> {
        let Some(previous) = request.previous else { return Ok(None) };
        let turn = self.live_turn(caller, previous).await.map_err(|error| error.at("turn.previous"))?;
        let (session, attachments) =
            tokio::join!(self.session_of(caller, &turn), self.store.attachments_of(turn.session_id));
        let session = session.map_err(|error| error.at("turn.previous"))?;
        let attachments = attachments.map_err(store_failed)?;
        let attachment = attachments.into_iter().find(|attachment| attachment.name == Attachment::PRIMARY);
        let attachment =
            attachment.ok_or_else(|| Error::new(Code::Internal, "the session has lost its environment"))?;
        Ok(Some(Continued { session, attachment }))
    }

    async fn agent_for(&self, caller: &Caller, request: &TurnRequest, continued: Option<&Continued>) -> Result<Agent> {
        match (request.agent_id, continued) {
            (None, None) => {
                let message = "no model is configured, so there is no default agent; name one";
                let supported = json!({ "supported": Harness::ALL.map(Harness::as_str) });
                Err(Error::new(Code::ModelUnavailable, message).at("turn.agent").detail(supported))
            }
            (Some(id), None) => self.agent_get(caller, id).await.map_err(|error| error.at("turn.agent")),
            (named, Some(Continued { session, .. })) => {
                if let Some(named) = named
                    && named != session.agent_id
                {
                    self.agent_get(caller, named).await.map_err(|error| error.at("turn.agent"))?;
                    let message = "the continued session belongs to another agent";
                    return Err(Error::new(Code::AgentMismatch, message).at("turn.agent"));
                }
                self.agent_even_deleted(caller, session.agent_id).await
            }
        }
    }

    async fn version_for(
        &self,
        caller: &Caller,
        request: &TurnRequest,
        agent: &Agent,
        continued: Option<&Continued>,
    ) -> Result<Option<(Project, Build)>> {
        // The turn's own word, the agent's default, and where neither says anything, what the conversation has read so far.
        let usual = || {
            let so_far = continued.and_then(|continued| continued.session.project_id);
            let agents = agent.project_id.map(|id| (id, NamedBy::Agent));
            agents.or_else(|| so_far.map(|id| (id, NamedBy::Session)))
        };
        let chosen = match request.project {
            ProjectChoice::Named(id) => Some((id, NamedBy::Caller)),
            ProjectChoice::Nothing => None,
            ProjectChoice::Usual => usual(),
        };
        let Some((id, named_by)) = chosen else {
            return match request.version {
                None => Ok(None),
                Some(_) => Err(Error::invalid("turn.version", "the turn reads no project")),
            };
        };
        let at = |error: Error| named_by.refusal(error);
        let project = self.live_project(caller, id).await.map_err(at)?;
        let pinned = continued.and_then(|continued| continued.attachment.pinned(id));
        let number = match request.version {
            Some(VersionChoice::Number(number)) => Some(number),
            Some(VersionChoice::Active) => project.active,
            None => pinned.or(project.active),
        };
        let number = number
            .ok_or_else(|| at(Error::new(Code::ProjectNotReady, "nothing of the project is built; build it first")))?;
        let build = self.build_of(&project, number).await?.ok_or_else(|| {
            let message = format!("the project has no version {number}");
            Error::new(Code::ProjectNotReady, message).at("turn.version")
        })?;
        self.check_readable(&build).await.map_err(|mut error| {
            if request.version.is_none() && pinned.is_some() {
                let way_on = "; the session is pinned to it, and `turn.version` moves it: to `active`, or to a number";
                error.message.push_str(way_on);
            }
            at(error)
        })?;
        Ok(Some((project, build)))
    }

    /// The environment of a new session, with the operation that makes it already claimed: one commit less before Start.
    fn new_environment(
        &self,
        session: &Session,
        turn: &Turn,
        reads: Option<&(Project, Build)>,
    ) -> Result<(Environment, Operation)> {
        let at = session.created_at;
        let spec = self.start_spec(reads.map(|(project, build)| (project, build)), &turn.network)?;
        let spec_text = serde_json::to_string(&spec).map_err(Error::internal)?;
        let (environment, operation) = Environment::create(
            EnvironmentId::new(self.ids.as_ref()),
            OperationId::new(self.ids.as_ref()),
            session.workspace_id,
            self.provider.name(),
            &self.node,
            spec.network,
            &spec_text,
            at,
        );
        let operation = operation.transition(OperationEvent::Claimed(Lease::taken(self.server, at)), at)?;
        Ok((environment, operation))
    }
}
