//! Address translation for the outermost shell, so that its command reaches what is beyond this machine.
//!
//! A shell script of its own session holds the rule until its standard input ends: also when the emulator is killed, no rule
//! stays behind.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};

use super::address::Block;
use crate::error::LinkError;
use crate::namespace::Namespace;

/// Says `ok` when the rule is there, else why it is not. `$1` is a table's name, `$2` the block, `$3` the device to it.
const SCRIPT: &str = r#"
rules="add table ip $1
    add chain ip $1 out { type nat hook postrouting priority 100; }
    add rule ip $1 out ip saddr $2 oifname != \"$3\" masquerade"
rule() { iptables -w -t nat "$1" POSTROUTING -s "$2" ! -o "$3" -j MASQUERADE; }
if said=$(command -v nft >/dev/null && nft "$rules" 2>&1); then
    echo ok
    cat >/dev/null
    nft delete table ip "$1"
elif said=$(command -v iptables >/dev/null && rule -A "$2" "$3" 2>&1); then
    echo ok
    cat >/dev/null
    rule -D "$2" "$3"
else
    echo "${said:-neither nft nor iptables is on PATH}"
fi
"#;

/// A rule that is in force while this lives.
pub struct Translation {
    script: Child,
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
        let table = format!("ccarena_{}", std::process::id());
        // Not by Namespace::command: it is to outlive this process for as long as it takes to remove the rule.
        let spawned = outer.run(|| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", SCRIPT, "sh", &table, &source, device]).process_group(0);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        });
        let mut script = spawned.map_err(said)?.map_err(|e| format!("cannot run sh: {e}"))?;
        let held = script.stdin.take();
        let mut answer = String::new();
        if let Some(out) = script.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut answer);
        }
        let translation = Self { script, held };
        match answer.trim() {
            "ok" => Ok(translation),
            why => Err(why.to_owned()),
        }
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        self.held = None;
        let _ = self.script.wait();
    }
}
