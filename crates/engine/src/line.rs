//! The line of turns that wait for a place at a full provider, in the order of their admission.
//!
//! Who is first may ask the provider when a place may have become free, and once in a while unasked. A provider may refuse one
//! workspace what it has for another, so when the first has asked in vain, the first of each other workspace asks after him, in
//! the same order; nobody asks before an earlier one of his own workspace. One asks at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use stead_domain::{TurnId, WorkspaceId};
use tokio::sync::Notify;

/// How often the first asks without having heard of a free place.
const POLL: Duration = Duration::from_secs(1);

/// The line.
#[derive(Debug, Default)]
pub(crate) struct Line(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Ids sort by admission.
    waiting: BTreeMap<TurnId, Waiter>,
    /// Whose turn it is to ask.
    asking: Option<TurnId>,
    /// Whether a place may have become free since the first has asked.
    again: bool,
}

#[derive(Debug)]
struct Waiter {
    workspace: WorkspaceId,
    go: Arc<Notify>,
}

/// Held while in line; dropping it leaves the line, and lets the next one ask.
#[derive(Debug)]
pub(crate) struct InLine<'a> {
    line: &'a Line,
    id: TurnId,
    go: Arc<Notify>,
}

impl Line {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody waits, so that there is nobody to wait behind.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Gets in line, behind everybody who was admitted before.
    pub(crate) fn enter(&self, workspace: WorkspaceId, id: TurnId) -> InLine<'_> {
        let go = Arc::new(Notify::new());
        let mut state = self.lock();
        state.waiting.insert(id, Waiter { workspace, go: go.clone() });
        state.begin();
        InLine { line: self, id, go }
    }

    /// A place may have become free.
    pub(crate) fn freed(&self) {
        self.lock().begin();
    }
}

impl State {
    /// Lets everybody ask who may, beginning with the first.
    fn begin(&mut self) {
        if self.asking.is_some() {
            self.again = true;
        } else if let Some(first) = self.waiting.keys().next().copied() {
            self.give(first);
        }
    }

    fn give(&mut self, id: TurnId) {
        self.asking = Some(id);
        if let Some(waiter) = self.waiting.get(&id) {
            waiter.go.notify_one();
        }
    }

    /// The first of another workspace, behind this one.
    fn after(&self, id: TurnId) -> Option<TurnId> {
        let earlier = |at: TurnId, workspace| self.waiting.range(..at).any(|(_, waiter)| waiter.workspace == workspace);
        let behind = self.waiting.iter().filter(|(at, _)| **at > id);
        behind.map(|(at, waiter)| (*at, waiter.workspace)).find(|(at, own)| !earlier(*at, *own)).map(|(at, _)| at)
    }

    fn refused(&mut self, id: TurnId) {
        if self.asking != Some(id) {
            return;
        }
        self.asking = None;
        match self.after(id) {
            Some(next) => self.give(next),
            None if std::mem::take(&mut self.again) => self.begin(),
            None => {}
        }
    }
}

impl InLine<'_> {
    /// Returns when it is this one's turn to ask.
    pub(crate) async fn turn(&self) {
        loop {
            tokio::select! {
                () = self.go.notified() => return,
                () = tokio::time::sleep(POLL) => {
                    let mut state = self.line.lock();
                    if state.waiting.keys().next() == Some(&self.id) {
                        state.begin();
                    }
                }
            }
        }
    }

    /// It has asked in vain.
    pub(crate) fn refused(&self) {
        let mut state = self.line.lock();
        // Who got in line because he was refused has a chance that he never took.
        let _ = self.go.notified().now_or_never();
        state.refused(self.id);
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        state.waiting.remove(&self.id);
        if state.asking == Some(self.id) {
            // It has a place, or wants none any more: there may be one for the next.
            state.asking = None;
            state.again = false;
            state.begin();
        }
    }
}

#[cfg(test)]
mod tests {
    use stead_testkit::SeededIds;

    use super::*;

    fn may_ask(place: &InLine<'_>) -> bool {
        place.turn().now_or_never().is_some()
    }

    #[tokio::test]
    async fn the_first_asks_first_whoever_came_into_line_first() {
        let ids = SeededIds::new(1);
        let (workspace, other) = (WorkspaceId::new(&ids), WorkspaceId::new(&ids));
        let [first, second, third] = [0; 3].map(|_| TurnId::new(&ids));
        let line = Line::default();
        let late = line.enter(workspace, second);
        assert!(may_ask(&late));
        let foreign = line.enter(other, third);
        let early = line.enter(workspace, first);
        assert!(!may_ask(&early) && !may_ask(&foreign), "one asks at a time");
        late.refused();
        assert!(may_ask(&foreign), "the first of another workspace asks after that");
        foreign.refused();
        assert!(may_ask(&early), "who came in meanwhile has his chance");
        early.refused();
        assert!(!may_ask(&late), "an earlier one of its workspace waits");
        assert!(may_ask(&foreign));
        foreign.refused();
        line.freed();
        assert!(may_ask(&early) && !may_ask(&foreign) && !may_ask(&late));
        drop(early);
        assert!(may_ask(&late), "a place leads to the next attempt");
        drop(late);
        drop(foreign);
        assert!(line.is_empty());
    }

    #[tokio::test]
    async fn a_lost_hint_costs_a_second() {
        let ids = SeededIds::new(1);
        let line = Line::default();
        let place = line.enter(WorkspaceId::new(&ids), TurnId::new(&ids));
        place.turn().await;
        place.refused();
        assert!(!may_ask(&place));
        tokio::time::timeout(POLL * 2, place.turn()).await.unwrap();
    }
}
