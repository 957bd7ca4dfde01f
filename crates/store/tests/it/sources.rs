//! Sources: thousands of entries at a time, in the order of their paths.

use std::fmt::Write as _;
use std::time::Instant;

use stead_domain::SourcePath;
use stead_domain::changes::{Changes, Removal};
use stead_domain::ports::Store as _;
use stead_domain::source::{SourceEdit, SourceEntry};
use stead_testkit::samples::{source_directory, source_file};
use stead_testkit::{Samples, TestDatabase};

use crate::commit;

fn path(text: &str) -> SourcePath {
    SourcePath::parse(text).unwrap()
}

fn paths(entries: &[SourceEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.path.as_str()).collect()
}

fn written(written: Vec<SourceEntry>) -> SourceEdit {
    SourceEdit { written, ..SourceEdit::default() }
}

async fn twenty_thousand_entries_round_trip(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let (project, bystander) = (samples.project("big"), samples.project("small"));
    let mut entries: Vec<SourceEntry> = (0..20_123_u64).map(|n| source_file(&format!("d{}/f{n}", n % 77), n)).collect();
    entries.extend((0..77).map(|n| source_directory(&format!("d{n}"))));
    let one = written(vec![source_file("a", 1)]);
    let started = Instant::now();
    let edit = written(entries.clone());
    commit(&store, Changes::new().source(project.id, edit).source(bystander.id, one)).await;
    println!("writing {} entries took {:?}", entries.len(), started.elapsed());

    entries.sort_by(|one, other| one.path.cmp(&other.path));
    assert_eq!(store.source_list(project.id).await.unwrap(), entries);

    // Again, over itself; then everything but a few removed by name.
    commit(&store, Changes::new().source(project.id, written(entries.clone()))).await;
    assert_eq!(store.source_list(project.id).await.unwrap().len(), entries.len());
    let all: Vec<SourcePath> = entries.iter().map(|entry| entry.path.clone()).collect();
    assert_eq!(store.source_at(project.id, &all).await.unwrap().len(), all.len());
    let removed = SourceEdit { removed: all[3..].to_vec(), ..SourceEdit::default() };
    commit(&store, Changes::new().source(project.id, removed)).await;
    assert_eq!(store.source_list(project.id).await.unwrap(), entries[..3]);

    commit(&store, Changes::new().remove(Removal::Source(project.id))).await;
    assert_eq!(store.source_list(project.id).await.unwrap(), []);
    assert_eq!(paths(&store.source_list(bystander.id).await.unwrap()), ["a"]);
}

/// PostgreSQL's index takes no more than a third of a page, and compresses what it can.
async fn the_longest_path_is_kept(database: TestDatabase) {
    let store = database.open().await;
    let project = Samples::new(1).project("p");
    let mut text = String::new();
    let mut random = 1_u64;
    while text.len() < SourcePath::MAX {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let _ = write!(text, "{:x}{}", random >> 8, if text.len() % 200 > 180 { "/" } else { "" });
    }
    text.truncate(SourcePath::MAX - 1);
    text.push('x');
    let edit = written(vec![source_file(&text, 1)]);
    commit(&store, Changes::new().source(project.id, edit)).await;
    assert_eq!(paths(&store.source_at(project.id, &[path(&text)]).await.unwrap()), [text.as_str()]);
}

async fn an_edit_clears_then_removes_then_writes(database: TestDatabase) {
    let store = database.open().await;
    let project = Samples::new(1).project("p");
    let first = written(vec![source_file("a", 1), source_file("b", 2), source_directory("c")]);
    commit(&store, Changes::new().source(project.id, first)).await;

    // What is removed and written is there afterwards; the last word about a path holds.
    let edit = SourceEdit {
        clear: false,
        removed: vec![path("a"), path("b"), path("never there")],
        written: vec![source_file("b", 7), source_directory("b"), source_file("b", 8)],
    };
    commit(&store, Changes::new().source(project.id, edit)).await;
    assert_eq!(store.source_list(project.id).await.unwrap(), [source_file("b", 8), source_directory("c")]);

    // A file in a directory's place and the other way round.
    let swap = written(vec![source_directory("b"), source_file("c", 9)]);
    commit(&store, Changes::new().source(project.id, swap)).await;
    assert_eq!(store.source_list(project.id).await.unwrap(), [source_directory("b"), source_file("c", 9)]);

    let replace = SourceEdit { clear: true, removed: vec![path("d")], written: vec![source_file("d", 3)] };
    commit(&store, Changes::new().source(project.id, replace)).await;
    assert_eq!(store.source_list(project.id).await.unwrap(), [source_file("d", 3)]);
}

async fn questions_about_paths_are_exact(database: TestDatabase) {
    let store = database.open().await;
    let project = Samples::new(1).project("p");
    let names = ["B", "a", "a b", "a!x", "a-b", "a/b", "a/b/c", "a/é", "a/日本", "a0", "a_", "ab", "A%", "é"];
    let edit = written(names.iter().map(|name| source_file(name, 1)).collect());
    commit(&store, Changes::new().source(project.id, edit)).await;

    let mut by_bytes = names;
    by_bytes.sort_unstable();
    assert_eq!(paths(&store.source_list(project.id).await.unwrap()), by_bytes);
    let beneath = store.source_subtree(project.id, &path("a")).await.unwrap();
    assert_eq!(paths(&beneath), ["a", "a/b", "a/b/c", "a/é", "a/日本"]);
    assert_eq!(paths(&store.source_subtree(project.id, &path("A%")).await.unwrap()), ["A%"]);
    assert_eq!(paths(&store.source_subtree(project.id, &path("nothing")).await.unwrap()), [""; 0]);

    let mut at = store.source_at(project.id, &[path("é"), path("a/b"), path("b"), path("A")]).await.unwrap();
    at.sort_by(|one, other| one.path.cmp(&other.path));
    assert_eq!(paths(&at), ["a/b", "é"]);
    assert_eq!(store.source_at(project.id, &[]).await.unwrap(), []);
}

async fn pages_follow_each_other_in_the_order_of_bytes(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let (project, bystander) = (samples.project("p"), samples.project("q"));
    let names =
        ["B", "a", "a b", "a!x", "a-b", "a/b", "a/b/c", "a/é", "a/日本", "a0", "a_", "ab", "A%", "é", "\u{10ffff}"];
    let edit = written(names.iter().map(|name| source_file(name, 1)).collect());
    let other = written(vec![source_file("a/b", 1), source_file("zz", 1)]);
    commit(&store, Changes::new().source(project.id, edit).source(bystander.id, other)).await;

    let mut by_bytes = names;
    by_bytes.sort_unstable();
    let a = path("a");
    for (under, expected) in [(None, &by_bytes[..]), (Some(&a), &["a/b", "a/b/c", "a/é", "a/日本"][..])] {
        for limit in [1, 2, 4, 15, 100] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = store.source_page(project.id, under, after.as_ref(), limit).await.unwrap();
                assert!(page.rows.len() <= limit && (page.rows.len() == limit || !page.more));
                found.extend(page.rows);
                after = found.last().map(|entry| entry.path.clone());
                if !page.more {
                    break;
                }
            }
            assert_eq!(paths(&found), expected, "under {under:?} by {limit}");
        }
    }
    // A place in the order need not exist, nor lie beneath the directory.
    let page = async |under: Option<&SourcePath>, after: &str| {
        let after = path(after);
        paths(&store.source_page(project.id, under, Some(&after), 1).await.unwrap().rows).join("")
    };
    assert_eq!(page(None, "a/a").await, "a/b");
    assert_eq!(page(Some(&a), "B").await, "a/b");
    assert_eq!(page(Some(&a), "ab").await, "");
    assert_eq!(page(Some(&path("nothing")), "B").await, "");
}

on_both!(
    pages_follow_each_other_in_the_order_of_bytes,
    the_longest_path_is_kept,
    twenty_thousand_entries_round_trip,
    an_edit_clears_then_removes_then_writes,
    questions_about_paths_are_exact,
);
