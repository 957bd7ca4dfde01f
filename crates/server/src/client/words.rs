//! What the server's codes mean in the words of the command line, which speaks of projects where UHP speaks of environments.

use serde_json::Value;

use crate::console::size;

/// A message of the server about a project, in the command line's words.
pub(super) fn sentence(code: &str, message: &str) -> String {
    match code {
        "environment_not_found" | "project_not_found" => "there is no such project".to_owned(),
        // These are about the sandbox that a session runs in.
        "environment_unavailable" | "session_busy" | "harness_unavailable" | "stead_internal" => message.to_owned(),
        _ => message
            .replace("an environment", "a project")
            .replace("An environment", "A project")
            .replace("environment", "project"),
    }
}

/// What `stead usage` calls what a quota bounds.
fn kept(quota: &str) -> Option<&'static str> {
    Some(match quota {
        "blobs" => "file contents",
        "versions" => "versions and layers",
        _ => return None,
    })
}

/// The refusal of a quota in bytes, as `stead usage` would have it, from the facts that came with it.
pub(super) fn quota(detail: &Value) -> Option<String> {
    let kept = kept(detail.get("quota")?.as_str()?)?;
    let bytes = |name: &str| Some(size(detail.get(name)?.as_u64()?));
    let (most, used) = (bytes("max_bytes")?, bytes("used_bytes")?);
    Some(format!("the workspace may keep {most} of {kept} and keeps {used}: there is no room for this"))
}

/// What helps, whichever project it is about.
pub(super) fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "missing_credential" | "credential_missing" => {
            "give a key with --key, --key-file or STEAD_KEY; the server wrote the first one to `admin.key` in its data directory"
        }
        "invalid_credential" | "credential_invalid" => "the key may be of another server, or revoked",
        "insufficient_scope" | "scope_insufficient" => {
            "`stead key create NAME --verb …` makes a key that may, with an admin key; `operator` only with a key that has it"
        }
        "environment_not_found" | "project_not_found" => "`stead project list` shows what there is",
        "session_not_found" | "response_not_found" | "turn_not_found" => "`stead session list` shows what there is",
        "stead_key_not_found" | "key_not_found" => "`stead key list` shows what there is",
        "workspace_not_found" => "`stead workspace list` shows those that this key may see",
        "workspace_exists" => "`stead workspace list` shows it; choose another name for another workspace",
        "session_busy" => "wait for the running task, or start another session",
        "quota_exhausted" => {
            "`stead usage` shows how much is kept beside each quota; `stead project delete` and `stead project \
             remove-version` give something up, and `stead collect` with an admin key gives its room back: that of file \
             contents once the server's `collection.grace` has passed"
        }
        "environment_exists" => "two projects cannot have one mount path; choose another name",
        _ => return None,
    })
}

/// What helps when it is about the project of that slug.
pub(super) fn hint_for_project(code: &str, slug: &str) -> Option<String> {
    Some(match code {
        "environment_busy" | "project_busy" => {
            format!("`stead project log {slug}` follows the running build, `stead project cancel {slug}` ends it")
        }
        "environment_not_ready" | "project_not_ready" | "stead_build_not_found" | "build_not_found" => {
            format!("`stead project versions {slug}` shows what there is")
        }
        "file_not_found" => format!("`stead project files {slug}` shows what there is"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_speak_as_the_usage_does() {
        let detail = serde_json::json!({ "quota": "blobs", "max_bytes": 8 << 20, "used_bytes": 1 << 10 });
        let said = "the workspace may keep 8.0 MiB of file contents and keeps 1.0 KiB: there is no room for this";
        assert_eq!(quota(&detail).as_deref(), Some(said));
        assert_eq!(quota(&serde_json::json!({ "quota": "projects", "max": 2, "used": 2 })), None);
    }

    #[test]
    fn people_read_of_projects_and_never_of_placeholders() {
        assert_eq!(sentence("environment_not_found", "there is no such environment"), "there is no such project");
        let said = sentence("environment_exists", "another environment already occupies `/env/x`");
        assert_eq!(said, "another project already occupies `/env/x`");
        assert_eq!(sentence("environment_invalid", "an environment needs a `name`"), "a project needs a `name`");
        let busy = hint_for_project("project_busy", "hello").unwrap();
        assert!(busy.contains("stead project cancel hello"), "{busy}");
    }
}
