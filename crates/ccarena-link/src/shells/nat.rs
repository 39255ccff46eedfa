//! Address translation for the outermost shell, so that its command reaches what is beyond this machine.
//!
//! No rule stays behind, also when everything is killed at once: nftables' table belongs to the socket of the process that
//! made it (`flags owner`, Linux 5.12), and the kernel removes it with that socket. The process is `nft -i`, which ends with
//! its standard input, at the latest with us. Without nft, iptables has no such thing: there a shell script of its own
//! process group removes the rule when its standard input ends, unless it is killed too.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use super::address::Block;
use crate::clock;
use crate::error::LinkError;
use crate::namespace::Namespace;

/// Says `ok` when the rule is there, else why it is not. `$1` is the block, `$2` the device to it.
const SCRIPT: &str = r#"
rule() { iptables -w -t nat "$1" POSTROUTING -s "$2" ! -o "$3" -j MASQUERADE; }
if said=$(command -v iptables >/dev/null && rule -A "$1" "$2" 2>&1); then
    echo ok
    cat >/dev/null
    rule -D "$1" "$2"
else
    echo "${said:-neither nft nor iptables is on PATH}"
fi
"#;

/// Longest time of nft.
const PATIENCE: Duration = Duration::from_secs(5);

/// A rule that is in force while this lives.
pub struct Translation {
    holder: Child,
    held: Option<ChildStdin>,
}

impl Translation {
    /// Translates the addresses of `block`, which `device` of namespace `outer` leads to, when packets leave otherwise.
    ///
    /// # Errors
    /// Why not, as a sentence for people: the shell works without.
    pub fn begin(outer: &Namespace, block: Block, device: &str) -> Result<Self, String> {
        let said = |e: LinkError| e.to_string();
        let forwards = outer.run(|| std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward")).map_err(said)?;
        if forwards.is_ok_and(|text| text.trim() == "0") {
            return Err("this machine does not forward: sysctl -w net.ipv4.ip_forward=1".into());
        }
        let source = format!("{}/{}", block.base(), block.bits);
        outer
            .run(|| Self::by_nft(&source, device).or_else(|why| Self::by_iptables(&source, device, &why)))
            .map_err(said)?
    }

    /// A table of nftables that the kernel removes with its owner.
    fn by_nft(source: &str, device: &str) -> Result<Self, String> {
        let table = format!("ccarena_{}", std::process::id());
        let rules = format!(
            "add table ip {table} {{ flags owner; }}\n\
             add chain ip {table} out {{ type nat hook postrouting priority 100; }}\n\
             add rule ip {table} out ip saddr {source} oifname != \"{device}\" masquerade\n"
        );
        let mut translation = Self::spawn(Command::new("nft").arg("-i").stdout(Stdio::null()))?;
        let written = translation.held.as_mut().map(|stdin| stdin.write_all(rules.as_bytes()));
        written.transpose().map_err(|e| format!("nft takes no rules: {e}"))?;
        let until = clock::now_ns() + PATIENCE.as_nanos() as u64;
        loop {
            let listed = Command::new("nft").args(["list", "table", "ip", &table]).output();
            let listed =
                String::from_utf8_lossy(&listed.map_err(|e| format!("cannot run nft: {e}"))?.stdout).into_owned();
            if listed.contains("flags owner") && listed.contains("masquerade") {
                return Ok(translation);
            }
            if translation.holder.try_wait().is_ok_and(|ended| ended.is_some()) || clock::now_ns() > until {
                return Err("nft adds no rule with an owner, which takes nftables 0.9.9 and Linux 5.12".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn by_iptables(source: &str, device: &str, no_nft: &str) -> Result<Self, String> {
        let script = ["-c", SCRIPT, "sh", source, device];
        let mut translation = Self::spawn(Command::new("sh").args(script).stdout(Stdio::piped()))?;
        let mut answer = String::new();
        if let Some(out) = translation.holder.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut answer);
        }
        match answer.trim() {
            "ok" => Ok(translation),
            why => Err(format!("{why} ({no_nft})")),
        }
    }

    /// Starts the command, but not by Namespace::command: it outlives this process until the rule is removed.
    fn spawn(command: &mut Command) -> Result<Self, String> {
        let spawned = command.process_group(0).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut holder = spawned.map_err(|e| format!("cannot run {}: {e}", command.get_program().to_string_lossy()))?;
        let held = holder.stdin.take();
        Ok(Self { holder, held })
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        self.held = None;
        let _ = self.holder.wait();
    }
}
