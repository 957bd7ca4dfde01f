//! Every archive that a user of some system reported as mishandled, with the outcome it should have had.

use crate::collected::read_case;

/// One case: file, skipped members, directories, files (`*` marks an executable one) with their text.
type Case<'a> = (&'a str, u64, &'a [&'a str], &'a [(&'a str, &'a str)]);

const DEEP: &str = "directory-00-with-a-rather-long-name/directory-01-with-a-rather-long-name/directory-02-with-a-rather-long-name/directory-03-with-a-rather-long-name/directory-04-with-a-rather-long-name/directory-05-with-a-rather-long-name/file.txt";
const UMLAUTS: &str = "größe/üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü.txt";
const GNU: &str = "gnu/nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn.txt";
const DESCRIPTOR: &str = "stored, sizes only in the descriptor\n";
const RUN: &str = "#!/bin/sh\necho ran\n";

#[test]
fn archives_land_as_their_makers_meant() {
    let cases: &[Case<'_>] = &[
        ("C001-backslash.zip", 0, &["empty"], &[("data/a.txt", "a\n"), ("run.py", "print('hi')\n")]),
        (
            "C003-names.zip",
            0,
            &[],
            &[
                ("café.txt", "cp437\n"),
                ("naïve-ü.txt", "utf8-noflag\n"),
                ("plain.txt", "plain\n"),
                ("âeâXâg.txt", "sjis\n"),
            ],
        ),
        ("C005-unix.zip", 0, &[], &[("*groupx.sh", RUN), ("nomode.sh", RUN), ("plain.txt", "p\n"), ("*run.sh", RUN)]),
        ("C005-fat.zip", 0, &[], &[("plain.txt", "p\n"), ("run.sh", RUN)]),
        ("C006-symlinks.zip", 5, &["docs"], &[("AGENTS.md", "rules\n")]),
        ("C008-hostile.tar", 6, &[], &[("dir/uhp-canary-C008-dir", "x"), ("ok.txt", "ok\n"), ("same", "file\n")]),
        ("C010-special.tar", 4, &[], &[("contig.txt", "contiguous\n"), ("ok.txt", "ok\n"), ("old.txt", "v7\n")]),
        ("C011-dup.zip", 0, &[], &[("a.txt", "second\n"), ("b.txt", "b\n")]),
        ("C011-dup.tar", 0, &[], &[("a.txt", "second\n"), ("b.txt", "b\n")]),
        ("C011-mismatch.zip", 0, &[], &[("central.txt", "m\n")]),
        (
            "C014-stream.zip",
            0,
            &[],
            &[
                ("both.txt", "both\n"),
                ("empty.txt", ""),
                ("pk.bin", "PK\u{3}\u{4}PK\u{7}\u{8}PK\u{1}\u{2}"),
                ("stored.txt", DESCRIPTOR),
                ("stream.txt", "streamed\n"),
                ("z64.txt", "zip64\n"),
            ],
        ),
        ("C015-archive.tar.gz", 0, &[".github"], &[(".github/ci.yml", "on: push\n"), ("run.py", "print(1)\n")]),
        ("C016-long.tar", 1, &[], &[(DEEP, "deep\n"), (GNU, "gnu\n"), (UMLAUTS, "uni\n"), ("ok.txt", "ok\n")]),
        ("C017-dot.tar", 0, &[], &[("a.txt", "a\n"), ("b/c.txt", "c\n")]),
        ("C017-dotwrap.tar", 0, &[], &[("a.txt", "a\n"), ("b/c.txt", "c\n")]),
        ("C017-twice.tar", 0, &[], &[("two/a.txt", "a\n"), ("two/b.txt", "b\n")]),
        ("C017-onefile.tar", 0, &[], &[("only.txt", "only\n")]),
        ("C017-two.zip", 0, &[], &[("LICENSE", "l\n"), ("proj/a.txt", "a\n")]),
        (
            "C018-modes.tar",
            0,
            &["ro", "ro/deep", "zero"],
            &[
                ("ro/a.txt", "a\n"),
                ("ro/deep/b.txt", "b\n"),
                ("*suid", "#!/bin/sh\nid -u\n"),
                ("world.txt", "w\n"),
                ("zero/c.txt", "c\n"),
            ],
        ),
        ("C021-finder.zip", 0, &[], &[("run.py", "print(1)\n")]),
        ("C025-dirs.zip", 0, &["assets/brand", "bogus", "plainbit"], &[("a/b/c/deep.txt", "deep\n"), ("zero.txt", "")]),
        ("C025-dirs.tar", 0, &["assets/brand"], &[("a/b/c/deep.txt", "deep\n"), ("zero.txt", "")]),
    ];
    for (name, skipped, directories, files) in cases {
        let (report, collected) = read_case(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut found: Vec<(String, String)> = collected
            .files
            .into_iter()
            .map(|(path, (executable, bytes))| {
                let mark = if executable { "*" } else { "" };
                (format!("{mark}{path}"), String::from_utf8(bytes).expect("the cases hold text"))
            })
            .collect();
        found.sort_by(|left, right| left.0.trim_start_matches('*').cmp(right.0.trim_start_matches('*')));
        let mut expected: Vec<(String, String)> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        expected.sort_by(|left, right| left.0.trim_start_matches('*').cmp(right.0.trim_start_matches('*')));
        assert_eq!(found, expected, "{name}");
        assert_eq!(collected.directories.iter().map(String::as_str).collect::<Vec<_>>(), *directories, "{name}");
        assert_eq!(report.skipped.count, *skipped, "{name}: {:?}", collected.skipped);
    }
}

#[test]
fn the_format_is_found_in_the_content() {
    for name in ["C020.tar", "C020.tar.gz", "C020.tar.bz2", "C020.tar.xz", "C020.tar.zst"] {
        let (_, collected) = read_case(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(collected.files["a.txt"].1, b"a\n", "{name}");
        assert_eq!(collected.files["b.txt"].1.len(), 10_000, "{name}");
    }
    for (name, found) in [("C020-not-an-archive.bin", "not an archive"), ("C020-empty.bin", "empty")] {
        let message = read_case(name).unwrap_err().to_string();
        assert!(message.contains(found) && message.contains("tar.gz"), "{name}: {message}");
    }
}

#[test]
fn refusals_say_why() {
    let encrypted = read_case("C022-encrypted.zip").unwrap_err().to_string();
    assert!(encrypted.contains("encrypted") && encrypted.contains("secret.txt"), "{encrypted}");
    let lying = read_case("C012-lying.zip").unwrap_err().to_string();
    assert!(lying.contains("bomb.bin") && lying.contains("10 bytes"), "{lying}");
}

#[test]
fn skill_archives_keep_their_shape() {
    for (name, path) in [
        ("C087-a-good.zip", "SKILL.md"),
        ("C087-b-root.zip", "SKILL.md"),
        ("C087-e-finder.zip", "SKILL.md"),
        ("C087-i-backslash.zip", "SKILL.md"),
    ] {
        let (report, collected) = read_case(name).unwrap();
        assert!(collected.files.contains_key(path), "{name}: {:?}", collected.files.keys());
        assert_eq!(report.wrapper.as_deref(), (name != "C087-b-root.zip").then_some("report"), "{name}");
    }
}

#[test]
fn dependency_directories_of_a_laptop_are_read_like_any_other() {
    let (_, collected) = read_case("C026-laptop.tar.gz").unwrap();
    assert!(collected.files.contains_key(".venv/pyvenv.cfg") && collected.files.contains_key("run.py"));
}
