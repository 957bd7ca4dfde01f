//! All findings, as JSON and for people.

use std::fmt::Write as _;

use serde::Serialize;

use super::finding::{Finding, Standing};
use super::trial::Attempt;
use crate::console::{columns, printable};

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Section {
    Isolation,
    Limits,
    Network,
    Disk,
    Tools,
}

impl Section {
    const ALL: [Self; 5] = [Self::Isolation, Self::Limits, Self::Network, Self::Disk, Self::Tools];

    fn title(self) -> &'static str {
        match self {
            Self::Isolation => "Isolation: what a session is kept apart by",
            Self::Limits => "Limits: what a session may use",
            Self::Network => "Network: what a session and a build may reach",
            Self::Disk => "Disk",
            Self::Tools => "Tools: what builds and sessions run",
        }
    }
}

#[derive(Debug, Serialize)]
struct Sectioned {
    section: Section,
    #[serde(flatten)]
    finding: Finding,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Whether nothing that is required is missing.
    ok: bool,
    /// Whether this was run as root; an ordinary user's sessions are kept apart by less.
    root: bool,
    findings: Vec<Sectioned>,
    /// What was tried in a sandbox.
    #[serde(rename = "trial")]
    pub(super) attempts: Vec<Attempt>,
}

impl Report {
    pub(super) fn new(root: bool) -> Self {
        Self { ok: true, root, findings: Vec::new(), attempts: Vec::new() }
    }

    pub(super) fn add(&mut self, section: Section, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings.into_iter().map(|finding| Sectioned { section, finding }));
        self.ok = !self.findings.iter().any(|one| one.finding.is_obstacle());
    }

    pub(super) fn is_ok(&self) -> bool {
        self.ok
    }

    pub(super) fn described(&self) -> String {
        let mut text = String::new();
        let width = self.findings.iter().map(|one| one.finding.name.chars().count()).max().unwrap_or(0);
        for section in Section::ALL {
            let _ = writeln!(text, "{}", section.title());
            for Sectioned { finding, .. } in self.findings.iter().filter(|one| one.section == section) {
                let standing = match finding.standing {
                    Standing::Good => "ok",
                    Standing::Partial => "partly",
                    Standing::Missing if finding.required => "MISSING",
                    Standing::Missing => "missing",
                };
                let head = format!("  {standing:<8}{:<width$}  ", finding.name);
                wrap(&mut text, &head, &finding.explanation);
                if let Some(fix) = finding.fix.as_ref().filter(|_| finding.standing != Standing::Good) {
                    wrap(&mut text, &format!("{:<1$}  to change it: ", "", width + 10), fix);
                }
            }
            text.push('\n');
        }
        text.push_str(if self.ok {
            "Stead can run here. What is missing or partly there is not required; docs/security.md says what follows from it.\n"
        } else {
            "Stead cannot run here before what is MISSING is there.\n"
        });
        text
    }
}

/// Writes words after a head, on as many lines as they need, each as far to the right as the first.
fn wrap(text: &mut String, head: &str, words: &str) {
    let indent = head.chars().count();
    let room = columns().saturating_sub(indent).max(40);
    text.push_str(head);
    let mut used = 0;
    for word in printable(words).split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            let _ = write!(text, "\n{:indent$}", "");
            used = 0;
        }
        if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text.push('\n');
}
