//! The use cases of Stead: a module each, over the ports of the domain.
//!
//! A use case reads a typed view, lets a pure function of the domain decide, and commits the [`Changes`] it returned; when
//! another commit came first it reads and decides again (`commit`). Outside effects are recorded as operations and carried
//! out by reconcilers (`operations`, `turns::drive`, `builds::run`), which look only at stored state, so that a request
//! handler never waits on a provider and a crash neither loses nor doubles anything.
//!
//! Deliberately not here: SQL, HTTP, a vendor's name, a protocol's word.
//!
//! [`Changes`]: stead_domain::changes::Changes
#![warn(missing_docs)]

mod agents;
mod answers;
mod audit;
mod bootstrap;
mod builds;
mod collect;
mod commit;
mod engine;
mod fair_queue;
mod fault;
mod files;
mod handover;
mod hub;
mod keys;
mod limits;
mod line;
mod mounts;
mod network;
mod operations;
mod packages;
mod patience;
mod projects;
mod quotas;
mod recovery;
mod request;
mod sessions;
mod source;
mod spool;
mod supervisor;
mod sweep;
mod tallies;
mod tools;
mod turns;
mod turnstile;
mod waiting;
mod workspaces;

pub use agents::AgentText;
pub use audit::{AuditPart, AuditQuery};
pub use bootstrap::Bootstrap;
pub use builds::{LogPart, LogStream};
pub use collect::{CollectionReport, CollectionSettings};
pub use engine::{Engine, Parts};
pub use fault::MOMENTS;
pub use limits::{GitSettings, Limits, Settings};
pub use packages::{PackageCheck, Runtimes};
pub use patience::StoreUse;
pub use projects::{ProjectText, ProjectView};
pub use quotas::{Quotas, Usage};
pub use request::RequestRecord;
pub use source::{FileWrite, GitImport, ImportReport, SkippedMember, SourcePage, SourceSelection, Submodule, Taken};
pub use spool::{SpoolWriter, Spooled};
pub use tools::{BuildRegistries, Tools};
pub use turns::{
    EventStream, OutputChunk, OutputRecords, OutputStreamOf, ProjectChoice, RetryKey, StartedTurn, TurnRequest,
    TurnView, VersionChoice,
};
