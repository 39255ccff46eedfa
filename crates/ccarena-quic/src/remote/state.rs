//! State of a server that its connections share: the run that goes on, its limits and its records.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccarena_cc::{Dur, Time};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;

use super::load::Load;
use super::message::TcpFlow;
use super::stamps::Seen;
use super::tcp::ticket::Ticket;

/// Time within which a client has to send its first line, or its ticket.
pub const FIRST_LINE_WITHIN: Dur = Dur::from_millis(5_000);
/// Interval at which connections check the limits of their run.
pub const LOOK: Dur = Dur::from_millis(100);
/// Time that a run may take beyond its duration, to begin and to end.
const GRACE: Dur = Dur::from_millis(30_000);
/// Time after a flow's start within which its ticket has to come.
const TICKET_WITHIN: Dur = Dur::from_millis(10_000);
/// Most entries of a run. Each takes 24 bytes, twice that while a list grows, and 18 more when the run is sent.
const MOST_ENTRIES: usize = 8 << 20;

/// State that the server's connections share.
pub struct State {
    /// Digest of the token.
    pub token: Vec<u8>,
    /// Longest run.
    pub longest: Dur,
    /// Most bytes of a run.
    pub most_bytes: u64,
    /// Reason why there is no TCP port; none if there is one.
    pub no_tcp: Option<String>,
    /// The run that goes on. There is one at a time, so that none disturbs another.
    pub run: Option<Run>,
    /// Lines of the log that are not written yet.
    pub log_lines: Vec<Value>,
}

/// The state in the hands of the server's threads.
pub type Shared = Arc<Mutex<State>>;

/// The state, for this thread alone.
pub fn locked(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run.
pub struct Run {
    /// Secret name.
    pub id: String,
    /// Number of the connection that is its control.
    pub control: u64,
    /// Time at which it has to have ended.
    pub until: Time,
    /// Time zero of the run.
    pub zero: Time,
    /// End of its flows.
    pub end: Time,
    /// Load of a run whose flows leave here; none if they arrive.
    pub load: Option<Arc<Load>>,
    /// Record of each flow.
    pub flows: Vec<Seen>,
    /// Flag of each flow that it has its connection.
    pub joined: Vec<bool>,
    /// Tickets of flows of the kernel's TCP.
    pub tickets: Vec<Given>,
    /// TCP connections that send, and have not reported.
    pub sending: usize,
    /// Bytes so far.
    pub bytes: u64,
    /// Entries of all records.
    pub entries: usize,
    /// Limit that the run has exceeded.
    pub exceeded: Option<Limit>,
}

/// A ticket that admits one connection.
#[derive(Clone, Debug)]
pub struct Given {
    /// The ticket.
    pub ticket: Ticket,
    /// Number of the flow.
    pub flow: usize,
    /// Time at which it expires.
    pub until: Time,
}

/// A TCP connection that is a flow of a run.
#[derive(Debug)]
pub struct Admitted {
    /// Name of the run.
    pub run: String,
    /// Number of the flow.
    pub flow: usize,
    /// Load of a run whose flows leave here.
    pub load: Option<Arc<Load>>,
    /// Time zero of the run.
    pub zero: Time,
    /// End of its flows.
    pub end: Time,
}

/// Limit of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Most bytes.
    Bytes(u64),
    /// Most entries.
    Entries,
    /// Time at which it has to have ended.
    Time,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(most) => {
                write!(
                    f,
                    "the run sent more than {} MB, the limit of this server (`--most-mb` there)",
                    most / 1_000_000
                )
            }
            Self::Entries => {
                write!(f, "the run has more than {MOST_ENTRIES} packets and reads, the most that this server keeps")
            }
            Self::Time => write!(f, "the run did not end in time"),
        }
    }
}

impl Run {
    /// A run of `flows` flows that begins at `now`, with tickets for those in `tcp`.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(
        control: u64,
        now: Time,
        length: Dur,
        flows: usize,
        tcp: &[TcpFlow],
        load: Option<Arc<Load>>,
    ) -> Result<Self, String> {
        let mut random = [0; 16];
        SystemRandom::new().fill(&mut random).map_err(|_| "no random numbers here")?;
        let given = |of: &TcpFlow| {
            let until = now + Dur(of.start_ns) + TICKET_WITHIN;
            Some(Given { ticket: Ticket::draw()?, flow: of.flow, until })
        };
        Ok(Self {
            id: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            control,
            until: now + length + GRACE,
            zero: now,
            end: now + length,
            load,
            flows: vec![Seen::default(); flows],
            joined: vec![false; flows],
            tickets: tcp.iter().map(given).collect::<Option<_>>().ok_or("no random numbers here")?,
            sending: 0,
            bytes: 0,
            entries: 0,
            exceeded: None,
        })
    }

    /// Adds to the record of `flow` by `add`.
    ///
    /// # Errors
    /// If that is more than the run may have.
    pub fn add(&mut self, flow: usize, bytes: u64, most_bytes: u64, add: impl FnOnce(&mut Seen)) -> Result<(), Limit> {
        let seen = &mut self.flows[flow];
        let before = seen.len();
        add(seen);
        self.entries += seen.len() - before;
        self.bytes += bytes;
        if self.bytes > most_bytes {
            self.exceeded = Some(Limit::Bytes(most_bytes));
        } else if self.entries > MOST_ENTRIES {
            self.exceeded = Some(Limit::Entries);
        }
        self.exceeded.map_or(Ok(()), Err)
    }

    /// Returns whether flow number `flow` is the kernel's TCP.
    pub fn is_tcp(&self, flow: usize) -> bool {
        self.tickets.iter().any(|given| given.flow == flow)
    }
}

impl State {
    /// Returns whether a ticket may still come.
    pub fn expects_tickets(&self, now: Time) -> bool {
        let open = |run: &Run| run.tickets.iter().any(|given| now < given.until && !run.joined[given.flow]);
        self.run.as_ref().is_some_and(open)
    }

    /// Takes a ticket, which is then used up.
    ///
    /// # Errors
    /// If it is none of the run that goes on, was used, or has expired.
    pub fn admit(&mut self, ticket: &Ticket, now: Time) -> Result<Admitted, &'static str> {
        let run = self.run.as_mut().ok_or("no run goes on")?;
        let given = run.tickets.iter().find(|given| given.ticket.is(ticket)).ok_or("a wrong ticket")?;
        if run.joined[given.flow] {
            return Err("a ticket that was used");
        }
        if now >= given.until {
            return Err("a ticket that has expired");
        }
        run.joined[given.flow] = true;
        run.sending += usize::from(run.load.is_some());
        let Run { id, load, zero, end, .. } = &*run;
        Ok(Admitted { run: id.clone(), flow: given.flow, load: load.clone(), zero: *zero, end: *end })
    }

    /// Adds to the record of a flow of the run with this name, while it goes on.
    ///
    /// # Errors
    /// If that run is over, or has more than it may have.
    pub fn add(&mut self, of: &Admitted, bytes: u64, add: impl FnOnce(&mut Seen)) -> Result<(), String> {
        let most_bytes = self.most_bytes;
        let run = self.run.as_mut().filter(|run| run.id == of.run).ok_or("the run is over")?;
        run.add(of.flow, bytes, most_bytes, add).map_err(|limit| limit.to_string())
    }

    /// Keeps the report of a TCP connection that has sent.
    pub fn report(&mut self, of: &Admitted, report: Vec<u8>) {
        if let Some(run) = self.run.as_mut().filter(|run| run.id == of.run) {
            run.flows[of.flow].report = report;
            run.sending = run.sending.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamps::Stamp;
    use super::*;

    fn run(entries: usize, tcp: &[TcpFlow]) -> Run {
        let run = Run::new(1, Time::ZERO, Dur::from_millis(60_000), 2, tcp, None).unwrap();
        Run { entries, ..run }
    }

    #[test]
    fn each_limit_of_a_run_gives_its_own_reason() {
        let packet = |arrived: &mut Seen| arrived.packets.push(Stamp::new(Time(1), b"12345678"));
        let mut sent = run(0, &[]);
        assert_eq!((sent.add(0, 8, 2_000_000, packet), sent.entries), (Ok(()), 1));
        assert_eq!(sent.add(0, 2_000_000, 2_000_000, |_| {}), Err(Limit::Bytes(2_000_000)));
        assert_eq!((sent.entries, sent.exceeded), (1, Some(Limit::Bytes(2_000_000))));
        assert!(Limit::Bytes(2_000_000).to_string().contains("more than 2 MB"));

        let mut kept = run(MOST_ENTRIES - 3, &[]);
        let streams = |arrived: &mut Seen| arrived.whole.extend([(0, Time(1)), (1, Time(1)), (2, Time(1))]);
        assert_eq!(kept.add(0, 0, 9, streams), Ok(()), "three streams are three entries");
        assert_eq!(kept.add(0, 8, 9, packet), Err(Limit::Entries));
        assert!(Limit::Entries.to_string().contains("8388608 packets and reads"));
    }

    #[test]
    fn a_ticket_admits_one_connection_in_its_time() {
        let tcp = [TcpFlow { flow: 1, start_ns: 0 }, TcpFlow { flow: 0, start_ns: 30_000_000_000 }];
        let (most_bytes, longest) = (1_000_000, Dur::from_millis(1));
        let mut state =
            State { token: vec![], longest, most_bytes, no_tcp: None, run: Some(run(0, &tcp)), log_lines: vec![] };
        let ticket = |state: &State, at: usize| state.run.as_ref().unwrap().tickets[at].ticket.clone();
        let (first, late) = (ticket(&state, 0), ticket(&state, 1));
        let at = |seconds: u64| Time::ZERO + Dur::from_millis(1000 * seconds);
        let refused = |state: &mut State, ticket: &Ticket, now| state.admit(ticket, now).unwrap_err();
        assert_eq!(refused(&mut state, &Ticket::draw().unwrap(), at(1)), "a wrong ticket");
        assert_eq!(refused(&mut state, &first, at(10)), "a ticket that has expired");
        let admitted = state.admit(&first, at(1)).unwrap();
        assert_eq!((admitted.flow, admitted.load.is_none()), (1, true));
        assert_eq!(refused(&mut state, &first, at(1)), "a ticket that was used");
        // The ticket of a flow that starts late is good until it starts.
        assert!(state.expects_tickets(at(39)) && !state.expects_tickets(at(40)));
        assert_eq!(state.admit(&late, at(39)).unwrap().flow, 0);
        assert!(!state.expects_tickets(at(1)), "each was used");
        assert!(state.add(&admitted, 9, |seen| seen.add_payload(at(2), 9)).is_ok());
        assert!(state.add(&admitted, most_bytes, |_| {}).unwrap_err().contains("more than 1 MB"));
        state.run = None;
        assert_eq!(refused(&mut state, &first, at(1)), "no run goes on");
        assert!(!state.expects_tickets(at(1)) && state.add(&admitted, 1, |_| {}).is_err());
    }
}
