//! From a scenario to a running simulation.

use ccarena_cc::registry::BuildError;
use ccarena_cc::{BindError, Dur, FlowError, Time};
use ccarena_net::link::Link;
use ccarena_net::scenario::{self, AckPolicy, Scenario};
use ccarena_net::series::Series;
use ccarena_net::{Demand, Limits, ResourceError, ServiceError};

use crate::app::{App, AppState};
use crate::files::Files;
use crate::receiver::Receiver;
use crate::sender::{Sender, SenderOptions};
use crate::sim::{Flow, Sim};

/// A scenario that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A link's service: its trace or preset.
    #[error("links[{link}].service: {source}")]
    Service {
        /// The link.
        link: usize,
        /// Why.
        source: ServiceError,
    },
    /// A flow's scheme or its parameters.
    #[error("flows[{flow}].scheme: {source}")]
    Scheme {
        /// The flow.
        flow: usize,
        /// Why.
        source: BuildError,
    },
    /// It asks for more than the machine is to give.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// A flow's policy.
    #[error("flows[{flow}].policy: {source}")]
    Policy {
        /// The flow.
        flow: usize,
        /// Why.
        source: BindError,
    },
}

impl Sim {
    /// Builds the simulation of `scenario`. For a learned flow without a policy the caller decides ([`Sim::act`]) if it
    /// says so (`outside`); else the scenario is refused.
    ///
    /// # Errors
    /// If a trace, a scheme or a policy cannot be had, or the scenario asks for more than `files.limits`.
    pub fn new(scenario: &Scenario, files: &Files, outside: bool) -> Result<Self, SimError> {
        let limits = files.limits.clone()?;
        Demand::of(scenario).check(&limits)?;
        let mut links = Vec::with_capacity(scenario.links.len());
        for index in 0..scenario.links.len() {
            let link = Link::of(scenario, index, |file| files.trace(file));
            links.push(link.map_err(|source| SimError::Service { link: index, source })?);
        }
        Demand::over(scenario, &links).check(&limits)?;
        let mut flows = Vec::with_capacity(scenario.flows.len());
        for (index, spec) in scenario.flows.iter().enumerate() {
            flows.push(build_flow(scenario, index, spec, files, &limits, outside)?);
        }
        Ok(Self::from_parts(links, flows, Time(scenario.duration.0)))
    }
}

fn build_flow(
    scenario: &Scenario,
    index: usize,
    spec: &scenario::Flow,
    files: &Files,
    limits: &Limits,
    outside: bool,
) -> Result<Flow, SimError> {
    let (app, mss) = build_app(spec);
    let config = scenario.controller(index, mss);
    let built = files.policies.build(&spec.scheme, spec.document.as_deref(), &config, spec.policy.as_ref(), outside);
    let (controller, decider) = built.map_err(|source| match source {
        FlowError::Scheme(source) => SimError::Scheme { flow: index, source },
        FlowError::Policy(source) => SimError::Policy { flow: index, source },
    })?;
    let app = AppState::new(app, spec.start, mss);
    // A scheme that doubles its window for ever, as a policy may, ends at what memory holds.
    let receive_window = spec.receive_window.unwrap_or_else(|| limits.window_packets(scenario.flows.len()));
    let burst = (spec.burst_bytes.unwrap_or(0) / mss).max(1);
    let options = SenderOptions {
        mss,
        sack: spec.sack,
        ecn: spec.ecn,
        receive_window,
        ack_delay: spec.ack_policy != AckPolicy::Tcp,
        min_rto: spec.min_rto,
        burst,
    };
    let receiver = match spec.ack_policy {
        AckPolicy::Tcp if burst > 1 => Receiver::merging(mss, spec.sack, spec.delayed_ack, burst),
        AckPolicy::Tcp => Receiver::new(mss, spec.sack, spec.delayed_ack),
        AckPolicy::Quic(acks) => Receiver::quic(mss, acks),
    };
    let mut flow = Flow::new(Sender::new(controller, app, options), receiver);
    flow.path = spec.path.iter().map(|&l| l as u32).collect();
    flow.far_end.return_path = spec.return_path.iter().map(|&l| l as u32).collect();
    flow.base_rtt = scenario.base_rtt(spec);
    flow.far_end.return_delay = scenario.return_delay(spec);
    flow.far_end.header_bytes = spec.header_bytes;
    flow.far_end.ack_bytes = spec.ack_bytes;
    flow.start = spec.start;
    flow.stop = spec.stop.unwrap_or(Time::NEVER);
    flow.settings = spec.settings();
    flow.far_end.series = scenario.record.series.then(|| Series::new(scenario.record.bin, scenario.duration));
    flow.reports = (decider.is_some() && scenario.record.reports).then(Vec::new);
    flow.decider = decider;
    Ok(flow)
}

/// The application and the size of its segments.
fn build_app(spec: &scenario::Flow) -> (App, u32) {
    let app = match &spec.app {
        scenario::App::Bulk => App::Bulk,
        &scenario::App::Cbr { rate } => App::Stream { rate, on: Dur::from_millis(1000), off: Dur::ZERO },
        &scenario::App::OnOff { rate, on, off } => App::Stream { rate, on, off },
        &scenario::App::Capped { rate, slot } => {
            let quota = rate.bytes_in(slot).0.max(1);
            let segments = quota.div_ceil(u64::from(spec.mss_bytes));
            // The parts of a slot's amount are equal, so that the cap is met exactly at any rate.
            let mss = u32::try_from(quota / segments).unwrap_or(spec.mss_bytes).max(1);
            return (App::Capped { segments: u32::try_from(segments).unwrap_or(u32::MAX), slot }, mss);
        }
        scenario::App::Transfers { sizes_bytes, gap } => App::Transfers { sizes: sizes_bytes.clone(), gap: *gap },
    };
    (app, spec.mss_bytes)
}
