//! Why an installer failed, in its own words: the line that says it, found among the last that it said.

/// How much of a step's output is looked through.
pub(super) const TAIL: usize = 32 << 10;
/// The longest reason, in characters.
const LONGEST: usize = 300;
/// What npm says around the reason.
const NPM_NOISE: [&str; 12] = [
    "code ",
    "errno ",
    "syscall ",
    "path ",
    "command ",
    "Clean install",
    "Usage",
    "Options",
    "Run ",
    "A complete log",
    "aliases",
    "Invalid: lock",
];

/// The reason; none when nothing was said.
pub(super) fn reason(output: &[u8]) -> Option<String> {
    let text = plain(&String::from_utf8_lossy(output));
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let found = uv(&lines)
        .or_else(|| npm(&lines))
        .or_else(|| first(&lines, &["E: ", "ERR_PNPM_", "\u{2009}ERR_PNPM_", " ERR_PNPM_"]))
        .or_else(|| berry(&lines))
        .or_else(|| last(&lines, &["ERROR: "]))
        .or_else(|| first(&lines, &["error: ", "error "]))
        .or_else(|| lines.last().map(|line| line.trim().to_owned()))?;
    let mut reason: String = without_users(&found).chars().take(LONGEST + 1).collect();
    if reason.chars().count() > LONGEST {
        reason.pop();
        reason.push('…');
    }
    Some(reason)
}

/// Without colours and other control characters.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            // A sequence ends at its first letter.
            '\u{1b}' => drop(characters.by_ref().find(char::is_ascii_alphabetic)),
            // What was overwritten on a terminal.
            '\r' => plain.push('\n'),
            '\n' | '\t' => plain.push(character),
            character if character.is_control() => {}
            character => plain.push(character),
        }
    }
    plain
}

/// uv draws a tree: the last branch says why, over several lines.
fn uv(lines: &[&str]) -> Option<String> {
    let at = lines.iter().rposition(|line| line.trim_start().starts_with("╰─▶"))?;
    let head = lines[at].trim_start().trim_start_matches("╰─▶").trim();
    let rest = lines[at + 1..].iter().take_while(|line| line.starts_with("      ")).map(|line| line.trim());
    Some(std::iter::once(head).chain(rest).collect::<Vec<_>>().join(" "))
}

fn npm(lines: &[&str]) -> Option<String> {
    let said =
        lines.iter().filter_map(|line| line.strip_prefix("npm error ").or_else(|| line.strip_prefix("npm ERR! ")));
    let mut telling = said.filter(|line| !NPM_NOISE.iter().any(|noise| line.trim_start().starts_with(noise)));
    // The second word repeats the code of the first line.
    telling.next().map(|line| line.trim_start_matches("notarget ").trim_start_matches("ERESOLVE ").trim().to_owned())
}

/// Yarn's newer versions number what they say; 0 is no fault.
fn berry(lines: &[&str]) -> Option<String> {
    let mut faults = lines.iter().rev().filter(|line| line.starts_with("➤ YN") && !line.starts_with("➤ YN0000"));
    faults.next().map(|line| line.split_once('│').map_or(*line, |(_, said)| said).trim().to_owned())
}

fn first(lines: &[&str], starts: &[&str]) -> Option<String> {
    lines.iter().find_map(|line| starts.iter().any(|start| line.starts_with(start)).then(|| line.trim().to_owned()))
}

fn last(lines: &[&str], starts: &[&str]) -> Option<String> {
    lines
        .iter()
        .rev()
        .find_map(|line| starts.iter().any(|start| line.starts_with(start)).then(|| line.trim().to_owned()))
}

/// Without users and passwords in addresses.
fn without_users(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(at) => &after[at + 1..],
            None => after,
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_installers_own_words_are_found() {
        for (said, expected) in [
            (
                "  × No solution found when resolving dependencies:\n  ╰─▶ Because there is no version of requests==9.9 and you require\n      requests==9.9, we can conclude that your requirements are unsatisfiable.\n",
                "Because there is no version of requests==9.9 and you require requests==9.9, we can conclude that your requirements are unsatisfiable.",
            ),
            (
                "Collecting x\nERROR: Could not find a version\nERROR: No matching distribution found for x==9\n",
                "ERROR: No matching distribution found for x==9",
            ),
            (
                "npm error code ETARGET\nnpm error notarget No matching version found for left-pad@^99.\nnpm error A complete log of this run\n",
                "No matching version found for left-pad@^99.",
            ),
            (
                "npm error code EUSAGE\nnpm error\nnpm error `npm ci` can only install packages when in sync.\nnpm error Usage:\n",
                "`npm ci` can only install packages when in sync.",
            ),
            (
                "Reading package lists...\nE: Version '9.9' for 'jq' was not found\n",
                "E: Version '9.9' for 'jq' was not found",
            ),
            (
                "➤ YN0000: ┌ Resolution\n➤ YN0028: │ The lockfile would have been modified\n➤ YN0000: └ Completed\n",
                "The lockfile would have been modified",
            ),
            (
                " ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with \"frozen-lockfile\"\n\nNote: x\n",
                "ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with \"frozen-lockfile\"",
            ),
            (
                "\u{1b}[31merror\u{1b}[0m: Failed to fetch: `https://user:secret@index.example/simple/x/`\n",
                "error: Failed to fetch: `https://index.example/simple/x/`",
            ),
            ("installing\nmake: *** [all] Error 2\n", "make: *** [all] Error 2"),
        ] {
            assert_eq!(reason(said.as_bytes()).as_deref(), Some(expected), "{said}");
        }
        assert_eq!(reason(b" \n\n"), None);
        assert_eq!(reason("x".repeat(1000).as_bytes()).unwrap().chars().count(), LONGEST + 1);
    }
}
