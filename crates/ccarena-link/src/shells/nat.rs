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
use crate::ipv6;
use crate::namespace::Namespace;

/// Says `ok` when the rule is there, else why it is not. `$1` is the block, `$2` the device to it, `$3` the program.
const SCRIPT: &str = r#"
rule() { "$4" -w -t nat "$1" POSTROUTING -s "$2" ! -o "$3" -j MASQUERADE; }
if said=$(command -v "$3" >/dev/null && rule -A "$1" "$2" "$3" 2>&1); then
    echo ok
    cat >/dev/null
    rule -D "$1" "$2" "$3"
else
    echo "${said:-neither nft nor $3 is on PATH}"
fi
"#;

/// Version, source addresses and the device that leads to them.
type Rule<'a> = (Version, String, &'a str);

/// Longest time of nft.
const PATIENCE: Duration = Duration::from_secs(5);

/// Version of the internet protocol that is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V4,
    V6,
}

impl Version {
    /// Returns the first and the number of fixed bits of the addresses of `block`.
    fn source(self, block: Block) -> String {
        match self {
            Self::V4 => format!("{}/{}", block.base(), block.bits),
            Self::V6 => format!("{}/{}", ipv6::beside(block.base()), ipv6::PREFIX_BITS + block.bits),
        }
    }

    /// Returns the setting that lets a machine forward.
    fn forwarding(self) -> &'static str {
        match self {
            Self::V4 => "net.ipv4.ip_forward",
            Self::V6 => "net.ipv6.conf.all.forwarding",
        }
    }

    /// Returns the family of nft's tables.
    fn family(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    fn iptables(self) -> &'static str {
        match self {
            Self::V4 => "iptables",
            Self::V6 => "ip6tables",
        }
    }
}

/// A rule that is in force while this lives.
pub struct Translation {
    holder: Child,
    held: Option<ChildStdin>,
}

impl Translation {
    /// Translates the addresses of `version` beside `block`, which `device` of namespace `outer` leads to, when packets leave otherwise.
    ///
    /// # Errors
    /// Why not, as a sentence for people: the shell works without.
    pub fn begin(outer: &Namespace, block: Block, device: &str, version: Version) -> Result<Self, String> {
        let said = |e: LinkError| e.to_string();
        let setting = version.forwarding();
        let path = format!("/proc/sys/{}", setting.replace('.', "/"));
        let forwards = outer.run(|| std::fs::read_to_string(path)).map_err(said)?;
        if forwards.is_ok_and(|text| text.trim() == "0") {
            return Err(format!("this machine does not forward: sysctl -w {setting}=1"));
        }
        let rule = (version, version.source(block), device);
        outer.run(|| Self::by_nft(&rule).or_else(|why| Self::by_iptables(&rule, &why))).map_err(said)?
    }

    /// A table of nftables that the kernel removes with its owner.
    fn by_nft((version, source, device): &Rule<'_>) -> Result<Self, String> {
        let family = version.family();
        let table = format!("ccarena_{}", std::process::id());
        let rules = format!(
            "add table {family} {table} {{ flags owner; }}\n\
             add chain {family} {table} out {{ type nat hook postrouting priority 100; }}\n\
             add rule {family} {table} out {family} saddr {source} oifname != \"{device}\" masquerade\n"
        );
        let mut translation = Self::spawn(Command::new("nft").arg("-i").stdout(Stdio::null()))?;
        let written = translation.held.as_mut().map(|stdin| stdin.write_all(rules.as_bytes()));
        written.transpose().map_err(|e| format!("nft takes no rules: {e}"))?;
        let until = clock::now_ns() + PATIENCE.as_nanos() as u64;
        loop {
            let listed = Command::new("nft").args(["list", "table", family, &table]).output();
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

    fn by_iptables((version, source, device): &Rule<'_>, no_nft: &str) -> Result<Self, String> {
        let script = ["-c", SCRIPT, "sh", source, device, version.iptables()];
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
