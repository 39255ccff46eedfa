#!/bin/sh
# Builds the simulator for web pages and the pages around it, into ccarena/play/assets.
#
# Rust's standard library for WebAssembly comes from rustup, or is built from its sources, as on Debian, whose compiler has
# no such library (-Z build-std, which stable compilers take with RUSTC_BOOTSTRAP).
set -eu
cd "$(dirname "$0")/../.."
target=wasm32-unknown-unknown
assets=ccarena/play/assets

lacking=$(sh ccarena/prerequisites.sh web)
[ -z "$lacking" ] || {
  echo "error: the simulator for web pages cannot be built; it needs $lacking" >&2
  exit 1
}

set --
if [ ! -d "$(rustc --print target-libdir --target $target)" ]; then
  export RUSTC_BOOTSTRAP=1
  set -- -Z build-std=std,panic_abort
fi
ls "$(rustc --print sysroot)"/lib/rustlib/*/bin/rust-lld >/dev/null 2>&1 ||
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld
cargo build --quiet --package ccarena-web --target $target --profile web "$@"
mkdir -p $assets
cp target/$target/web/ccarena_web.wasm $assets/engine.wasm
cd crates/ccarena-web/page
[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --silent
npm run --silent build
