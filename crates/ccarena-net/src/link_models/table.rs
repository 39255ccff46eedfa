//! Parameters of the link models, each with its source.
//!
//! If `fitted` names a table, these were fitted to every second session of it: the states' rates, variation and stays, the
//! shares of `memory`, the trace's factor and the length of gaps. The other sessions were kept for the comparison.
//! Everything else, delays and losses first of all, is set within the range that the source reports.

use super::{Delay, LinkModel, Reallocation, State};

const NO_GRANTS: (f64, f64) = (0.0, 0.0);

/// Rate and latency change at 12, 27, 42 and 57 s of every minute, on two continents at once (Mohan et al., section 5).
/// Ma et al. (INFOCOM 2023) and LeoCC (SIGCOMM 2025) see bursts of loss there.
const STARLINK: Reallocation = Reallocation { every_s: 15.0, delay_ms: 3.3, gap_s: 0.3, gap_rate: 0.05, gap_loss: 0.2 };
/// The example recording of LeoCC's replayer: least delay 7 to 11 ms by period, median 1 to 2 ms above it.
const STARLINK_DELAY: Delay = Delay { base_ms: (8.0, 30.0), jitter_ms: 1.0, grant_ms: (0.0, 1.33) };
/// Loss that LeoCC's replayer sets after its measurements; 0.01 % in the other direction, as in [`state`].
const STARLINK_UPLINK_LOSS: f64 = 0.002;
const STARLINK_SOURCE: &str = "Mohan et al., A Multifaceted Look at Starlink Performance (WWW 2024); Ma et al. (INFOCOM \
     2023); LeoCC (SIGCOMM 2025)";
const CONEXT: &str = "Satellite-vs-Cellular (CoNEXT 2023)";

const fn state(rate_mbps: f64, cv: f64, stay_s: f64, stay_sigma: f64, next: &'static [f64]) -> State {
    State { rate_mbps, cv, stay_s, stay_sigma, next, loss: 0.0001, added_ms: 0.0 }
}

/// All models.
pub const MODELS: &[LinkModel] = &[
    LinkModel {
        name: "starlink",
        family: "satellite",
        summary: "Starlink, a dish at rest with a clear sky, downlink",
        source: STARLINK_SOURCE,
        fitted: "",
        tick_ms: 100,
        states: &[state(178.0, 0.4, 3600.0, 0.5, &[1.0])],
        trace_cv: 0.2,
        memory: &[(0.2, 70.0), (0.12, 1.2), (0.24, 0.15)],
        reallocation: Some(STARLINK),
        floor: 0.02,
        cap_mbps: 400.0,
        delay: STARLINK_DELAY,
    },
    LinkModel {
        name: "starlink-driving",
        family: "satellite",
        summary: "Starlink Mobility on a car, downlink: obstructions",
        source: STARLINK_SOURCE,
        fitted: CONEXT,
        tick_ms: 100,
        states: &[state(176.0, 0.45, 400.0, 1.5, &[0.0, 1.0]), state(0.0, 0.0, 28.0, 2.2, &[1.0, 0.0])],
        trace_cv: 0.2,
        memory: &[(0.2, 70.0), (0.12, 1.2), (0.24, 0.15)],
        reallocation: Some(STARLINK),
        floor: 0.02,
        cap_mbps: 400.0,
        delay: STARLINK_DELAY,
    },
    LinkModel {
        name: "starlink-roam",
        family: "satellite",
        summary: "Starlink Roam on a car, downlink: half the rate, more obstructions",
        source: STARLINK_SOURCE,
        fitted: CONEXT,
        tick_ms: 100,
        states: &[state(92.0, 0.42, 100.0, 1.0, &[0.0, 1.0]), state(0.0, 0.0, 5.5, 1.2, &[1.0, 0.0])],
        trace_cv: 0.3,
        memory: &[(0.17, 60.0), (0.1, 2.0), (0.28, 0.3)],
        reallocation: Some(Reallocation { gap_s: 0.15, ..STARLINK }),
        floor: 0.02,
        cap_mbps: 230.0,
        delay: STARLINK_DELAY,
    },
    LinkModel {
        name: "starlink-uplink",
        family: "satellite",
        summary: "Starlink Mobility on a car, uplink",
        source: STARLINK_SOURCE,
        fitted: CONEXT,
        tick_ms: 100,
        states: &[State { loss: STARLINK_UPLINK_LOSS, ..state(28.0, 0.2, 3600.0, 0.5, &[1.0]) }],
        trace_cv: 0.7,
        memory: &[(0.05, 60.0), (0.85, 0.3)],
        reallocation: Some(Reallocation { gap_s: 0.1, ..STARLINK }),
        floor: 0.05,
        cap_mbps: 80.0,
        delay: STARLINK_DELAY,
    },
    LinkModel {
        name: "5g-midband",
        family: "5g",
        summary: "5G on a mid band at low speed, downlink: slow fading, hardly an outage",
        source: "Narayanan et al., A Variegated Look at 5G in the Wild (SIGCOMM 2021)",
        fitted: CONEXT,
        tick_ms: 50,
        states: &[state(134.0, 0.56, 1500.0, 1.0, &[0.0, 1.0]), state(0.0, 0.0, 1.2, 0.5, &[1.0, 0.0])],
        trace_cv: 0.17,
        memory: &[(0.79, 38.0), (0.12, 4.0), (0.09, 0.4)],
        reallocation: None,
        floor: 0.05,
        cap_mbps: 400.0,
        delay: Delay { base_ms: (8.0, 20.0), jitter_ms: 1.0, grant_ms: (0.0, 2.5) },
    },
    LinkModel {
        name: "5g-driving",
        family: "5g",
        summary: "5G on a car, downlink: falls to the low band or LTE, and gaps at handovers",
        source: "Narayanan et al. (SIGCOMM 2021)",
        fitted: CONEXT,
        tick_ms: 50,
        states: &[
            State { added_ms: 8.0, ..state(30.0, 0.9, 34.0, 1.5, &[0.0, 0.8, 0.2]) },
            state(258.0, 0.38, 54.0, 1.5, &[0.85, 0.0, 0.15]),
            State { loss: 0.01, ..state(0.0, 0.0, 1.5, 0.8, &[0.8, 0.2, 0.0]) },
        ],
        trace_cv: 0.2,
        memory: &[(0.4, 40.0), (0.3, 6.0), (0.3, 0.5)],
        reallocation: None,
        floor: 0.02,
        cap_mbps: 520.0,
        delay: Delay { base_ms: (10.0, 25.0), jitter_ms: 1.5, grant_ms: (0.0, 2.5) },
    },
    LinkModel {
        name: "5g-uplink",
        family: "5g",
        summary: "5G without a standalone core, on a car, uplink: grants",
        source: "Narayanan et al. (SIGCOMM 2021)",
        fitted: "Measurements5G (MTU)",
        tick_ms: 50,
        states: &[
            state(42.0, 0.62, 900.0, 1.0, &[0.0, 1.0]),
            State { loss: 0.01, ..state(0.0, 0.0, 30.0, 1.0, &[1.0, 0.0]) },
        ],
        trace_cv: 0.3,
        memory: &[(0.85, 70.0), (0.12, 10.0), (0.03, 0.5)],
        reallocation: None,
        floor: 0.04,
        cap_mbps: 107.0,
        // Slots of 0.5 ms with a TDD pattern of 5 ms: a request waits for one uplink slot, its grant for another.
        delay: Delay { base_ms: (8.0, 20.0), jitter_ms: 1.0, grant_ms: (2.5, 10.0) },
    },
    LinkModel {
        name: "5g-mmwave",
        family: "5g",
        summary: "5G at 28 or 39 GHz on foot, downlink: line of sight, reflections, bodies in the way, falls to LTE",
        source: "Narayanan et al., A First Look at Commercial 5G Performance (WWW 2020), Lumos5G (IMC 2020)",
        fitted: "",
        tick_ms: 50,
        states: &[
            state(900.0, 0.3, 12.0, 1.0, &[0.0, 0.5, 0.4, 0.1]),
            state(350.0, 0.5, 6.0, 1.0, &[0.7, 0.0, 0.1, 0.2]),
            // A body blocks for some 100 ms and more (Raghavan et al., IEEE TAP 2019).
            State { loss: 0.005, ..state(40.0, 0.5, 0.5, 0.6, &[0.7, 0.2, 0.0, 0.1]) },
            State { added_ms: 10.0, ..state(60.0, 0.6, 8.0, 1.0, &[0.6, 0.4, 0.0, 0.0]) },
        ],
        trace_cv: 0.25,
        memory: &[(0.4, 8.0), (0.6, 0.3)],
        reallocation: None,
        floor: 0.02,
        cap_mbps: 2000.0,
        delay: Delay { base_ms: (4.0, 12.0), jitter_ms: 0.5, grant_ms: (0.0, 1.0) },
    },
    LinkModel {
        name: "wifi",
        family: "wifi",
        summary: "Wi-Fi in a home: few neighbours, now and then a scan",
        source: "Pei et al., WiFi Can Be the Weakest Link of Round Trip Network Latency (INFOCOM 2016); Hoiland-Jorgensen \
         et al., Ending the Anomaly (USENIX ATC 2017)",
        fitted: "",
        tick_ms: 10,
        states: &[
            state(140.0, 0.25, 4.0, 1.0, &[0.0, 0.9, 0.08, 0.02]),
            State { added_ms: 2.0, ..state(60.0, 0.5, 1.0, 1.0, &[0.9, 0.0, 0.1, 0.0]) },
            State { loss: 0.02, added_ms: 8.0, ..state(15.0, 0.6, 0.2, 0.8, &[0.5, 0.5, 0.0, 0.0]) },
            State { added_ms: 2.0, ..state(0.0, 0.0, 0.11, 0.4, &[1.0, 0.0, 0.0, 0.0]) },
        ],
        trace_cv: 0.4,
        memory: &[(0.4, 5.0), (0.3, 0.5), (0.3, 0.03)],
        reallocation: None,
        floor: 0.05,
        cap_mbps: 600.0,
        delay: Delay { base_ms: (5.0, 25.0), jitter_ms: 0.8, grant_ms: NO_GRANTS },
    },
    LinkModel {
        name: "wifi-busy",
        family: "wifi",
        summary: "Wi-Fi at a station or in a block of flats: contention most of the time, retries",
        source: "Pei et al. (INFOCOM 2016); Hoiland-Jorgensen et al. (USENIX ATC 2017)",
        fitted: "",
        tick_ms: 10,
        states: &[
            state(70.0, 0.4, 1.0, 1.0, &[0.0, 0.9, 0.1, 0.0]),
            State { added_ms: 6.0, ..state(22.0, 0.6, 2.0, 1.0, &[0.6, 0.0, 0.35, 0.05]) },
            State { loss: 0.05, added_ms: 25.0, ..state(4.0, 0.8, 0.3, 1.0, &[0.3, 0.7, 0.0, 0.0]) },
            State { added_ms: 6.0, ..state(0.0, 0.0, 0.15, 0.6, &[0.5, 0.5, 0.0, 0.0]) },
        ],
        trace_cv: 0.5,
        memory: &[(0.4, 5.0), (0.3, 0.5), (0.3, 0.03)],
        reallocation: None,
        floor: 0.05,
        cap_mbps: 300.0,
        delay: Delay { base_ms: (5.0, 25.0), jitter_ms: 3.0, grant_ms: NO_GRANTS },
    },
    LinkModel {
        name: "cable",
        family: "cable",
        summary: "Cable, downlink: a shaped rate, and hours in which the segment is full",
        source: "DOCSIS MULPI (CM-SP-MULPIv3.1); White et al., draft-white-tsvwg-lld-00; FCC Measuring Broadband America",
        fitted: "",
        tick_ms: 20,
        states: &[
            state(220.0, 0.02, 120.0, 1.0, &[0.0, 1.0]),
            State { added_ms: 2.0, ..state(150.0, 0.25, 20.0, 1.0, &[1.0, 0.0]) },
        ],
        trace_cv: 0.4,
        memory: &[(0.5, 10.0), (0.5, 0.3)],
        reallocation: None,
        floor: 0.2,
        cap_mbps: 1000.0,
        delay: Delay { base_ms: (4.0, 20.0), jitter_ms: 0.3, grant_ms: NO_GRANTS },
    },
    LinkModel {
        name: "cable-uplink",
        family: "cable",
        summary: "Cable, uplink: each packet waits for a request and its grant",
        source: "DOCSIS MULPI (CM-SP-MULPIv3.1); White et al., draft-white-tsvwg-lld-00",
        fitted: "",
        tick_ms: 10,
        states: &[
            state(22.0, 0.05, 60.0, 1.0, &[0.0, 1.0]),
            State { added_ms: 6.0, ..state(14.0, 0.35, 10.0, 1.0, &[1.0, 0.0]) },
        ],
        trace_cv: 0.4,
        memory: &[(0.5, 10.0), (0.5, 0.1)],
        reallocation: None,
        floor: 0.2,
        cap_mbps: 200.0,
        delay: Delay { base_ms: (4.0, 20.0), jitter_ms: 0.3, grant_ms: (2.0, 8.0) },
    },
];
