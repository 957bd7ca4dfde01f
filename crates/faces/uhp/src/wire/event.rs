//! Streamed events (UHP §8).

use schemars::JsonSchema;
use serde::Serialize;

use super::response::{Annotation, ContentPart, OutputItem, Response};

/// One event and its place in the stream.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Event {
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
    /// 0, 1, 2, … per stream, without gaps.
    pub sequence_number: u64,
}

/// Which text of which item an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Place {
    /// The item.
    pub item_id: String,
    /// Its index in the output.
    pub output_index: usize,
    /// The part's index in the item.
    pub content_index: usize,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum EventKind {
    /// The first event.
    #[serde(rename = "response.created")]
    Created {
        /// Still in progress.
        response: Box<Response>,
    },
    /// The task is at work.
    #[serde(rename = "response.in_progress")]
    InProgress {
        /// Still in progress.
        response: Box<Response>,
    },
    /// An item begins.
    #[serde(rename = "response.output_item.added")]
    ItemAdded {
        /// Its index in the output.
        output_index: usize,
        /// The item, still empty.
        item: OutputItem,
    },
    /// A part of an item begins.
    #[serde(rename = "response.content_part.added")]
    PartAdded {
        /// Where.
        #[serde(flatten)]
        place: Place,
        /// The part, still empty.
        part: ContentPart,
    },
    /// Text was added.
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        /// Where.
        #[serde(flatten)]
        place: Place,
        /// The text.
        delta: String,
    },
    /// The text is whole.
    #[serde(rename = "response.output_text.done")]
    TextDone {
        /// Where.
        #[serde(flatten)]
        place: Place,
        /// All of it.
        text: String,
    },
    /// A file belongs to the text.
    #[serde(rename = "response.output_text.annotation.added")]
    AnnotationAdded {
        /// Where.
        #[serde(flatten)]
        place: Place,
        /// Its index among the part's annotations.
        annotation_index: usize,
        /// The file.
        annotation: Annotation,
    },
    /// The part is whole.
    #[serde(rename = "response.content_part.done")]
    PartDone {
        /// Where.
        #[serde(flatten)]
        place: Place,
        /// All of it.
        part: ContentPart,
    },
    /// The item is whole.
    #[serde(rename = "response.output_item.done")]
    ItemDone {
        /// Its index in the output.
        output_index: usize,
        /// All of it.
        item: OutputItem,
    },
    /// A fault that does not end the stream.
    #[serde(rename = "error")]
    Error {
        /// Machine-readable.
        code: &'static str,
        /// One safe sentence.
        message: String,
        /// The field at fault.
        param: Option<String>,
    },
    /// The last event of a task that ended well.
    #[serde(rename = "response.completed")]
    Completed {
        /// All of it.
        response: Box<Response>,
    },
    /// The last event of a task that a budget stopped.
    #[serde(rename = "response.incomplete")]
    Incomplete {
        /// All of it.
        response: Box<Response>,
    },
    /// The last event of a task that failed or was cancelled; the response's status says which.
    #[serde(rename = "response.failed")]
    Failed {
        /// All of it.
        response: Box<Response>,
    },
}

impl EventKind {
    /// The last event that fits a response.
    pub fn terminal(response: Response) -> Self {
        let response = Box::new(response);
        match response.status {
            "completed" => Self::Completed { response },
            "incomplete" => Self::Incomplete { response },
            _ => Self::Failed { response },
        }
    }

    /// Whether nothing may follow.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Incomplete { .. } | Self::Failed { .. })
    }
}
