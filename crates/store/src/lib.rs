//! The store: rows in SQLite (the default) or PostgreSQL, from one SQL text.
//!
//! It implements [`stead_domain::ports::Store`] and decides nothing: a commit carries out what a decision returned, at once
//! or not at all, and a read answers one question. Entry points: [`SqlStore::open`] with a [`StoreConfig`].
//!
//! * `driver` speaks to either engine; nothing above it knows which.
//! * `columns` and `table` say how values and rows become columns; `rows` holds one file per noun with its SQL.
//! * `writer` is the one task that writes, many commits at a time; `apply` is what it does for each.
//! * `claim` keeps a PostgreSQL database for one server.
//! * `reads` answers the questions; `migrations` brings a database up to this binary's schema.
#![warn(missing_docs)]

mod apply;
mod claim;
mod columns;
mod config;
mod driver;
mod migrations;
mod reads;
mod rows;
mod store;
mod table;
mod writer;

pub use config::{DatabaseUrl, DatabaseUrlError, Relief, StoreConfig};
pub use migrations::OpenError;
pub use store::{SqlStore, StoreStats, check};
