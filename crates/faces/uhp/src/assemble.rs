//! The one place where a turn becomes output: blocking answers take [`output`], streams feed an [`Assembler`], and both make
//! their items by the same function, so that they cannot differ (UHP §8).
//!
//! Files are known only when a turn has ended, and they belong to its last message. So the end of a message is held back until
//! another begins or the turn ends.

use stead_domain::event::EventKind as Happened;
use stead_domain::file::Artifact;
use stead_domain::item::Item;
use stead_domain::turn::Turn;
use stead_engine::TurnView;

use crate::wire::event::{Event, EventKind, Place};
use crate::wire::ids;
use crate::wire::response::{Annotation, ContentPart, OutputItem, Response};

/// The output of a turn as it stands.
pub fn output(view: &TurnView) -> Vec<OutputItem> {
    items(view).iter().map(|finished| message(&view.turn, finished)).collect()
}

/// A message with the files that belong to it.
#[derive(Debug, Clone)]
struct Finished {
    name: String,
    text: String,
    complete: bool,
    annotations: Vec<Annotation>,
}

impl From<&Item> for Finished {
    fn from(item: &Item) -> Self {
        match item {
            Item::Message { id, text, complete } => {
                Self { name: id.clone(), text: text.clone(), complete: *complete, annotations: Vec::new() }
            }
        }
    }
}

/// The messages of a turn; the last one carries the files. A turn that left files but said nothing says an empty message.
fn items(view: &TurnView) -> Vec<Finished> {
    let mut items: Vec<Finished> = view.turn.outcome.items.iter().map(Finished::from).collect();
    if items.is_empty() && !view.artifacts.is_empty() {
        items.push(Finished { name: "files".to_owned(), text: String::new(), complete: true, annotations: Vec::new() });
    }
    if let Some(last) = items.last_mut() {
        let end = last.text.chars().count();
        last.annotations = view.artifacts.iter().map(|artifact| annotation(artifact, end)).collect();
    }
    items
}

fn annotation(artifact: &Artifact, end: usize) -> Annotation {
    Annotation {
        kind: "container_file_citation",
        container_id: ids::container(artifact.session_id),
        file_id: artifact.id.to_string(),
        filename: artifact.path.clone(),
        download_url: ids::download_url(artifact.session_id, artifact.id),
        start_index: end,
        end_index: end,
    }
}

/// An item's id: what names it within its turn, made unique by the turn.
fn item_id(turn: &Turn, name: &str) -> String {
    format!("msg_{}_{}", turn.id.hex(), name.trim_start_matches("msg_"))
}

fn part(finished: &Finished) -> ContentPart {
    ContentPart::OutputText { text: finished.text.clone(), annotations: finished.annotations.clone() }
}

fn message(turn: &Turn, finished: &Finished) -> OutputItem {
    OutputItem::Message {
        id: item_id(turn, &finished.name),
        status: if finished.complete { "completed" } else { "incomplete" },
        role: "assistant",
        content: vec![part(finished)],
    }
}

/// An item that the stream has begun.
#[derive(Debug)]
struct Open {
    name: String,
    said: String,
    /// The item as it was reported whole; its text is the authority where deltas differ.
    whole: Option<Item>,
    closed: bool,
}

/// Turns what happens in a turn into the events of one stream.
#[derive(Debug)]
pub struct Assembler {
    turn: Turn,
    next: u64,
    open: Vec<Open>,
}

impl Assembler {
    /// A stream about this turn, which may have ended already.
    pub fn new(turn: Turn) -> Self {
        Self { turn, next: 0, open: Vec::new() }
    }

    /// The first events.
    pub fn begin(&mut self, view: &TurnView) -> Vec<Event> {
        let begun = Box::new(Response::begun(view));
        let kinds = vec![EventKind::Created { response: begun.clone() }, EventKind::InProgress { response: begun }];
        self.number(kinds)
    }

    /// What the stream says about an entry of the session's log.
    pub fn apply(&mut self, happened: &Happened) -> Vec<Event> {
        let mut kinds = Vec::new();
        match happened {
            Happened::ItemStarted { item } => {
                self.open_item(item.id(), &mut kinds);
                self.say(item.id(), item.text(), &mut kinds);
            }
            Happened::TextDelta { item_id, text } => {
                self.open_item(item_id, &mut kinds);
                self.add(item_id, text, &mut kinds);
            }
            Happened::ItemCompleted { item } => {
                self.open_item(item.id(), &mut kinds);
                self.say(item.id(), item.text(), &mut kinds);
                if let Some(index) = self.index(item.id()) {
                    self.open[index].whole = Some(item.clone());
                }
            }
            Happened::TurnCreated | Happened::TurnStarted | Happened::TurnEnded => {}
        }
        self.number(kinds)
    }

    /// A fault that does not end the stream.
    pub fn fault(&mut self, code: &'static str, message: String) -> Vec<Event> {
        self.number(vec![EventKind::Error { code, message, param: None }])
    }

    /// The last events of a turn that has ended: whatever was not said yet, and the whole response.
    pub fn finish(&mut self, view: &TurnView) -> Vec<Event> {
        let mut kinds = Vec::new();
        for finished in items(view) {
            self.open_item(&finished.name, &mut kinds);
            self.say(&finished.name, &finished.text, &mut kinds);
            self.close_item(&finished, &mut kinds);
        }
        kinds.push(EventKind::terminal(Response::of(view)));
        self.number(kinds)
    }

    /// The last event about a turn whose record is gone.
    pub fn abandon(&mut self, view: &TurnView) -> Vec<Event> {
        self.number(vec![EventKind::terminal(Response::gone(view))])
    }

    fn number(&mut self, kinds: Vec<EventKind>) -> Vec<Event> {
        let mut number = |kind| {
            let sequence_number = self.next;
            self.next += 1;
            Event { kind, sequence_number }
        };
        kinds.into_iter().map(&mut number).collect()
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.open.iter().position(|open| open.name == name)
    }

    fn place(&self, index: usize) -> Place {
        Place { item_id: item_id(&self.turn, &self.open[index].name), output_index: index, content_index: 0 }
    }

    /// Begins an item unless it has begun. The one before it is whole by then.
    fn open_item(&mut self, name: &str, kinds: &mut Vec<EventKind>) {
        if self.index(name).is_some() {
            return;
        }
        if let Some(before) = self.open.last().filter(|open| !open.closed) {
            let finished = match &before.whole {
                Some(item) => Finished::from(item),
                None => Finished {
                    name: before.name.clone(),
                    text: before.said.clone(),
                    complete: true,
                    annotations: Vec::new(),
                },
            };
            self.close_item(&finished, kinds);
        }
        let index = self.open.len();
        self.open.push(Open { name: name.to_owned(), said: String::new(), whole: None, closed: false });
        let id = item_id(&self.turn, name);
        let item = OutputItem::Message { id, status: "in_progress", role: "assistant", content: Vec::new() };
        kinds.push(EventKind::ItemAdded { output_index: index, item });
        let part = ContentPart::OutputText { text: String::new(), annotations: Vec::new() };
        kinds.push(EventKind::PartAdded { place: self.place(index), part });
    }

    /// Adds text to an item.
    fn add(&mut self, name: &str, text: &str, kinds: &mut Vec<EventKind>) {
        if let Some(index) = self.index(name)
            && !text.is_empty()
            && !self.open[index].closed
        {
            self.open[index].said.push_str(text);
            kinds.push(EventKind::TextDelta { place: self.place(index), delta: text.to_owned() });
        }
    }

    /// Brings an item's text to `whole`, as far as adding can: deltas that were folded away are said at once.
    fn say(&mut self, name: &str, whole: &str, kinds: &mut Vec<EventKind>) {
        if let Some(index) = self.index(name)
            && let Some(rest) = whole.strip_prefix(self.open[index].said.as_str())
        {
            let rest = rest.to_owned();
            self.add(name, &rest, kinds);
        }
    }

    fn close_item(&mut self, finished: &Finished, kinds: &mut Vec<EventKind>) {
        let Some(index) = self.index(&finished.name).filter(|index| !self.open[*index].closed) else { return };
        self.open[index].closed = true;
        let place = self.place(index);
        for (annotation_index, annotation) in finished.annotations.iter().cloned().enumerate() {
            kinds.push(EventKind::AnnotationAdded { place: place.clone(), annotation_index, annotation });
        }
        kinds.push(EventKind::TextDone { place: place.clone(), text: finished.text.clone() });
        kinds.push(EventKind::PartDone { place, part: part(finished) });
        kinds.push(EventKind::ItemDone { output_index: index, item: message(&self.turn, finished) });
    }
}
