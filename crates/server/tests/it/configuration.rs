//! Configuration as an operator meets it.

use crate::program::{ran, stead};

#[test]
fn everything_wrong_is_said_before_anything_is_touched() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let file = root.path().join("stead.toml");
    std::fs::write(&file, "[server]\nport = 1\n[limits]\nfile = \"big\"\n").unwrap();
    let wrong = ran(stead()
        .args(["serve", "--listen", "0.0.0.0:0", "--config"])
        .arg(&file)
        .arg("--data")
        .arg(&data)
        .env("STEAD__SESSIONS__NETWORK", "open"));
    assert_eq!((wrong.status, wrong.stdout.as_str()), (1, ""));
    for expected in [
        "error: the configuration is not valid",
        "stead.toml): there is no such option",
        "limits.file (",
        "sessions.network (STEAD__SESSIONS__NETWORK): `open`",
        "server.listen (--listen): 0.0.0.0:0 is beyond loopback",
    ] {
        assert!(wrong.stderr.contains(expected), "missing {expected}\n{}", wrong.stderr);
    }
    assert!(!data.exists());
}

#[test]
fn a_file_in_the_data_directory_counts_and_one_that_is_named_must_exist() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("stead.toml"), "[log]\nformat = \"loud\"\n").unwrap();
    let wrong = ran(stead().arg("serve").arg("--data").arg(data.path()));
    assert!(wrong.stderr.contains("log.format ("), "{}", wrong.stderr);
    let missing = ran(stead().args(["serve", "--config", "/nonexistent/stead.toml", "--data"]).arg(data.path()));
    assert!(missing.stderr.contains("/nonexistent/stead.toml: failed to read"), "{}", missing.stderr);
    assert_eq!((wrong.status, missing.status), (1, 1));
}
