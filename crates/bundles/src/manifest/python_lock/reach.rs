//! Which packages of a lock are needed, and on which machines.
//!
//! A package is needed where one that needs it is, and where the condition between the two holds. Such conditions are kept as
//! a set of alternatives, each a set of markers that must all hold, and the smaller alternative absorbs the larger.

use std::collections::{BTreeSet, VecDeque};

use super::error::LockError;

/// Beyond this many alternatives the conditions of the packages above are dropped and the last markers alone kept.
const MAX_ALTERNATIVES: usize = 48;
/// A lock that takes more steps than this to follow was not made by a tool.
const MAX_STEPS: usize = 2_000_000;

/// Whether a package is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    /// By nothing.
    Nowhere,
    /// On every machine.
    Everywhere,
    /// On the machines of this marker.
    Where(String),
}

impl Need {
    pub(super) fn is_somewhere(&self) -> bool {
        *self != Self::Nowhere
    }

    /// The condition, where there is one.
    pub(super) fn marker(&self) -> Option<String> {
        match self {
            Self::Where(marker) => Some(marker.clone()),
            Self::Nowhere | Self::Everywhere => None,
        }
    }

    /// What the marker of a package that is needed says.
    pub(super) fn of_marker(marker: Option<String>) -> Self {
        marker.map_or(Self::Everywhere, Self::Where)
    }
}

type Alternative = BTreeSet<String>;

/// Who needs whom.
#[derive(Debug, Default)]
pub(super) struct Graph {
    edges: Vec<Vec<(usize, Option<String>)>>,
}

impl Graph {
    /// A package more; returns its number, counted from 0.
    pub(super) fn node(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    /// `from` needs `to`, where `marker` holds.
    pub(super) fn edge(&mut self, from: usize, to: usize, marker: Option<String>) {
        self.edges[from].push((to, marker));
    }

    /// For every node, where `roots` need it.
    pub(super) fn needed(&self, roots: &[usize]) -> Result<Vec<Need>, LockError> {
        let mut conditions: Vec<Vec<Alternative>> = vec![Vec::new(); self.edges.len()];
        let mut queue: VecDeque<usize> = roots.iter().copied().collect();
        roots.iter().for_each(|root| conditions[*root] = vec![Alternative::new()]);
        let mut steps = 0;
        while let Some(from) = queue.pop_front() {
            let above = conditions[from].clone();
            for (to, marker) in &self.edges[from] {
                let mut changed = false;
                for alternative in &above {
                    steps += 1 + alternative.len();
                    let mut next =
                        if conditions[*to].len() < MAX_ALTERNATIVES { alternative.clone() } else { Alternative::new() };
                    next.extend(marker.clone());
                    changed |= add(&mut conditions[*to], next);
                }
                if steps > MAX_STEPS {
                    return Err(LockError::Unsupported("its dependencies are too intricate".to_owned()));
                }
                if changed {
                    queue.push_back(*to);
                }
            }
        }
        Ok(conditions.iter().map(|alternatives| written(alternatives)).collect())
    }
}

fn add(alternatives: &mut Vec<Alternative>, next: Alternative) -> bool {
    if alternatives.iter().any(|known| known.is_subset(&next)) {
        return false;
    }
    alternatives.retain(|known| !next.is_subset(known));
    alternatives.push(next);
    true
}

fn written(alternatives: &[Alternative]) -> Need {
    let mut words: Vec<String> = alternatives
        .iter()
        .map(|alternative| match alternative.len() {
            1 => alternative.iter().next().cloned().unwrap_or_default(),
            _ => alternative.iter().map(|marker| format!("({marker})")).collect::<Vec<_>>().join(" and "),
        })
        .collect();
    words.sort_unstable();
    match words.as_slice() {
        [] => Need::Nowhere,
        [only] if only.is_empty() => Need::Everywhere,
        [only] => Need::Where(only.clone()),
        _ => Need::Where(words.iter().map(|word| format!("({word})")).collect::<Vec<_>>().join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_add_up_along_ways_and_cycles_end() {
        let mut graph = Graph::default();
        let [root, a, b, c, d, alone] = std::array::from_fn(|_| graph.node());
        let marker = |text: &str| Some(text.to_owned());
        let place = |text: &str| Need::Where(text.to_owned());
        graph.edge(root, a, marker("x == '1'"));
        graph.edge(a, b, marker("y == '2'"));
        graph.edge(b, a, None);
        graph.edge(root, c, marker("z == '3'"));
        graph.edge(root, c, marker("w == '4'"));
        graph.edge(root, d, None);
        graph.edge(c, d, marker("v == '5'"));
        graph.edge(alone, d, None);
        let needed = graph.needed(&[root]).unwrap();
        assert_eq!(needed[a], place("x == '1'"));
        assert_eq!(needed[b], place("(x == '1') and (y == '2')"));
        assert_eq!(needed[c], place("(w == '4') or (z == '3')"));
        assert_eq!((&needed[d], &needed[alone]), (&Need::Everywhere, &Need::Nowhere));
    }

    #[test]
    fn many_ways_end_in_a_bounded_condition() {
        let mut graph = Graph::default();
        let mut nodes = vec![graph.node()];
        for level in 0..40 {
            let next = graph.node();
            let above = *nodes.last().unwrap();
            for way in 0..5 {
                graph.edge(above, next, Some(format!("m{way} == '{level}'")));
            }
            nodes.push(next);
        }
        let needed = graph.needed(&[0]).unwrap();
        let Some(Need::Where(last)) = needed.last() else { panic!("{:?}", needed.last()) };
        assert!(last.contains("m0 == '39'") && last.len() < 60_000, "{}", last.len());
    }
}
