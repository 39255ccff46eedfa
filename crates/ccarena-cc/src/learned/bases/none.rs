//! Nothing: window and rate stay as the last action left them. The transport repairs losses; they have no effect of their
//! own.

use super::base::INITIAL_RTT;
use super::{Base, BaseEntry, Lever, initial_rtt, over, paced, per_rtt};
use crate::controller::TransportNeeds;
use crate::events::AckInfo;
use crate::feedback::Feedback;
use crate::param::Param;
use crate::types::{Bytes, Dur, Rate};

/// Registry entry.
pub const NONE: BaseEntry = BaseEntry {
    name: "none",
    doc: "nothing: window and rate stay as the last action left them; they start at one initial window per RTT, taken for \
          100 ms before the first sample",
    source: "Jay et al., Aurora, ICML 2019",
    levers: &[Lever::Window, Lever::Rate],
    options: &[
        Param { name: "min_mbps", default: 0.1, min: 0.01, max: 1000.0, doc: "lowest rate in Mbit/s" },
        Param {
            name: "max_mbps",
            default: 1000.0,
            min: 0.1,
            max: 100_000.0,
            doc: "highest rate in Mbit/s, where that is not below the lowest",
        },
        Param {
            name: "window_rtts",
            default: 2.0,
            min: 1.0,
            max: 100.0,
            doc: "if actions move the rate: most that may be in flight, in smoothed RTTs of sending",
        },
        Param {
            name: "pacing_gain",
            default: 1.1,
            min: 0.0,
            max: 10.0,
            doc: "if actions move the window: pacing rate in windows per smoothed RTT; 0 is ACK clocking",
        },
    ],
    takes_rate: false,
    feedback: Feedback::None,
    kernel: true,
    build: |parts| {
        let mss = f64::from(parts.config.mss.max(1));
        let initial = f64::from(parts.config.initial_window.max(1));
        if !parts.by_rate {
            let segments = initial.max(SMALLEST_WINDOW);
            return over(ByWindow { segments, mss, gain: parts.options[3], srtt: Dur::ZERO }, parts.plan);
        }
        let least = parts.options[0] * 1e6;
        let most = (parts.options[1] * 1e6).max(least);
        let mut base = ByRate { rate: 0.0, srtt: Dur::ZERO, mss, window_rtts: parts.options[2], initial, least, most };
        base.set_rate(base.initial_rate(INITIAL_RTT));
        over(base, parts.plan)
    },
};

/// Fewest and most segments in the window.
const SMALLEST_WINDOW: f64 = 2.0;
const LARGEST_WINDOW: f64 = (1 << 24) as f64;

/// Actions move the rate; a window of some RTTs of sending bounds what a stalled flow has in flight.
struct ByRate {
    /// Rate in bit/s of payload.
    rate: f64,
    srtt: Dur,
    mss: f64,
    window_rtts: f64,
    /// Initial window in segments.
    initial: f64,
    least: f64,
    most: f64,
}

impl ByRate {
    fn initial_rate(&self, rtt: Dur) -> f64 {
        self.initial * self.mss * 8.0 / rtt.max(Dur(1)).as_secs_f64()
    }

    fn window_segments(&self) -> f64 {
        let segments = self.window_rtts * self.rate * initial_rtt(self.srtt).as_secs_f64() / 8.0 / self.mss;
        segments.clamp(SMALLEST_WINDOW, LARGEST_WINDOW)
    }
}

impl Base for ByRate {
    #[inline]
    fn on_ack(&mut self, ack: &AckInfo) {
        let first = self.srtt == Dur::ZERO && ack.srtt > Dur::ZERO;
        self.srtt = ack.srtt;
        if first {
            self.set_rate(self.initial_rate(ack.srtt));
        }
    }

    #[inline]
    fn window(&self) -> Bytes {
        Bytes(self.window_segments() as u64 * self.mss as u64)
    }

    fn segments(&self) -> f64 {
        self.window_segments()
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate(self.rate as u64).max(Rate(1)))
    }

    fn rate_bps(&self) -> f64 {
        self.rate
    }

    fn min_burst_segments(&self) -> u32 {
        1
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, ..TransportNeeds::WINDOW }
    }

    /// The rate becomes that of the window per RTT.
    fn adopt_window(&mut self, window: Bytes) -> bool {
        self.set_rate(window.0 as f64 * 8.0 / initial_rtt(self.srtt).as_secs_f64());
        true
    }

    fn set_rate(&mut self, bps: f64) {
        self.rate = bps.clamp(self.least, self.most);
    }
}

/// Actions move the window.
struct ByWindow {
    segments: f64,
    mss: f64,
    gain: f64,
    srtt: Dur,
}

impl Base for ByWindow {
    #[inline]
    fn on_ack(&mut self, ack: &AckInfo) {
        self.srtt = ack.srtt;
    }

    #[inline]
    fn window(&self) -> Bytes {
        Bytes(self.segments.round() as u64 * self.mss as u64)
    }

    fn segments(&self) -> f64 {
        self.segments
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        paced(self.gain, self.segments, self.mss, self.srtt)
    }

    fn rate_bps(&self) -> f64 {
        self.pacing_rate().map_or_else(|| per_rtt(self.segments, self.mss, self.srtt), |rate| rate.0 as f64)
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, ..TransportNeeds::WINDOW }
    }

    fn adopt_window(&mut self, window: Bytes) -> bool {
        self.segments = (window.0 as f64 / self.mss).clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
        true
    }

    fn scale_window(&mut self, factor: f64, most: u32) {
        let most = f64::from(most).max(self.segments);
        self.segments = (self.segments * factor).min(most).clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
    }
}
