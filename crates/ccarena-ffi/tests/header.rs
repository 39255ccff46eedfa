//! The committed header is the one that cbindgen makes of the functions.
//!
//! `CCARENA_WRITE_HEADER=1 cargo test -p ccarena-ffi --test header` writes it anew.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use cbindgen::{Builder, Config, DocumentationStyle, ExportConfig, Language, ParseConfig, Style};

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ccarena/controllers/ccarena_host.h");

const PREFACE: &str = "\
/* ccarena_host.h: the controllers of ccarena in your stack.
 *
 * A host builds a flow for each connection, reports events by the structs of ccarena.h, and sends what the controller's
 * answers (cc_control) allow. docs/library.md shows how. Functions return CCARENA_OK or another code; a call that fails
 * changes nothing, and ccarena_why has the reason. Times are nanoseconds, amounts bytes of payload, rates bit/s.
 *
 * A flow may change threads, but only one call at a time may use it. No function keeps a pointer of the host's.
 *
 * Written by cbindgen from crates/ccarena-ffi/src; do not edit. */";

/// Sections of Rust's documentation that a C compiler cannot check, either.
fn without_safety(header: &str) -> String {
    let mut kept = Vec::new();
    let mut skips = false;
    for line in header.lines() {
        if line.trim() == "* # Safety" {
            skips = true;
            // The empty line before it.
            kept.pop();
        }
        skips &= line.trim() != "*/";
        if !skips {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

fn generated() -> String {
    let config = Config {
        language: Language::C,
        style: Style::Type,
        header: Some(PREFACE.into()),
        include_guard: Some("CCARENA_HOST_H".into()),
        no_includes: true,
        sys_includes: vec!["stddef.h".into(), "stdint.h".into()],
        includes: vec!["ccarena.h".into()],
        cpp_compat: true,
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::C,
        line_length: 120,
        tab_width: 2,
        export: ExportConfig {
            exclude: ["cc_ack", "cc_loss", "cc_sent", "cc_control"].map(Into::into).to_vec(),
            ..ExportConfig::default()
        },
        parse: ParseConfig { parse_deps: false, ..ParseConfig::default() },
        ..Config::default()
    };
    let sources = ["code", "facts", "abi"].map(|file| format!("{}/src/{file}.rs", env!("CARGO_MANIFEST_DIR")));
    let builder = sources.iter().fold(Builder::new(), Builder::with_src);
    let bindings = builder.with_config(config).generate().unwrap();
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    without_safety(&String::from_utf8(bytes).unwrap())
}

#[test]
fn the_header_is_that_of_the_functions() {
    let generated = generated();
    if std::env::var_os("CCARENA_WRITE_HEADER").is_some() {
        std::fs::write(HEADER, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(HEADER).unwrap_or_default();
    assert!(
        committed == generated,
        "{HEADER} is old: CCARENA_WRITE_HEADER=1 cargo test -p ccarena-ffi --test header writes it"
    );
    assert!(generated.contains("ccarena_create_policy("), "functions are found");
}
