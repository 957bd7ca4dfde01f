//! What every face is hung into: a table of its routes, the OpenAPI document that is made from it, a bound on live streams, and what no
//! body may be.
//!
//! A face names each route once, with [`Routes`]: the method, the path, the handler and what there is to say about it. From that
//! come its router, its table and its part of the document. What a route needs of a key is not said at all: it is read from the
//! handler's first argument, which is what refuses a key without it, so that the table cannot differ from the gate.
#![warn(missing_docs)]

mod document;
mod operation;
mod repeated;
mod streams;
mod table;

pub use document::{Document, DocumentError, Part};
pub use operation::{Operation, Parameter};
pub use repeated::repeated_name;
pub use streams::{Place, Streams};
pub use table::{Gate, Gated, RouteRow, Routes, Row};
