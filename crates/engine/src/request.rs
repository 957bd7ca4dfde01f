//! The request that a task works for: what an answer, a log line and an entry of the audit log have in common.
//!
//! The server makes one [`RequestRecord`] for each request, in its outermost layer, and answers within its
//! [`scope`](RequestRecord::scope). Whoever learns more of the request writes it down: a face which route it is, the engine
//! whose key it carries. The first commit that is made within the scope bears the entry of the audit log: there is one for
//! each request that changes something, and it costs no commit of its own.
//!
//! Tasks that a request starts are not within its scope: what they commit, nobody asks for any more. They have a span instead
//! that names the request (see `supervisor`).

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use stead_domain::audit::{Actor, AuditEntry, AuditTarget};
use stead_domain::changes::Changes;
use stead_domain::key::Caller;
use stead_domain::ports::IdSource;
use stead_domain::{AuditId, KeyId, WorkspaceId};

use crate::engine::Engine;

/// The longest id that a caller may choose for a request, in bytes: too short for a secret of this server.
const LONGEST: usize = 64;

tokio::task_local! {
    static CURRENT: Arc<RequestRecord>;
}

/// What is known of a request while it is answered.
#[derive(Debug)]
pub struct RequestRecord {
    id: String,
    route: OnceLock<(String, String)>,
    caller: OnceLock<(WorkspaceId, KeyId)>,
    audited: AtomicBool,
    /// What it concerns that the rows it changes do not name.
    concerns: Mutex<Vec<AuditTarget>>,
}

/// Whether an id that a caller chose may stand in headers and logs as it is.
fn is_harmless(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !id.is_empty() && id.len() <= LONGEST && id.bytes().all(plain)
}

impl RequestRecord {
    /// A request under the id that its caller chose, where that is 1 to 64 letters, digits, `-`, `_` and `.`, or else under a new
    /// one of 32 hexadecimal digits.
    pub fn new(chosen: Option<&str>, ids: &dyn IdSource) -> Arc<Self> {
        let id = match chosen.filter(|id| is_harmless(id)) {
            Some(id) => id.to_owned(),
            None => ids.uuid_v7().simple().to_string(),
        };
        Arc::new(Self {
            id,
            route: OnceLock::new(),
            caller: OnceLock::new(),
            audited: AtomicBool::new(false),
            concerns: Mutex::default(),
        })
    }

    /// Writes down what the request concerns besides what the rows of its changes name.
    pub(crate) fn concerns(target: AuditTarget) {
        let Some(record) = Self::current() else { return };
        let mut concerns = record.concerns.lock().unwrap_or_else(PoisonError::into_inner);
        if !concerns.contains(&target) {
            concerns.push(target);
        }
    }

    /// The request that this task works for.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Works for this request.
    pub async fn scope<F: Future>(self: Arc<Self>, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Writes down which route it is: its method, and its path with the names of parameters.
    pub fn routed(&self, method: &str, path: &str) {
        // A request has one route; a layer that is passed twice says the same again.
        let _ = self.route.set((method.to_owned(), path.to_owned()));
    }

    /// Which route it is: its path with the names of parameters. None before that is known, and for a path that no route has.
    pub fn route(&self) -> Option<&str> {
        self.route.get().map(|(_, path)| path.as_str())
    }

    /// The workspace and the key of who asks, once that is known.
    pub fn caller(&self) -> Option<(WorkspaceId, KeyId)> {
        self.caller.get().copied()
    }

    pub(crate) fn authenticated(&self, caller: &Caller) {
        let _ = self.caller.set((caller.workspace_id, caller.key_id));
    }

    fn actor(&self) -> Option<Actor> {
        let (workspace_id, key_id) = self.caller()?;
        let (method, path) = self.route.get()?;
        let action = format!("{method} {path}");
        Some(Actor { workspace_id, key_id, request_id: self.id.clone(), action })
    }
}

/// An entry of the audit log on its way to the store. Dropped before it is [`kept`](PendingEntry::kept), it leaves the request
/// without one.
pub(crate) struct PendingEntry {
    record: Arc<RequestRecord>,
    kept: bool,
}

impl PendingEntry {
    pub(crate) fn kept(mut self) {
        self.kept = true;
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        if !self.kept {
            self.record.audited.store(false, Ordering::SeqCst);
        }
    }
}

impl Engine {
    /// The request that this task works for, or a new one.
    pub fn request_record(&self, chosen: Option<&str>) -> Arc<RequestRecord> {
        RequestRecord::current().unwrap_or_else(|| RequestRecord::new(chosen, self.ids.as_ref()))
    }

    /// The entry of the audit log that `changes` shall bear: where somebody asks for them, and nothing that the same request has
    /// committed bears one.
    pub(crate) fn audit(&self, changes: &Changes) -> Option<(AuditEntry, PendingEntry)> {
        let record = RequestRecord::current()?;
        let actor = record.actor()?;
        if record.audited.swap(true, Ordering::SeqCst) {
            return None;
        }
        let mut entry = actor.entry(AuditId::new(self.ids.as_ref()), self.now(), changes);
        entry.targets.extend(record.concerns.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        Some((entry, PendingEntry { record, kept: false }))
    }
}

#[cfg(test)]
mod tests {
    use stead_testkit::SeededIds;

    use super::*;

    #[tokio::test]
    async fn a_callers_id_is_kept_when_it_is_harmless() {
        let ids = SeededIds::new(1);
        let id = |chosen: Option<&str>| RequestRecord::new(chosen, &ids).id().to_owned();
        assert_eq!(id(Some("mine-1_A.b")), "mine-1_A.b");
        let secret = format!("stead_{}", "a".repeat(64));
        for wrong in [None, Some(""), Some("a b"), Some("a\"b"), Some("ü"), Some(secret.as_str())] {
            let made = id(wrong);
            assert!(made.len() == 32 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{wrong:?}: {made}");
        }
        assert!(RequestRecord::current().is_none());
        let record = RequestRecord::new(Some("x"), &ids);
        record.clone().scope(async { assert_eq!(RequestRecord::current().unwrap().id(), "x") }).await;
    }
}
