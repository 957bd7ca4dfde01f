//! A source listed (UHP Environments §3): whole, or in pages as an extension (`limit`, `after`, `under`).
//!
//! However many entries there are, a batch of them is in memory: a large tree is written as it is read. Batches and pages are
//! read one after the other, so edits made meanwhile may show; the size is that of the row as the last batch found it.

use std::io;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;
use stead_domain::key::Caller;
use stead_domain::{Error, ProjectId, Result, SourcePath};
use stead_engine::{Engine, SourcePage, SourceSelection};

use super::{Answer, json};
use crate::auth::Reader;
use crate::names::Names;
use crate::query::Query;
use crate::reply;
use crate::state::FaceState;
use crate::wire::environment::{FileEntry, FileTree, FileTreeEnd};
use crate::wire::ids;

/// How many entries are read at once.
const BATCH: usize = 2_000;
/// The largest page.
pub(super) const LARGEST_PAGE: usize = 10_000;

/// What is asked for, and whether in a page.
fn selection(query: &Query) -> Result<(SourceSelection, bool)> {
    let path = |name: &str| {
        let text = query.get(name).filter(|text| !text.is_empty());
        let read = |text| SourcePath::parse(text).map_err(|error| Error::invalid(name, error.message));
        text.map(read).transpose()
    };
    let limit = query.get("limit").map(|text| {
        let limit = text.parse().ok().filter(|limit| (1..=LARGEST_PAGE).contains(limit));
        limit.ok_or_else(|| Error::invalid("limit", format!("`limit` is a number from 1 to {LARGEST_PAGE}")))
    });
    let limit = limit.transpose()?;
    let selection = SourceSelection { under: path("under")?, after: path("after")?, limit: limit.unwrap_or(BATCH) };
    Ok((selection, limit.is_some()))
}

pub(super) async fn tree(Reader(caller): Reader, State(state): State<FaceState>, names: Names, query: Query) -> Answer {
    let (selection, paged) = selection(&query)?;
    let id = ids::parse_environment(&names.first)?;
    let page = state.engine.source_page(&caller, id, &selection).await?;
    if paged || !page.more {
        return json(FileTree::page(&page.entries, page.more, page.size));
    }
    let listing = Listing { engine: state.engine, caller, id, selection, state: Next::Begin(page) };
    Ok(reply::json_stream(Body::from_stream(stream::try_unfold(listing, Listing::piece))))
}

/// A listing under way.
struct Listing {
    engine: Engine,
    caller: Caller,
    id: ProjectId,
    selection: SourceSelection,
    state: Next,
}

/// What is to be done when the caller can take more.
enum Next {
    /// Write the first batch, which is there.
    Begin(SourcePage),
    /// Read another batch and write it.
    Read,
    Done,
}

impl Listing {
    /// The next piece of the answer. A fault, or the project's deletion, breaks the answer off: it never ends as if it were whole.
    async fn piece(mut self) -> io::Result<Option<(Bytes, Self)>> {
        let (mut text, page, follows) = match std::mem::replace(&mut self.state, Next::Done) {
            Next::Done => return Ok(None),
            Next::Begin(page) => (b"{\"entries\":[".to_vec(), page, false),
            Next::Read => {
                let page = self.engine.source_page(&self.caller, self.id, &self.selection).await;
                (Vec::new(), page.map_err(io::Error::other)?, true)
            }
        };
        text.reserve(page.entries.len() * 128);
        for (index, entry) in page.entries.iter().enumerate() {
            if index > 0 || follows {
                text.push(b',');
            }
            FileEntry::from(entry).serialize(&mut serde_json::Serializer::new(&mut text)).map_err(io::Error::other)?;
        }
        if page.more {
            self.selection.after = page.entries.last().map(|entry| entry.path.clone());
            self.state = Next::Read;
        } else {
            let end = serde_json::to_vec(&FileTreeEnd::whole(page.size)).map_err(io::Error::other)?;
            // The members that follow the entries, without the brace that opens them.
            text.extend_from_slice(b"],");
            text.extend_from_slice(&end[1..]);
        }
        Ok(Some((Bytes::from(text), self)))
    }
}
