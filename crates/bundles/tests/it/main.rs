//! Real-world faults as files in `tests/cases`, and archives made here.

mod cases;
mod collected;
mod hostile;
mod manifests;
mod corpus;
