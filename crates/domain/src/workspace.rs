//! The tenant.

use crate::error::{Error, Result};
use crate::ids::WorkspaceId;
use crate::time::Timestamp;

/// The longest name of a workspace, in bytes.
pub const MAX_NAME: usize = 200;

/// A tenant: every object belongs to exactly one, and nothing of one is visible in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its identity.
    pub id: WorkspaceId,
    /// What people call it; no two workspaces of a deployment have one name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Workspace {
    /// A workspace of that name, spaces around it removed. What could be taken for an id is no name, since commands take
    /// either.
    pub fn new(id: WorkspaceId, name: &str, created_at: Timestamp) -> Result<Self> {
        let name = name.trim();
        if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) {
            let message = format!("a workspace's name is one line of 1 to {MAX_NAME} bytes");
            return Err(Error::invalid("name", message));
        }
        if name.starts_with("ws_") {
            return Err(Error::invalid("name", "a workspace's name does not begin with `ws_`, as ids do"));
        }
        Ok(Self { id, name: name.to_owned(), created_at })
    }

    /// Whether somebody means this one: by its id or its name.
    pub fn is_called(&self, wanted: &str) -> bool {
        let wanted = wanted.trim();
        wanted == self.name || wanted.parse() == Ok(self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_that_is_no_id() {
        let id: WorkspaceId = "ws_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap();
        let made = |name: &str| Workspace::new(id, name, Timestamp::from_micros(1));
        let team = made("  Team Blue ").unwrap();
        assert_eq!(team.name, "Team Blue");
        assert!(team.is_called("Team Blue") && team.is_called(&team.id.to_string()));
        assert!(!team.is_called("team blue") && !team.is_called("ws_018f3c2a7b4c7d3e9f6a5b4c3d2e1f01"));
        for wrong in ["", "  ", "a\nb", &team.id.to_string(), "ws_x", &"n".repeat(MAX_NAME + 1)] {
            assert_eq!(made(wrong).unwrap_err().param.as_deref(), Some("name"), "{wrong:?}");
        }
        assert!(made(&"n".repeat(MAX_NAME)).is_ok());
    }
}
