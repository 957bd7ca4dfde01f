//! Archives made to exhaust, confuse or escape.

use std::io::{Cursor, Write};

use flate2::{Compression, write::GzEncoder};
use stead_bundles::archive::{ArchiveError, Limit, Limits};

use crate::collected::{open, read, read_bytes};

/// Appends one ustar member.
fn member(tar: &mut Vec<u8>, kind: u8, name: impl AsRef<[u8]>, body: &[u8]) {
    header(tar, kind, name, body.len() as u64);
    tar.extend_from_slice(body);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn header(tar: &mut Vec<u8>, kind: u8, name: impl AsRef<[u8]>, size: u64) {
    let mut block = [0_u8; 512];
    let name = name.as_ref();
    block[..name.len()].copy_from_slice(name);
    block[100..107].copy_from_slice(b"0000644");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[148..156].copy_from_slice(b"        ");
    block[156] = kind;
    block[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    tar.extend_from_slice(&block);
}

/// The same with the end mark of a tar.
fn ended(tar: &[u8]) -> Vec<u8> {
    [tar, &[0; 1024]].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

fn small() -> Limits {
    Limits { archive_bytes: 1 << 20, expanded_bytes: 200_000, file_bytes: 100_000, members: 50, depth: 5 }
}

fn limit_of(archive: &[u8]) -> Limit {
    match read(Cursor::new(archive), &small()) {
        Err(ArchiveError::TooLarge { limit, .. }) => limit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_limit_stops_its_bomb() {
    let mut one = Vec::new();
    member(&mut one, b'0', "a", &vec![0; 100_001]);
    assert_eq!(limit_of(&gzip(&one)), Limit::FileBytes);

    let mut sum = Vec::new();
    for name in ["a", "b", "c"] {
        member(&mut sum, b'0', name, &vec![0; 90_000]);
    }
    assert_eq!(limit_of(&gzip(&sum)), Limit::ExpandedBytes);

    let mut many = Vec::new();
    for index in 0..51 {
        member(&mut many, b'0', format!("{index}"), b"");
    }
    assert_eq!(limit_of(&many), Limit::Members);
    assert_eq!(limit_of(&vec![0; (1 << 20) + 1]), Limit::ArchiveBytes);

    // Bytes that belong to nothing: in a skipped member, in endless headers, behind the end.
    let mut skipped = Vec::new();
    header(&mut skipped, b'Q', "unknown", 20_000_000);
    skipped.resize(20_000_512, 0);
    assert_eq!(limit_of(&gzip(&skipped)), Limit::ExpandedBytes);
    let mut headers = Vec::new();
    while headers.len() < 20_000_000 {
        member(&mut headers, b'g', "pax", &vec![b'x'; 100_000]);
    }
    assert_eq!(limit_of(&gzip(&headers)), Limit::ExpandedBytes);
    let mut behind = Vec::new();
    member(&mut behind, b'0', "a", b"a");
    behind.resize(20_000_000, 0);
    assert_eq!(limit_of(&gzip(&behind)), Limit::ExpandedBytes);
}

#[test]
fn links_and_directories_have_no_body_whatever_their_size_says() {
    let mut tar = Vec::new();
    for (kind, name) in [(b'1', "hard"), (b'2', "soft"), (b'5', "directory")] {
        header(&mut tar, kind, name, 100);
    }
    member(&mut tar, b'0', "file", b"text");
    let (report, collected) = read_bytes(&ended(&tar)).unwrap();
    assert_eq!((report.skipped.count, report.directories, &collected.files["file"].1[..]), (2, 1, &b"text"[..]));
}

#[test]
fn claimed_sizes_reserve_nothing() {
    let mut tar = Vec::new();
    header(&mut tar, b'0', "a", 90_000);
    assert!(matches!(read_bytes(&tar), Err(ArchiveError::Corrupt { .. })));
    for kind in [b'L', b'x'] {
        let mut tar = Vec::new();
        header(&mut tar, kind, "a", 0o77_777_777_777);
        assert!(matches!(read_bytes(&tar), Err(ArchiveError::Unsupported { .. })));
    }
}

#[test]
fn names_that_clash_or_escape_are_skipped() {
    let mut tar = Vec::new();
    member(&mut tar, b'0', "w/a", b"file");
    member(&mut tar, b'0', "w/a/b", b"b");
    member(&mut tar, b'0', "w/a.txt", b"t");
    member(&mut tar, b'5', "w/d", b"");
    member(&mut tar, b'0', "w/d", b"d");
    member(&mut tar, b'0', "w/..", b"x");
    member(&mut tar, b'0', "w//e", b"x");
    member(&mut tar, b'0', "C:/x", b"x");
    member(&mut tar, b'0', "w/\u{1}", b"x");
    member(&mut tar, b'0', "w/a\\..\\b", b"x");
    member(&mut tar, b'0', "1/2/3/4/5/6", b"x");
    let (report, collected) = read(Cursor::new(ended(&tar)), &small()).unwrap();
    assert_eq!(collected.files.keys().collect::<Vec<_>>(), ["a.txt", "a/b"]);
    assert_eq!(collected.directories.iter().collect::<Vec<_>>(), ["d"]);
    assert_eq!(report.wrapper.as_deref(), Some("w"));
    assert_eq!(report.skipped.count, 8, "{:?}", collected.skipped);
    assert!(collected.skipped.iter().any(|(name, reason)| name == "w/\u{fffd}" && reason.contains("control")));
}

#[test]
fn what_follows_an_archive_is_ignored_and_what_is_missing_is_not() {
    let mut tar = Vec::new();
    member(&mut tar, b'0', "a.txt", b"text");
    // Whoever packed it died behind a whole member: no compressor tells.
    for cut in [tar.clone(), gzip(&tar), tar[..600].to_vec()] {
        let error = read_bytes(&cut).unwrap_err().to_string();
        assert!(error.contains("end"), "{error}");
    }
    assert!(read_bytes(&[tar.as_slice(), &[0; 512]].concat()).is_ok(), "one block of zeros is an end");
    tar.resize(tar.len() + 1024, 0);
    let gzipped = gzip(&tar);
    for archive in [&tar, &gzipped] {
        let garbage = [archive.as_slice(), b"trailing garbage".repeat(100).as_slice()].concat();
        assert_eq!(read_bytes(&garbage).unwrap().1.files["a.txt"].1, b"text");
    }
    let halves = [gzip(&tar[..700]), gzip(&tar[700..])].concat();
    assert_eq!(read_bytes(&halves).unwrap().1.files["a.txt"].1, b"text");
    assert!(matches!(read_bytes(&gzipped[..gzipped.len() - 6]), Err(ArchiveError::Corrupt { .. })));
    assert!(matches!(read_bytes(&gzip(b"just text, no tar at all")), Err(ArchiveError::NotAnArchive { .. })));
}

#[test]
fn a_damaged_byte_is_noticed_in_every_checked_format() {
    for name in ["C020.tar.gz", "C020.tar.bz2", "C020.tar.xz", "C014-stream.zip"] {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut open(name), &mut bytes).unwrap();
        let stored = bytes.windows(6).position(|window| window == b"stored" && name.ends_with("zip"));
        let middle = stored.map_or(bytes.len() / 2 - 30, |name| name + "stored.txt".len() + 4);
        bytes[middle] ^= 0x55;
        assert!(read_bytes(&bytes).is_err(), "{name}");
    }
}

#[test]
fn apple_doubles_are_litter_only_beside_their_file() {
    let mut tar = Vec::new();
    member(&mut tar, b'0', "./._proj", b"x");
    member(&mut tar, b'0', "./proj/._a", b"x");
    member(&mut tar, b'0', "./proj/a", b"a");
    member(&mut tar, b'0', "./proj/._own", b"kept");
    let (report, collected) = read_bytes(&ended(&tar)).unwrap();
    assert_eq!(collected.files.keys().collect::<Vec<_>>(), ["._own", "a"]);
    assert_eq!((report.ignored, report.skipped.count), (2, 0));
}

#[test]
fn sparse_files_are_refused_rather_than_landed_with_holes() {
    let mut tar = Vec::new();
    member(&mut tar, b'x', "pax", b"26 GNU.sparse.major=1.000\n");
    let mut old = Vec::new();
    member(&mut old, b'S', "disk.img", b"x");
    for tar in [tar, old] {
        let error = read_bytes(&tar).unwrap_err();
        assert!(matches!(&error, ArchiveError::Unsupported { what } if what.contains("sparse")), "{error}");
    }
}

#[test]
fn a_name_in_an_unknown_encoding_is_skipped_and_named_and_never_guessed() {
    let mut tar = Vec::new();
    member(&mut tar, b'0', b"caf\xe9.txt", b"x");
    member(&mut tar, b'0', b"d\xf6r/a.txt", b"x");
    member(&mut tar, b'0', "café.txt", b"y");
    let (_, collected) = read(Cursor::new(ended(&tar)), &small()).unwrap();
    assert_eq!(collected.files.keys().collect::<Vec<_>>(), ["café.txt"]);
    let reason = "its name is not UTF-8".to_owned();
    let skipped = ["caf\u{fffd}.txt", "d\u{fffd}r/a.txt"].map(|name| (name.to_owned(), reason.clone()));
    assert_eq!(collected.skipped, skipped);
}
