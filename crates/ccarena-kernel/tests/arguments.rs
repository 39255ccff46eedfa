//! The program refuses wrong arguments, in one line and with code 2, before it asks for root or for a loaded policy.
#![allow(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::process::{Command, Stdio};

/// Exit code and standard error.
fn said(words: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccarena-kernel"));
    let done = command.args(words.split(' ')).stdin(Stdio::null()).output().unwrap();
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn a_wrong_argument_is_told_before_what_the_machine_lacks() {
    for (words, expected) in [
        ("canary absent --share 1.5", "share 1.5; expected a number from 0 to 1"),
        ("canary absent --share NaN", "--share: got NaN; expected a finite number of at least zero"),
        ("canary absent --share 1 --guard -1", "--guard: got -1; expected a whole number from 0 to 4294967295"),
        ("canary absent --share 1 --to ten", "\"ten\" is no prefix of addresses"),
        ("canary absent --share 1 --cgroup /absent", "/absent is no folder of a cgroup2 file system"),
        ("attach --option /absent", "/absent is no folder of a cgroup2 file system"),
        ("attach --deadline-ms 1e300", "--deadline-ms: got 1e300; expected at most 3600000 ms"),
        ("load pilot --guard 3", "pilot has no guard"),
        ("load pilot --as a/b", "congestion-control name \"a/b\" is none to the kernel"),
        ("load pilot --param gain=inf", "--param: got gain=inf; expected NAME=NUMBER"),
        ("weight 0", "weight 0 is not a number above 0"),
        ("weight 1 --mark 4294967296", "--mark: got 4294967296; expected a whole number from 0 to 4294967295"),
        ("daemon --scheme cubic --param absent=1", "absent"),
        ("daemon --scheme hyvar --action nan", "--action: got nan; expected a finite number"),
    ] {
        let (code, error) = said(words);
        assert_eq!(code, Some(2), "{words}: {error}");
        assert!(error.contains(expected), "{words}: {error}");
        assert_eq!(error.lines().count(), 1, "{words}: {error}");
    }
}
