//! Sessions: conversations, their history and attachments.

use std::time::Duration;

use crate::agent::{Agent, Harness};
use crate::attachment::Pin;
use crate::error::{Code, Error, Result};
use crate::event::{Event, EventKind};
use crate::ids::{AgentId, ProjectId, SessionId, TurnId, WorkspaceId};
use crate::network::NetworkPolicy;
use crate::time::Timestamp;
use crate::turn::{Turn, TurnInput, TurnOutcome, TurnState};

/// The face that made a session; it is addressable there alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Face {
    /// The Unified Harness Protocol.
    Uhp,
}

impl Face {
    /// The face as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Face::Uhp => "uhp",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        (text == "uhp").then_some(Face::Uhp)
    }
}

/// A conversation. Its row is the lock on everything in it: each commit about the session names the row version it read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its identity.
    pub id: SessionId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// The face that made it.
    pub face: Face,
    /// The agent it belongs to.
    pub agent_id: AgentId,
    /// What runs its turns.
    pub harness: Harness,
    /// What it is about: the beginning of its first input.
    pub title: String,
    /// The project that its latest turn reads, and that the next one does unless it says otherwise.
    pub project_id: Option<ProjectId>,
    /// The turn that is not ended.
    pub active_turn: Option<TurnId>,
    /// The newest turn.
    pub latest_turn: Option<TurnId>,
    /// The newest turn's state.
    pub latest_state: TurnState,
    /// How many turns it has had.
    pub turns: i64,
    /// The number that its next event gets.
    pub next_sequence: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub updated_at: Timestamp,
    /// When it was deleted; what remains is being removed.
    pub deleted_at: Option<Timestamp>,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

/// What a caller asks a new turn to be.
#[derive(Debug, Clone)]
pub struct NewTurn {
    /// Its identity.
    pub id: TurnId,
    /// What is asked for.
    pub input: TurnInput,
    /// The turn that the caller continues.
    pub previous: Option<TurnId>,
    /// The project version it reads.
    pub reads: Option<Pin>,
    /// Wall-clock budget; the agent's when absent.
    pub time_limit: Option<Duration>,
    /// What it may reach.
    pub network: NetworkPolicy,
    /// Request fields that nobody will act on.
    pub ignored_fields: Vec<String>,
    /// The model that was asked for by name.
    pub requested_model: Option<String>,
    /// Whether the caller wants it kept for later reads.
    pub store: bool,
}

/// The longest title, in characters.
const TITLE: usize = 80;

impl Session {
    /// A new conversation of an agent, before its first turn.
    pub fn open(id: SessionId, face: Face, agent: &Agent, first_input: &str, at: Timestamp) -> Self {
        let line = first_input.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        Self {
            id,
            workspace_id: agent.workspace_id,
            face,
            agent_id: agent.id,
            harness: agent.harness,
            title: line.chars().take(TITLE).collect(),
            project_id: None,
            active_turn: None,
            latest_turn: None,
            latest_state: TurnState::Queued,
            turns: 0,
            next_sequence: 1,
            created_at: at,
            updated_at: at,
            deleted_at: None,
            row_version: 1,
        }
    }

    /// Admits a turn. One turn is active at a time; input while one is active is refused (the `Refuse` rule of UHP).
    pub fn admit(&mut self, agent: &Agent, new: NewTurn, at: Timestamp) -> Result<Turn> {
        if self.active_turn.is_some() {
            return Err(Error::new(Code::SessionBusy, "a task is already running in this session"));
        }
        self.turns += 1;
        self.active_turn = Some(new.id);
        self.latest_turn = Some(new.id);
        self.latest_state = TurnState::Queued;
        self.project_id = new.reads.map(|pin| pin.project_id);
        self.updated_at = at;
        Ok(Turn {
            id: new.id,
            workspace_id: self.workspace_id,
            session_id: self.id,
            number: self.turns,
            previous: new.previous,
            agent_id: self.agent_id,
            harness: self.harness,
            state: TurnState::Queued,
            input: new.input,
            reads: new.reads,
            time_limit: new.time_limit.or(agent.time_limit),
            network: new.network,
            ignored_fields: new.ignored_fields,
            requested_model: new.requested_model,
            store: new.store,
            outcome: TurnOutcome::default(),
            lease: None,
            created_at: at,
            started_at: None,
            finished_at: None,
            deleted_at: None,
            row_version: 1,
        })
    }

    /// Snapshots what a changed turn means for the session.
    pub fn observe(&mut self, turn: &Turn, at: Timestamp) {
        if self.latest_turn == Some(turn.id) {
            self.latest_state = turn.state;
        }
        if turn.state.is_ended() && self.active_turn == Some(turn.id) {
            self.active_turn = None;
        }
        self.updated_at = at;
    }

    /// The next entry of the session's log.
    pub fn event(&mut self, turn: TurnId, kind: EventKind, at: Timestamp) -> Event {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        Event { session_id: self.id, sequence, turn_id: turn, at, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::TurnEvent;
    use crate::turn::tests::sample;

    fn agent() -> Agent {
        let turn = sample(TurnState::Queued);
        Agent {
            id: turn.agent_id,
            workspace_id: turn.workspace_id,
            name: "a".into(),
            harness: Harness::Shell,
            instructions: String::new(),
            default_model: None,
            project_id: None,
            disabled_tools: vec![],
            max_step: None,
            time_limit: Some(Duration::from_secs(5)),
            network: None,
            created_at: Timestamp::from_micros(1),
            updated_at: Timestamp::from_micros(1),
            deleted_at: None,
            row_version: 1,
        }
    }

    fn new_turn() -> NewTurn {
        NewTurn {
            id: sample(TurnState::Queued).id,
            input: TurnInput::default(),
            previous: None,
            reads: None,
            time_limit: None,
            network: NetworkPolicy::Disabled,
            ignored_fields: vec![],
            requested_model: None,
            store: true,
        }
    }

    #[test]
    fn one_turn_at_a_time_and_the_session_follows_it() {
        let at = Timestamp::from_micros(2);
        let mut session = Session::open(sample(TurnState::Queued).session_id, Face::Uhp, &agent(), "\n  hi\nthere", at);
        assert_eq!(session.title, "hi");
        let turn = session.admit(&agent(), new_turn(), at).unwrap();
        assert_eq!(turn.time_limit, Some(Duration::from_secs(5)));
        assert_eq!(session.admit(&agent(), new_turn(), at).unwrap_err().code, Code::SessionBusy);
        let ended = turn.transition(TurnEvent::CancelRequested, at).unwrap();
        session.observe(&ended, at);
        assert_eq!((session.active_turn, session.latest_state), (None, TurnState::Cancelled));
        let pin = Pin { project_id: ProjectId::from_uuid(ended.id.uuid()), version: 1 };
        let reading = NewTurn { reads: Some(pin), ..new_turn() };
        let ended = session.admit(&agent(), reading, at).unwrap().transition(TurnEvent::CancelRequested, at).unwrap();
        session.observe(&ended, at);
        assert_eq!((ended.number, session.project_id), (2, Some(pin.project_id)));
        session.admit(&agent(), new_turn(), at).unwrap();
        assert_eq!(session.project_id, None, "a turn that reads nothing lets go of what was read");
    }

    #[test]
    fn events_are_numbered_without_gaps() {
        let at = Timestamp::from_micros(2);
        let mut session = Session::open(sample(TurnState::Queued).session_id, Face::Uhp, &agent(), "", at);
        let turn = sample(TurnState::Queued).id;
        let numbers: Vec<i64> = (0..3).map(|_| session.event(turn, EventKind::TurnCreated, at).sequence).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }
}
