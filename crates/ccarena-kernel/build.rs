//! Compiles the BPF programs, which the library carries as objects: no compiler is needed where they run.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const PROGRAMS: [&str; 4] = ["bridge", "pilot", "policy", "wcc"];
/// Headers of `ccarena-cc` that the programs share with other runtimes of a policy.
const SHARED: [&str; 2] = ["../ccarena-cc/src/policy/integer", "../ccarena-cc/src/policy/kernel"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=src/bpf");
    for folder in SHARED {
        println!("cargo::rerun-if-changed={folder}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    for program in PROGRAMS {
        if let Err(problem) = compile(program) {
            println!("cargo::error={}", problem.replace('\n', " | "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn compile(program: &str) -> Result<(), String> {
    let variable = |name: &str| env::var_os(name).ok_or(format!("{name} is not set: run this through cargo"));
    let clang = PathBuf::from(env::var_os("CLANG").unwrap_or_else(|| "clang".into()));
    let source = Path::new("src/bpf").join(format!("{program}.bpf.c"));
    let object = PathBuf::from(variable("OUT_DIR")?).join(format!("{program}.bpf.o"));
    // libbpf's headers, as libbpf-sys built it.
    let headers = variable("DEP_BPF_INCLUDE")?;
    let architecture = match variable("CARGO_CFG_TARGET_ARCH")?.to_str() {
        Some("x86_64") => "x86",
        Some("aarch64") => "arm64",
        other => {
            return Err(format!("no BPF calling convention is known here for {other:?}; expected x86_64 or aarch64"));
        }
    };
    let mut target = OsString::from("-D__TARGET_ARCH_");
    target.push(architecture);
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-fno-stack-protector"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .arg(target)
        .arg("-isystem")
        .arg(headers)
        .args(SHARED.iter().flat_map(|folder| ["-I", folder]))
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| {
            format!(
                "{}, which compiles BPF programs, does not run ({e}); install clang 14 or newer (Debian: apt install \
                 clang) or name it in CLANG",
                clang.display()
            )
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{} does not compile {}: {}",
        clang.display(),
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    ))
}
