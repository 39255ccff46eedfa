#!/bin/sh
# Makes target/tquic: the sources of tquic 1.6.0, which cargo fetches and checks, with tquic.patch applied.
set -eu
cd "$(dirname "$0")"
made=target/tquic
if cmp -s tquic.patch "$made/applied.patch"; then exit; fi

fetch=target/fetch
mkdir -p "$fetch/src"
: >"$fetch/src/lib.rs"
cat >"$fetch/Cargo.toml" <<END
[package]
name = "fetch"
version = "0.0.0"
edition = "2024"
[dependencies]
tquic = { version = "=1.6.0", default-features = false }
[workspace]
END
sources=$(cargo metadata --quiet --format-version 1 --manifest-path "$fetch/Cargo.toml" |
  grep -o '"manifest_path":"[^"]*/tquic-1\.6\.0/Cargo\.toml"' | cut -d'"' -f4)
rm -rf "$made"
cp -R "$(dirname "$sources")" "$made"
patch --quiet --fuzz=0 --strip=1 --directory="$made" <tquic.patch
cp tquic.patch "$made/applied.patch"
