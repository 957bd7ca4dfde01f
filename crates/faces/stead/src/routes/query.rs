//! Query parameters.

use serde::Deserialize;
use stead_domain::{Error, Result};

use crate::extract::Parameters;

impl Parameters for Begin {
    const NAMES: &'static [&'static str] = &["from"];
}

impl Parameters for Fresh {
    const NAMES: &'static [&'static str] = &["fresh"];
}

impl Parameters for AuditPage {
    const NAMES: &'static [&'static str] =
        &["workspace", "limit", "cursor", "key", "action", "target", "request_id", "since", "until"];
}

impl Parameters for OfWorkspace {
    const NAMES: &'static [&'static str] = &["workspace"];
}

/// Where a stream begins.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Begin {
    from: Option<String>,
}

impl Begin {
    pub(crate) fn offset(&self) -> Result<u64> {
        let Some(text) = &self.from else { return Ok(0) };
        text.parse().map_err(|_| Error::invalid("from", "`from` is a number of bytes"))
    }
}

/// How a build is made.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Fresh {
    fresh: Option<String>,
}

impl Fresh {
    pub(crate) fn is_set(&self) -> Result<bool> {
        match self.fresh.as_deref() {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(_) => Err(Error::invalid("fresh", "`fresh` is 0 or 1")),
        }
    }
}

/// Which part of the audit log.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AuditPage {
    /// A workspace's id or name; all that the caller sees when absent.
    pub(crate) workspace: Option<String>,
    pub(crate) limit: Option<String>,
    pub(crate) cursor: Option<String>,
    /// A key's id or name.
    pub(crate) key: Option<String>,
    /// A part of the route.
    pub(crate) action: Option<String>,
    /// An id, as any face spells it.
    pub(crate) target: Option<String>,
    pub(crate) request_id: Option<String>,
    /// Seconds since 1970, as `created_at` has them.
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
}

/// Whose keys are meant.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct OfWorkspace {
    /// A workspace's id or name; the caller's own when absent.
    pub(crate) workspace: Option<String>,
}
