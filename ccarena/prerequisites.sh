#!/bin/sh
# What building ccarena needs, in one place: the Makefile, setup.py, .ci/run and `ccarena doctor` all ask here.
#
#   prerequisites.sh programs  print the programs that can be built here: all on Linux with the kernel bridge's packages,
#                              none elsewhere
#   prerequisites.sh kernel    print the Debian packages that building the kernel bridge still needs; nothing if none, and
#                              nothing outside Linux, where no package would help
#   prerequisites.sh web       print what the simulator for web pages (make web) still needs, and the command that brings it;
#                              nothing if all is there
#   prerequisites.sh check     fail, and say what to do, unless everything but the kernel bridge can be built
#   prerequisites.sh extra NAME
#                              say how much installing this extra of pyproject.toml downloads and takes, and print the
#                              options of `uv pip install` that choose PyTorch's build for this machine
#   prerequisites.sh install [build] [kernel] [tests]
#                              install what is missing for these uses, or for all: as root and with apt, after asking;
#                              otherwise print the command, and fail if nothing can be built
#
# PYTHON names the interpreter that the environment is made with, CLANG the compiler of BPF programs. `install` does not
# ask if YES, CI or DEBIAN_FRONTEND=noninteractive is set.
set -eu
PYTHON=${PYTHON:-python3}

# In MB of download and of disk: what an extra adds to those above it. tests/test_install.py holds them against .venv,
# and docs/install.md shows them.
sizes() {
  case $1 in
    train-cpu) echo 300 1200 ;;
    train-cuda) echo 3100 6100 ;;
    test) echo 300 900 ;;
    check) echo 30 110 ;;
    docs) echo 20 80 ;;
    ray) echo 80 220 ;;
    *) echo 0 0 ;;
  esac
}
# In MB: what cargo builds, and temporary files.
ROOM_TO_BUILD=2000

has() { command -v "$1" >/dev/null 2>&1; }

is_linux() { [ "$(uname -s)" = Linux ]; }

fail() {
  echo "error: $1" >&2
  exit 1
}

# Whether a program that includes header $1, calls $2 and links library $3 statically, as the kernel bridge does, builds.
links() {
  paths=
  for folder in /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/lib; do  # as in .cargo/config.toml
    [ ! -d "$folder" ] || paths="$paths -L$folder"
  done
  # The paths hold no blanks.
  # shellcheck disable=SC2086
  printf '#include <%s>\nint main(void) { return (int)(long)%s; }\n' "$1" "$2" |
    cc -x c - -o /dev/null $paths -Wl,-Bstatic "-l$3" -Wl,-Bdynamic >/dev/null 2>&1
}

# Whether clang compiles BPF programs for the instruction set that the kernel bridge uses.
compiles_bpf() {
  echo 'int x;' | "${CLANG:-clang}" -target bpf -mcpu=v3 -x c -c - -o /dev/null >/dev/null 2>&1
}

kernel_packages() {
  is_linux || return 0
  missing=
  compiles_bpf || missing="$missing clang"
  links libelf.h 'elf_version(EV_CURRENT)' elf || missing="$missing libelf-dev"
  links zlib.h 'zlibVersion()' z || missing="$missing zlib1g-dev"
  # libbpf is built with both.
  has make || missing="$missing make"
  has "${PKG_CONFIG:-pkg-config}" || missing="$missing pkg-config"
  echo "${missing# }"
}

web() {
  missing=
  target=wasm32-unknown-unknown
  if ! [ -d "$(rustc --print target-libdir --target $target 2>/dev/null)" ]; then
    if has rustup; then
      missing="Rust's library for WebAssembly: rustup target add $target"
    else
      sources="$(rustc --print sysroot 2>/dev/null || true)/lib/rustlib/src/rust/library"
      { [ -d "$sources" ] && has wasm-ld; } ||
        missing="Rust's library for WebAssembly: $(apt_line 'rustc-web cargo-web rust-web-src lld'), or rustup (https://rustup.rs)"
    fi
  fi
  { has node && has npm; } || missing="${missing:+$missing; }Node: $(apt_line 'nodejs npm')"
  echo "$missing"
}

programs() {
  is_linux || return 0
  echo "ccarena-link ccarena-quic$([ -n "$(kernel_packages)" ] || echo ' ccarena-kernel')"
}

python_is_new_enough() { "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

# uv needs no ensurepip.
python_makes_environments() { has uv || "$PYTHON" -c 'import ensurepip, venv' >/dev/null 2>&1; }

build_packages() {
  missing=
  { has cc && has make; } || missing="$missing build-essential"
  # With which cargo and uv trust the registries; a bare Linux has none.
  ! is_linux || [ -s /etc/ssl/certs/ca-certificates.crt ] || [ -s /etc/pki/tls/certs/ca-bundle.crt ] ||
    missing="$missing ca-certificates"
  # Another interpreter than the distribution's own is not apt's to install.
  if [ "$PYTHON" = python3 ]; then
    python_is_new_enough && python_makes_environments || missing="$missing python3 python3-venv"
  fi
  echo "${missing# }"
}

# Programs that tests of the emulator and of the kernel bridge talk to, the browser and the display that pages and windows
# are looked at with, the linker of WebAssembly modules, the shells that complete commands, and what builds and runs the
# simulator for web pages.
tests_packages() {
  is_linux || return 0
  missing=
  has ip || missing="$missing iproute2"
  has iperf3 || missing="$missing iperf3"
  has curl || missing="$missing curl"
  has nginx || missing="$missing nginx-light"
  has nft || has iptables || missing="$missing nftables"
  has_browser || ! is_debian || missing="$missing chromium"
  has xvfb-run || missing="$missing xvfb"
  has wasm-ld || missing="$missing lld"
  has zsh || missing="$missing zsh"
  has fish || missing="$missing fish"
  has node || missing="$missing nodejs"
  has npm || missing="$missing npm"
  echo "${missing# }"
}

has_browser() { has chromium || has chromium-browser || has google-chrome || has google-chrome-stable; }

# Ubuntu has Chromium as a snap only, which is not for apt to install in a container.
is_debian() { grep -qx 'ID=debian' /etc/os-release 2>/dev/null; }

# How to install $1 here.
apt_line() {
  if [ "$(id -u)" = 0 ]; then echo "apt-get install $1"; else echo "sudo apt-get install $1"; fi
}

check() {
  if ! has "$PYTHON"; then
    fail "there is no Python interpreter \"$PYTHON\"; Python 3.10 or newer is needed: \
$(apt_line 'python3 python3-venv'), or name another: make PYTHON=python3.12"
  fi
  python_is_new_enough ||
    fail "$PYTHON is $("$PYTHON" --version 2>&1 | head -n 1); Python 3.10 or newer is needed: \
name another, make PYTHON=python3.12"
  python_makes_environments ||
    fail "$PYTHON cannot make virtual environments: $(apt_line python3-venv)"
  has cc || fail "no C compiler (cc) on PATH; needed to link the simulator: $(apt_line build-essential)"
  has cargo ||
    fail "no Rust toolchain (cargo) on PATH; needed to build the simulator: see https://rustup.rs, and open a new shell"
  [ -z "${EXTRAS:-}" ] || check_extras
  check_environment
  check_room
  is_linux ||
    echo "note: the emulator, QUIC and the kernel bridge are left out (all else is built); they need Linux" >&2
  missing=$(kernel_packages)
  [ -z "$missing" ] ||
    echo "note: the kernel bridge is left out (all else is built); it needs: $missing. To install them: \
make prerequisites" >&2
}

# EXTRAS of the Makefile are extras of pyproject.toml.
check_extras() {
  known=$(awk '/^\[/ {on = $1 == "[project.optional-dependencies]"} on && /^[a-z0-9-]+ *=/ {printf " %s", $1}' \
    "${0%/*}/../pyproject.toml")
  for extra in $(echo "${EXTRAS:-}" | awk '{gsub(",", " "); print}'); do
    case "$known " in
      *" $extra "*) ;;
      *) fail "EXTRAS=$EXTRAS: there is no extra \"$extra\"; expected some of:$known" ;;
    esac
  done
}

# An environment keeps the interpreter that it was made with.
check_environment() {
  [ -x .venv/bin/python ] && [ "$PYTHON" != python3 ] || return 0
  version='import sys; print(*sys.version_info[:2], sep=".")'
  asked=$("$PYTHON" -c "$version")
  there=$(.venv/bin/python -c "$version" 2>/dev/null || echo 'a Python that is gone')
  [ "$asked" = "$there" ] ||
    fail "PYTHON=$PYTHON is Python $asked, but .venv was made with $there; to make it anew: rm -rf .venv"
}

# ROOM_GB says how much is enough instead, such as where .venv or target are on another disk.
check_room() {
  what='building and testing needs' mb=$ROOM_TO_BUILD
  if [ ! -f .venv/extras/train ]; then
    pytorch=$(pytorch)
    what="setting up and building with $(title "$pytorch") needs"
    # shellcheck disable=SC2046
    set -- $(sizes "train-$pytorch")
    mb=$((mb + $2))
  fi
  needed=${ROOM_GB:-$(gb $mb)}
  case $needed in
    *[!0-9.]* | *.*.* | .) fail "ROOM_GB=$needed: expected how many GB of free disk are enough, such as ROOM_GB=3" ;;
  esac
  free_kb=$(df -Pk . | awk 'NR == 2 {print $4}')
  awk "BEGIN {exit !($free_kb >= $needed * 1000000)}" ||
    fail "$(gb $((free_kb / 1000))) GB of disk are free in $PWD, but $what about $needed GB: make room, or set ROOM_GB if less \
will do"
}

# Tenths of GB from MB.
gb() { echo "$(($1 / 1000)).$(($1 % 1000 / 100))"; }

# PyTorch's build without CUDA comes from PyTorch's own index alone; on other systems every build is without.
PYTORCH_INDEX=${PYTORCH_INDEX:-https://download.pytorch.org/whl/cpu/torch/}

# Which build of PyTorch this machine gets: the user's choice, that of .venv, the one without CUDA if there is no NVIDIA
# GPU, else CUDA's.
pytorch() {
  if is_chosen; then
    case $PIP_ARGS in *cpu*) echo cpu ;; *) echo cuda ;; esac
  elif [ -n "$(ls -d .venv/lib/python3*/site-packages/torch-*.dist-info 2>/dev/null)" ]; then
    if [ -n "$(ls -d .venv/lib/python3*/site-packages/torch-*+cpu.dist-info 2>/dev/null)" ]; then echo cpu; else echo cuda; fi
  elif ! has_gpu && { [ "$(uname -s)" != Linux ] || has_pytorch_index; }; then
    echo cpu
  else
    echo cuda
  fi
}

title() { [ "$1" = cpu ] && echo 'PyTorch without CUDA' || echo "PyTorch's CUDA build"; }

# PIP_ARGS are those of the Makefile.
is_chosen() { case ${PIP_ARGS:=} in *--torch-backend*) ;; *) false ;; esac; }

has_gpu() { nvidia-smi -L >/dev/null 2>&1; }

# The alarm ends the interpreter even while it looks up the name.
has_pytorch_index() {
  "$PYTHON" -c "import signal, urllib.request as r; signal.alarm(5); r.urlopen('$PYTORCH_INDEX', timeout=4)" \
    >/dev/null 2>&1
}

extra() {
  pytorch=$(pytorch)
  name=$1 note=
  if [ "$1" = train ]; then
    name=train-$pytorch
    note=", with $(title "$pytorch")"
    if [ "$pytorch" = cuda ] && ! is_chosen && ! has_gpu; then
      note="$note: there is no NVIDIA GPU, but PyTorch's index, which alone has the build without CUDA, does not answer"
    fi
  fi
  # shellcheck disable=SC2046
  set -- "$1" $(sizes "$name")
  [ "$2" = 0 ] || echo "Installing what \"$1\" needs: up to $2 MB to download, $3 MB of disk$note" >&2
  if [ "$pytorch" = cpu ] && ! is_chosen && [ "$(uname -s)" = Linux ]; then echo --torch-backend cpu; fi
}

purpose() {
  case $1 in
    build) echo 'to build ccarena at all' ;;
    kernel) echo 'to build the kernel bridge' ;;
    tests) echo 'for some tests of the emulator, of the kernel bridge, of modules and of pages' ;;
  esac
}

install() {
  packages='' required=''
  for group in "$@"; do
    missing=$("${group}_packages")
    [ -n "$missing" ] || continue
    [ -n "$packages" ] || echo 'Packages that are missing:'
    echo "  $missing: $(purpose "$group")"
    packages="$packages $missing"
    [ "$group" != build ] || required=1
  done
  has cargo || echo 'Rust (cargo) is not on PATH; it does not come from apt: see https://rustup.rs'
  if [ -z "$packages" ]; then
    echo 'All packages that ccarena is built and tested with are here.'
  elif ! has apt-get; then
    echo "Install them with your package manager; on Debian and Ubuntu: sudo apt-get install$packages"
    [ -z "$required" ]
  elif [ "$(id -u)" != 0 ]; then
    echo "Install them with: sudo apt-get install$packages"
    [ -z "$required" ]
  elif agreed; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
  else
    echo "Nothing was installed. To install them: apt-get install$packages, or make prerequisites YES=1"
    [ -z "$required" ]
  fi
}

agreed() {
  [ -z "${YES:-}${CI:-}" ] && [ "${DEBIAN_FRONTEND:-}" != noninteractive ] || return 0
  [ -t 0 ] || return 1
  printf 'Install them with apt-get now? [Y/n] '
  read -r answer
  case $answer in [nN]*) return 1 ;; esac
}

case ${1:-} in
  programs) programs ;;
  kernel) kernel_packages ;;
  web) web ;;
  check) check ;;
  extra) extra "${2:?the name of an extra}" ;;
  install) shift && install ${*:-build kernel tests} ;;
  *) fail "$0: expected programs, kernel, web, check, extra or install" ;;
esac
