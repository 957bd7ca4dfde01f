//! Real-world faults as files in `tests/field-cases`, and archives made here.

mod cases;
mod collected;
mod corpus;
mod hostile;
mod manifests;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
