//! The core's words in the protocol's: what the core calls a project is an environment here, an agent a harness configuration, a
//! turn a task. Names of fields are those of the request bodies.

/// The core's nouns, and UHP's. Longer forms come first.
const NOUNS: [(&str, &str); 6] = [
    ("projects", "environments"),
    ("project", "environment"),
    ("agents", "harness configurations"),
    ("agent", "harness configuration"),
    ("turns", "tasks"),
    ("turn", "task"),
];

/// The core's fields, and the request fields that they come from.
const FIELDS: [(&str, &str); 12] = [
    ("turn.agent", "metadata.harness_id"),
    ("turn.previous", "previous_response_id"),
    ("turn.project", "metadata.environment"),
    ("turn.version", "metadata.stead_version"),
    ("agent.harness", "base"),
    ("agent.instructions", "system_prompt"),
    ("agent.project", "environment"),
    ("agent.disabled_tools", "disabled_tools"),
    ("agent.max_step", "max_step"),
    ("turn.network", "metadata.stead_network"),
    ("agent.network", "stead_network"),
    ("project.build_network", "stead_build_network"),
];

/// A sentence of the core as UHP says it. What stands between backticks is somebody's own words and stays, unless it names a
/// field of a task.
pub(crate) fn sentence(text: &str) -> String {
    let mut said = String::with_capacity(text.len() + 16);
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            said.push('`');
        }
        if index % 2 == 1 {
            said.push_str(if part.starts_with("turn.") { field(part) } else { part });
            continue;
        }
        for word in part.split_inclusive(|character: char| !character.is_alphanumeric()) {
            let bare = word.trim_end_matches(|character: char| !character.is_alphanumeric());
            match NOUNS.iter().find(|(core, _)| *core == bare) {
                Some((core, protocol)) => {
                    said.push_str(protocol);
                    said.push_str(&word[core.len()..]);
                }
                None => said.push_str(word),
            }
        }
    }
    // Both of the core's nouns that are renamed begin with a consonant, and one of UHP's with a vowel.
    said.replace("a environment", "an environment").replace("A environment", "An environment")
}

/// A field of the core as the request names it.
pub(crate) fn field(name: &str) -> &str {
    FIELDS.iter().find(|(core, _)| *core == name).map_or(name, |(_, protocol)| protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_are_translated_and_quotations_are_not() {
        assert_eq!(sentence("there is no such project"), "there is no such environment");
        assert_eq!(
            sentence("a project's name, the turn `project turn`"),
            "an environment's name, the task `project turn`"
        );
        assert_eq!(sentence("`turn.project` of a turn"), "`metadata.environment` of a task");
        assert_eq!(sentence("projections and returns"), "projections and returns");
        assert_eq!(field("turn.agent"), "metadata.harness_id");
        assert_eq!(field("name"), "name");
    }
}
