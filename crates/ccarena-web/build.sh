#!/bin/sh
# Builds the simulator for web pages and the pages around it, into ccarena/play/assets.
set -eu
cd "$(dirname "$0")/../.."
target=wasm32-unknown-unknown
assets=ccarena/play/assets

fail() {
  echo "error: $1" >&2
  exit 1
}

rustup target list --installed 2>/dev/null | grep -qx $target || fail "Rust cannot build for $target: rustup target add $target"
command -v npm >/dev/null || fail 'no Node on PATH: apt-get install nodejs npm'
cargo build --quiet --package ccarena-web --target $target --profile web
mkdir -p $assets
cp target/$target/web/ccarena_web.wasm $assets/engine.wasm
cd crates/ccarena-web/page
[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --silent
npm run --silent build
