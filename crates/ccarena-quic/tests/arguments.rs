//! A command line that cannot be taken is answered in one line.

#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::process::Command;

fn refused(words: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_ccarena-quic")).args(words).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(done.stdout.is_empty());
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn wrong_values_are_named_as_they_were_given() {
    let server = refused(&["get", "nowhere"]);
    assert!(server.starts_with("error: the server: got nowhere; expected ADDRESS:PORT"), "{server}");
    assert!(server.ends_with("(`ccarena quic get --help` shows what it takes)\n"), "{server}");
    assert_eq!(server.lines().count(), 1);
    assert_eq!(
        refused(&["serve", "--interval-s", "often"]),
        "error: --interval-s: got often; expected a number above zero (`ccarena quic serve --help` shows what it takes)\n"
    );
    assert!(refused(&["get", "127.0.0.1:1", "--duration-s", "-1"]).contains("--duration-s: got -1; expected"));
    for (words, expected) in [
        (
            &["get", "127.0.0.1:1", "--timeout-s", "1e300"][..],
            "--timeout-s: got 1e300; expected at most 1000000 seconds",
        ),
        (&["get", "127.0.0.1:1", "--fingerprint", "beef"][..], "--fingerprint: got beef; expected the 64 hexadecimal"),
        (&["serve", "--param", "absent=1"][..], "scheme \"cubic\" has no parameter \"absent\""),
        (&["serve", "--fallback", "cubik"][..], "unknown scheme \"cubik\""),
    ] {
        let error = refused(words);
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
    }
    assert!(refused(&["fetch"]).contains("`ccarena-quic --help`"));
}
