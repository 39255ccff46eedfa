#!/bin/sh
# Builds libccarena, and installs it with its headers and a pkg-config file: install.sh PREFIX [shared]
# The files under PREFIX can be moved: they find each other. `shared` leaves the static library out.
set -eu
prefix=${1:?install.sh PREFIX [shared]}
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}

cargo build --quiet --manifest-path "$root/Cargo.toml" --package ccarena-ffi --profile extension
rm -rf "$prefix"
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
cp "$root/ccarena/controllers/ccarena.h" "$root/ccarena/controllers/ccarena_host.h" "$prefix/include"
case $(uname -s) in Darwin) shared=libccarena.dylib ;; *) shared=libccarena.so ;; esac
cp "$target/extension/$shared" "$prefix/lib"
strip -x "$prefix/lib/$shared"
# Linux takes the name of the file; macOS the one in it, and only code whose signature fits.
if [ "$shared" = libccarena.dylib ]; then
  install_name_tool -id "@rpath/$shared" "$prefix/lib/$shared"
  codesign --force --sign - "$prefix/lib/$shared"
fi
if [ "${2:-}" != shared ]; then
  cp "$target/extension/libccarena.a" "$prefix/lib"
  strip -S "$prefix/lib/libccarena.a"
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
cat >"$prefix/lib/pkgconfig/ccarena.pc" <<END
prefix=\${pcfiledir}/../..
libdir=\${prefix}/lib

Name: ccarena
Description: Congestion controllers and trained policies behind a C ABI
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${libdir} -Wl,-rpath,\${libdir} -lccarena
Libs.private: -lpthread -ldl -lm
END
