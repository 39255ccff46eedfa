//! Data by iperf3: a client and a server for each flow, in the namespaces of the run.
//!
//! It counts in other ways than we do: its client has no counter of segments, so those sent are reckoned from its bytes;
//! its smallest RTT is that of the smoothed ones; what arrived is known per tenth of a second, and spread over the bins.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{FromRawFd, RawFd};
use std::process::{Child, Command, Stdio};

use ccarena_cc::{Dur, Time};
use ccarena_link::tcp::{Sent, Socket, nothing};
use ccarena_link::{End, Network, clock};
use ccarena_net::Scenario;
use ccarena_net::series::{FlowBin, Series};
use serde_json::Value;

use super::receiver::Received;
use super::{HEADER_BYTES, TrafficError, is_readable};

const PORT: &str = "5201";
/// Interval over which iperf3 adds up.
const STEP: &str = "0.1";
/// Time for exchanging results after the data.
const GRACE: Dur = Dur::from_millis(3000);
/// The thread looks around so often.
const TICK_NS: u64 = 10_000_000;

/// Clients and servers that wait for the run to begin.
pub struct Iperf3 {
    flows: Vec<Flow>,
    scenario: Scenario,
    /// `SO_NETNS_COOKIE` of the two namespaces.
    pub namespaces: [u64; 2],
}

struct Flow {
    client: Command,
    server: Command,
    start: Time,
}

/// A program that runs, and the file in memory that it writes to.
struct Program {
    child: Child,
    output: File,
}

impl Iperf3 {
    /// One client and server per flow of `scenario`, flow i under the congestion control `names[i]`.
    ///
    /// # Errors
    /// If the kernel refuses something.
    pub fn new(scenario: &Scenario, network: &Network, names: &[String]) -> Result<Self, TrafficError> {
        let cookie = |end| {
            let cookie = network
                .namespace(end)
                .run(|| Socket::new(End::Senders.address(0).into()).and_then(|s| s.namespace_cookie()))?;
            cookie.map_err(TrafficError::of("cannot tell network namespaces apart (Linux 5.14)"))
        };
        let namespaces = [cookie(End::Senders)?, cookie(End::Receivers)?];
        let mut flows = Vec::new();
        for (index, (flow, name)) in scenario.flows.iter().zip(names).enumerate() {
            let (from, to) = (End::Senders.address(index).to_string(), End::Receivers.address(index).to_string());
            let mut server = network.namespace(End::Receivers).command("iperf3")?;
            server.args(["-s", "-1", "-J", "-i", STEP, "-B", &to, "-p", PORT]);
            let mut client = network.namespace(End::Senders).command("iperf3")?;
            let stop = flow.stop.unwrap_or(Time(scenario.duration.0));
            // Whole seconds are all it takes; what is too long is cut off.
            let seconds = stop.since(flow.start).as_secs_f64().ceil().max(1.0).to_string();
            client.args(["-c", &to, "-B", &from, "-p", PORT, "-C", name, "-t", &seconds, "-J", "-i", STEP]);
            if flow.mss_bytes < ccarena_net::scenario::Flow::default().mss_bytes {
                client.args(["-M", &flow.mss_bytes.to_string()]);
            }
            flows.push(Flow { client, server, start: flow.start });
        }
        Ok(Self { flows, scenario: scenario.clone(), namespaces })
    }

    /// Runs until all clients have finished, or until `stop` polls readable; time zero is `zero_ns`. Programs die with the
    /// thread that calls this.
    #[must_use]
    pub fn run(mut self, zero_ns: u64, stop: RawFd) -> (Vec<Sent>, Vec<Received>) {
        let count = self.flows.len();
        let mut servers: Vec<_> = self.flows.iter_mut().map(|f| Program::start(&mut f.server)).collect();
        let mut clients: Vec<Option<Result<Program, String>>> = (0..count).map(|_| None).collect();
        let end = Time(self.scenario.duration.0) + GRACE;
        loop {
            let now = Time(clock::now_ns().saturating_sub(zero_ns));
            for (flow, client) in self.flows.iter_mut().zip(&mut clients) {
                if client.is_none() && flow.start <= now {
                    *client = Some(Program::start(&mut flow.client));
                }
            }
            let running = clients.iter_mut().any(|c| match c {
                None => true,
                Some(Ok(program)) => program.runs(),
                Some(Err(_)) => false,
            });
            if !running || now >= end || is_readable(stop) {
                break;
            }
            clock::wait(&[stop], Some(TICK_NS));
        }
        let documents = |program: Option<Result<Program, String>>| match program {
            Some(Ok(program)) => program.document(),
            Some(Err(e)) => Err(e),
            None => Err("it never began".into()),
        };
        let results = clients.into_iter().zip(servers.drain(..));
        let results = results.map(|(client, server)| (documents(client), documents(Some(server))));
        results.enumerate().map(|(index, (client, server))| self.flow(index, client, server)).unzip()
    }

    fn flow(&self, index: usize, client: Result<Value, String>, server: Result<Value, String>) -> (Sent, Received) {
        let mut sent = Sent::default();
        match client {
            Err(e) => sent.error = Some(format!("flows[{index}]: iperf3: {e}")),
            Ok(client) => {
                let sender = &client["end"]["streams"][0]["sender"];
                let number = |name: &str| sender[name].as_u64().unwrap_or(0);
                let mss = client["start"]["tcp_mss_default"].as_u64().filter(|&m| m > 0).unwrap_or(1448);
                let mut info = nothing();
                info.tcpi_total_retrans = number("retransmits") as u32;
                info.tcpi_data_segs_out = (number("bytes").div_ceil(mss) + number("retransmits")) as u32;
                info.tcpi_min_rtt = number("min_rtt") as u32;
                info.tcpi_snd_mss = mss as u32;
                sent.info = Some(info);
                sent.rtt_mean = Some(number("mean_rtt")).filter(|&us| us > 0).map(Dur::from_micros);
            }
        }
        let mut received = Received::default();
        let record = &self.scenario.record;
        let mut series = record.series.then(|| Series::<FlowBin>::new(record.bin, self.scenario.duration));
        let (start, mss) = (self.scenario.flows[index].start, u64::from(self.scenario.flows[index].mss_bytes.max(1)));
        let mut info = nothing();
        for interval in server.iter().flat_map(|s| s["intervals"].as_array().into_iter().flatten()) {
            let sum = &interval["sum"];
            let second = |name: &str| start + Dur::from_secs_f64(sum[name].as_f64().unwrap_or(0.0));
            let (from, to, bytes) = (second("start"), second("end"), sum["bytes"].as_u64().unwrap_or(0));
            received.payload_bytes += bytes;
            let Some(series) = &mut series else { continue };
            let bins = to.since(from).0.div_ceil(record.bin.0.max(1)).max(1);
            for k in 0..bins {
                if let Some(bin) = series.at(from + record.bin * k) {
                    let share = bytes * (k + 1) / bins - bytes * k / bins;
                    bin.payload_bytes += share;
                    bin.wire_bytes += share + share.div_ceil(mss) * HEADER_BYTES;
                }
            }
        }
        info.tcpi_data_segs_in = received.payload_bytes.div_ceil(mss) as u32;
        received.info = Some(info);
        received.series = series;
        (sent, received)
    }
}

impl Program {
    fn start(command: &mut Command) -> Result<Self, String> {
        let fail = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => "it is not installed; expected the program iperf3 on PATH".to_owned(),
            _ => e.to_string(),
        };
        #[allow(unsafe_code, reason = "the standard library has no files in memory")]
        // SAFETY: the name is a string that lives through the call; the descriptor is new and ours alone.
        let output = unsafe {
            let fd = libc::memfd_create(c"iperf3".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(fail(std::io::Error::last_os_error()));
            }
            File::from_raw_fd(fd)
        };
        let copy = output.try_clone().map_err(fail)?;
        let child = command.stdin(Stdio::null()).stdout(copy).stderr(Stdio::null()).spawn().map_err(fail)?;
        Ok(Self { child, output })
    }

    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns its output, if it has ended by itself; else kills it.
    fn document(mut self) -> Result<Value, String> {
        // The other end may be about to write its own.
        for _ in 0..50 {
            if !self.runs() {
                break;
            }
            clock::wait(&[], Some(TICK_NS));
        }
        if self.runs() {
            // It may end just now; then there is nothing to kill.
            let _ = self.child.kill();
        }
        self.child.wait().map_err(|e| e.to_string())?;
        let mut text = String::new();
        self.output.rewind().and_then(|()| self.output.read_to_string(&mut text)).map_err(|e| e.to_string())?;
        let document: Value =
            serde_json::from_str(&text).map_err(|_| "it was cut short, or wrote no JSON".to_owned())?;
        match document["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(document),
        }
    }
}
