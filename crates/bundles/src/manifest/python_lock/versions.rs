//! Whether a version is one that a specifier allows, in the notations of Python's packaging and of Poetry.
//!
//! Only plain versions are judged (numbers and dots): of anything else the answer is "unknown".

/// Whether `version` is among those that `specifier` allows: `>=3.9,<4`, `^3.9`, `~3.9 || 3.12.*`. None when one of them is not
/// understood.
pub fn version_fits(specifier: &str, version: &str) -> Option<bool> {
    let version = numbers(version)?;
    let mut fits = false;
    for alternative in specifier.split("||") {
        let mut all = true;
        // `>= 3.9` is one clause; `>=3.9 <4` are two.
        let mut text = alternative.replace(',', " ");
        for operator in ["<", ">", "=", "!", "~", "^"] {
            while text.contains(&format!("{operator} ")) {
                text = text.replace(&format!("{operator} "), operator);
            }
        }
        for clause in text.split_whitespace() {
            all &= clause_fits(clause, &version)?;
        }
        fits |= all;
    }
    Some(fits)
}

/// Which of two versions is the newer. None when one of them is not plain.
pub(super) fn order(one: &str, other: &str) -> Option<std::cmp::Ordering> {
    Some(compare(&numbers(one)?, &numbers(other)?))
}

fn clause_fits(clause: &str, version: &[u64]) -> Option<bool> {
    if clause == "*" {
        return Some(true);
    }
    let at = clause.find(|c: char| !"<>=!~^".contains(c))?;
    let (operator, text) = clause.split_at(at);
    let (text, wild) = text.strip_suffix(".*").map_or((text, false), |text| (text, true));
    let bound = numbers(text)?;
    let prefix = |count: usize| (0..count).all(|index| part(version, index) == part(&bound, index));
    let order = compare(version, &bound);
    Some(match operator {
        "" | "==" | "=" if wild => prefix(bound.len()),
        "" | "==" | "=" => order.is_eq(),
        "!=" if wild => !prefix(bound.len()),
        "!=" => order.is_ne(),
        _ if wild => return None,
        ">=" => order.is_ge(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        "<" => order.is_lt(),
        "~=" if bound.len() > 1 => order.is_ge() && prefix(bound.len() - 1),
        "~" => order.is_ge() && prefix(bound.len().min(2)),
        // The first part that is not zero stays.
        "^" => order.is_ge() && prefix(bound.iter().position(|part| *part != 0).map_or(bound.len(), |index| index + 1)),
        _ => return None,
    })
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

fn part(version: &[u64], index: usize) -> u64 {
    version.get(index).copied().unwrap_or(0)
}

fn compare(one: &[u64], other: &[u64]) -> std::cmp::Ordering {
    let length = one.len().max(other.len());
    (0..length)
        .map(|index| part(one, index).cmp(&part(other, index)))
        .find(|order| order.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_judged_in_both_notations() {
        for (specifier, version, fits) in [
            (">=3.9,<4", "3.11.2", Some(true)),
            (">= 3.9, < 3.11", "3.11.2", Some(false)),
            ("^3.9", "3.11.2", Some(true)),
            ("^3.12", "3.11.2", Some(false)),
            ("^0.2.3", "0.3.0", Some(false)),
            ("~3.11", "3.11.2", Some(true)),
            ("~=3.10", "3.11.2", Some(true)),
            ("~=3.10.0", "3.11.2", Some(false)),
            ("~3.9 || 3.11.*", "3.11.2", Some(true)),
            ("!=3.11.*,>=3", "3.11.2", Some(false)),
            ("*", "3.11.2", Some(true)),
            ("", "3.11.2", Some(true)),
            ("2.0.0", "2.0", Some(true)),
            (">=3.9b1", "3.11.2", None),
            ("wat", "3.11.2", None),
            (">=3", "3.12.0rc1", None),
        ] {
            assert_eq!(version_fits(specifier, version), fits, "{specifier} {version}");
        }
    }
}
