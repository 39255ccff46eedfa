//! Conversion of a scenario into a running simulation.

use std::path::Path;

use ccarena_cc::registry::BuildError;
use ccarena_cc::{BindError, Config, Controller, Feedback, FlowError, Time};
use ccarena_net::apps::Source;
use ccarena_net::link::Link;
use ccarena_net::scenario::{self, AckPolicy, Own, Scenario};
use ccarena_net::series::Series;
use ccarena_net::{Demand, Ecn, Limits, ResourceError, ServiceError};

use crate::app::AppState;
use crate::far_end::Recorder;
use crate::files::Files;
use crate::receiver::Receiver;
use crate::sender::{Sender, SenderOptions};
use crate::sim::{Flow, Follow, Sim};
use crate::trajectory::Trajectory;

/// A scenario that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A link's service: its trace or preset.
    #[error("links[{link}].service: {source}")]
    Service {
        /// The link.
        link: usize,
        /// Cause.
        source: ServiceError,
    },
    /// A congestion control of somebody else, which needs real sockets.
    #[error(
        "flows[{flow}].foreign: {scheme:?} is a program or a kernel's congestion control, which the simulator does not have; \
         run it in real time: --backend kernel"
    )]
    Foreign {
        /// The flow.
        flow: usize,
        /// Name of the flow's congestion control.
        scheme: String,
    },
    /// A controller that the user has written.
    #[error("flows[{flow}].controller: {reason}")]
    Own {
        /// The flow.
        flow: usize,
        /// Cause.
        reason: String,
    },
    /// A flow's scheme or its parameters.
    #[error("flows[{flow}].scheme: {source}")]
    Scheme {
        /// The flow.
        flow: usize,
        /// Cause.
        source: BuildError,
    },
    /// Request of more than the machine may give.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// A flow's policy.
    #[error("flows[{flow}].policy: {source}")]
    Policy {
        /// The flow.
        flow: usize,
        /// Cause.
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
            let link = Link::of(scenario, index, files);
            links.push(link.map_err(|source| SimError::Service { link: index, source })?);
        }
        if scenario.record.transmissions {
            for link in &mut links {
                link.gone = Some(Vec::new());
            }
        }
        Demand::over(scenario, &links).check(&limits)?;
        let mut flows = Vec::with_capacity(scenario.flows.len());
        for (index, planned) in scenario.flows.iter().enumerate() {
            flows.push(build_flow(scenario, index, planned, files, &limits, outside)?);
        }
        // What routers write changes nothing that happens to packets.
        if !flows.iter().any(|flow| flow.sender.reads_signals()) {
            links.iter_mut().for_each(Link::leave_out_router);
        }
        Ok(Self::from_parts(links, flows, Time(scenario.duration.0)))
    }
}

fn build_flow(
    scenario: &Scenario,
    index: usize,
    planned: &scenario::Flow,
    files: &Files,
    limits: &Limits,
    outside: bool,
) -> Result<Flow, SimError> {
    if planned.foreign.is_some() {
        return Err(SimError::Foreign { flow: index, scheme: planned.scheme.clone() });
    }
    let mss = planned.app.segment_bytes(planned.mss_bytes);
    let config = scenario.controller(index, mss);
    let (mut controller, decider) = match &planned.own {
        Some(own) => {
            let built = build_own(index, own, &config, files);
            (built.map_err(|reason| SimError::Own { flow: index, reason })?, None)
        }
        None => files
            .policies
            .build(&planned.scheme, planned.spec.as_deref(), &config, planned.policy.as_ref(), outside)
            .map_err(|source| match source {
                FlowError::Scheme(source) => SimError::Scheme { flow: index, source },
                FlowError::Policy(source) => SimError::Policy { flow: index, source },
            })?,
    };
    let recorded = scenario.record.trajectories.as_ref().filter(|recorded| recorded.flows.contains(&index));
    let is_own = recorded.is_some_and(|recorded| recorded.is_own(planned));
    if let Some(recorded) = recorded.filter(|_| !is_own) {
        let config = Config { params: recorded.params.clone(), ..config.clone() };
        let watched = recorded.spec.watch(controller, &config);
        controller = watched.map_err(|source| SimError::Scheme { flow: index, source })?;
    }
    let app = AppState::new(Source::new(&planned.app, &scenario.start(index)), planned.start, mss);
    // A scheme that doubles its window for ever, as a policy may, ends at what memory holds.
    let receive_window = planned.receive_window.unwrap_or_else(|| limits.window_packets(scenario.flows.len()));
    let burst = (planned.burst_bytes.unwrap_or(0) / mss).max(1);
    let feedback = planned.feedback();
    let options = SenderOptions {
        mss,
        sack: planned.sack,
        ecn: match (feedback, planned.l4s) {
            (Feedback::None, _) => Ecn::NotEct,
            (Feedback::Accurate, true) => Ecn::Ect1,
            _ => Ecn::Ect0,
        },
        counts_marks: feedback == Feedback::Accurate,
        receive_window,
        ack_delay: planned.ack_policy != AckPolicy::Tcp,
        min_rto: planned.min_rto,
        burst,
    };
    let receiver = match planned.ack_policy {
        AckPolicy::Tcp if burst > 1 => Receiver::merging(mss, planned.sack, planned.delayed_ack, burst),
        AckPolicy::Tcp => Receiver::new(mss, planned.sack, planned.delayed_ack),
        AckPolicy::Quic(acks) => Receiver::quic(mss, acks),
    };
    let receiver = receiver.with_feedback(feedback);
    let mut flow = Flow::new(Sender::new(controller, app, options), receiver);
    flow.path = planned.path.iter().map(|&l| l as u32).collect();
    flow.far_end.return_path = planned.return_path.iter().map(|&l| l as u32).collect();
    flow.base_rtt = scenario.base_rtt(planned);
    flow.far_end.return_delay = scenario.return_delay(planned);
    flow.far_end.header_bytes = planned.header_bytes;
    flow.far_end.ack_bytes = planned.ack_bytes;
    flow.start = planned.start;
    flow.stop = planned.stop.unwrap_or(Time::NEVER);
    flow.settings = planned.settings();
    let recorder = Recorder {
        series: scenario.record.series.then(|| Series::new(scenario.record.bin, scenario.duration)),
        progress: planned.app.needs().arrivals.then(Vec::new),
    };
    let any = recorder.series.is_some() || recorder.progress.is_some();
    flow.far_end.recorder = any.then(|| Box::new(recorder));
    flow.log = scenario.record.transmissions.then(Box::default);
    flow.reports = (decider.is_some() && scenario.record.reports).then(Vec::new);
    flow.trajectory = recorded.map(|_| -> Box<dyn Follow> { Box::new(Trajectory::new(is_own)) });
    flow.decider = decider;
    Ok(flow)
}

/// Builds a controller that the user has written.
fn build_own(flow: usize, own: &Own, config: &Config, files: &Files) -> Result<Box<dyn Controller>, String> {
    match own {
        Own::Python { class } => match &files.python {
            Some(build) => build(flow, class, config),
            None => Err("only `ccarena.run` and the commands run it".into()),
        },
        Own::Wasm { module } => ccarena_wasm::controller(Path::new(module), config).map_err(|error| error.to_string()),
    }
}
