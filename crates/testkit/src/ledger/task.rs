//! Tasks and their sessions as their owner knows them.

use std::time::Instant;

use super::known::Known;

/// A conversation that one client owns alone.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its id, once it is known.
    pub id: Option<String>,
    /// Whether its deletion was asked for and acknowledged.
    pub deleted: Known<bool>,
    /// Its tasks, oldest first. One that is known never to have been admitted is taken out.
    pub tasks: Vec<Task>,
}

impl Session {
    /// Whether it is there and everything about it is certain, so that it may be asked for something.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let is_certain = self.deleted.asked().is_none() && self.tasks.iter().all(|task| task.response.is_some());
        self.id.is_some() && is_certain
    }

    /// Whether nothing runs in it any more, as far as can be told.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tasks.iter().all(|task| task.until.is_none_or(|until| until < Instant::now()))
    }
}

/// How far the cancelling of a task got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// Nobody has asked.
    No,
    /// It was asked for.
    Asked,
}

/// How a task ended, as its owner has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The protocol's word.
    pub status: String,
    /// What it said.
    pub text: String,
}

/// One task.
#[derive(Debug, Clone)]
pub struct Task {
    /// No other's, in all rounds.
    pub name: String,
    /// The request's body.
    pub body: String,
    /// The key that makes it repeatable.
    pub key: Option<String>,
    /// What it says when it runs to its end.
    pub says: String,
    /// The file that it leaves.
    pub leaves: Option<(String, Vec<u8>)>,
    /// The response's id, once it is known.
    pub response: Option<String>,
    /// What of its output was delivered while it ran.
    pub delivered: String,
    /// Whether its end was asked for.
    pub cancel: Cancel,
    /// Its end, once it was read.
    pub end: Option<End>,
    /// Until when it runs at least, when it is known to have been admitted.
    pub until: Option<Instant>,
    /// Whether the machine kept it from what it was to do, so that only its end stays as it was read.
    pub hampered: bool,
}

impl Task {
    /// What is wrong with an end that was found, and nothing when it is one that the task can have.
    ///
    /// `ran` is how often its side effect was seen.
    #[must_use]
    pub fn faults(&self, found: &End, ran: usize, interruptible: bool) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(known) = &self.end
            && known != found
        {
            faults.push(format!("it ended as {known:?} and now reads {found:?}"));
        }
        if ran > 1 {
            faults.push(format!("it ran {ran} times"));
        }
        if self.hampered {
            return faults;
        }
        if !self.says.starts_with(&found.text) {
            faults.push(format!("it says {:?} instead of {:?}", found.text, self.says));
        }
        if !found.text.starts_with(&self.delivered) {
            faults.push(format!("it says {:?}, and {:?} was delivered", found.text, self.delivered));
        }
        match found.status.as_str() {
            "completed" => {
                if found.text != self.says {
                    faults.push(format!("it is completed and says {:?} instead of {:?}", found.text, self.says));
                }
                if ran != 1 {
                    faults.push(format!("it is completed and ran {ran} times"));
                }
            }
            "cancelled" if self.cancel != Cancel::No => {}
            "failed" if interruptible => {}
            other => faults.push(format!("it ended as {other}, which nobody asked for")),
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task {
            name: "t".to_owned(),
            body: String::new(),
            key: None,
            says: "one\ntwo\n".to_owned(),
            leaves: None,
            response: None,
            delivered: "one\n".to_owned(),
            cancel: Cancel::No,
            end: None,
            until: None,
            hampered: false,
        }
    }

    #[test]
    fn an_end_is_one_that_the_task_can_have() {
        let end = |status: &str, text: &str| End { status: status.to_owned(), text: text.to_owned() };
        let task = task();
        let count = |end: &End, ran, interruptible| task.faults(end, ran, interruptible).len();
        assert_eq!(count(&end("completed", "one\ntwo\n"), 1, false), 0);
        assert_eq!(count(&end("failed", "one\n"), 1, true), 0);
        assert_eq!(count(&end("failed", "one\n"), 1, false), 1, "nothing interrupted it");
        assert_eq!(count(&end("failed", ""), 0, true), 1, "what was delivered is lost");
        assert_eq!(count(&end("completed", "one\n"), 1, true), 1, "output is missing");
        assert_eq!(count(&end("completed", "one\ntwo\n"), 2, true), 2, "it ran twice");
        assert_eq!(count(&end("completed", "one\ntwo\n"), 0, true), 1, "it never ran");
        assert_eq!(count(&end("cancelled", "one\n"), 1, true), 1, "nobody cancelled it");
        let ended = Task { end: Some(end("completed", "one\ntwo\n")), ..task.clone() };
        assert_eq!(ended.faults(&end("failed", "one\n"), 1, true).len(), 1, "an end stays");
    }
}
