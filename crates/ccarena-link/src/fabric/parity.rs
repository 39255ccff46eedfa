//! Simulator and emulator agree packet by packet on every kind of link: the emulator's fabric gets the packets that the
//! simulated senders sent, at the times at which they did.

use ccarena_net::result::LinkResult;
use ccarena_net::transmissions::{ECN_CAPABLE, Fate, LOW_LATENCY, Transmission};
use ccarena_net::{Ecn, Item, Scenario, trace};
use ccarena_sim::{Files, Sim};
use serde_json::{Value, json};

use super::*;
use crate::datagram::Datagram;

/// Conditions of a path that changes every few seconds, with an outage.
const ALL: &str = "time_ms,rate_mbps,delay_ms,loss
0,12,20,0
700,3,60.5,0.02
1300,0,60.5,0
1500,20,3,0.001
2900,8,35,0.3
3000,15,5,0
";
/// Delays alone.
const DELAYS: &str = "delay_ms,time_ms\n25,0\n5,400\n90,430\n30,900\n";

/// Writes a conditions trace and returns its path.
fn recorded(name: &str, text: &str) -> String {
    let file = std::env::temp_dir().join(format!("ccarena-parity-{}-{name}.csv", std::process::id()));
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Links with whatever may befall packets.
fn links() -> Vec<Value> {
    let constant = json!({"type": "constant", "rate_mbps": 12});
    let cellular = json!({"type": "cellular", "preset": "lte-driving", "seed": 4});
    let one = |service: &Value, fields: Value| {
        let mut link = json!({"service": service, "queue": {"type": "droptail", "packets": 40}, "delay_ms": 15});
        link.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        link
    };
    vec![
        one(&constant, json!({})),
        one(&cellular, json!({"jitter_ms": 1, "loss": 0.01})),
        one(&constant, json!({"loss": {"type": "gilbert_elliott", "p": 0.005, "r": 0.3, "loss_bad": 0.9}})),
        one(&cellular, json!({"loss": {"type": "slots", "slot_ms": 20, "probability": 0.02}})),
        one(
            &cellular,
            json!({"delay_ms": {"steps": [{"at_s": 0, "delay_ms": 20}, {"at_s": 2, "delay_ms": 60},
            {"at_s": 3, "delay_ms": 5}, {"at_s": 3.01, "delay_ms": 25}]}, "jitter_ms": 0.5}),
        ),
        one(
            &constant,
            json!({"delay_ms": {"steps": [{"at_s": 0, "delay_ms": 40}, {"at_s": 1, "delay_ms": 15},
            {"at_s": 4, "delay_ms": 35}, {"at_s": 4.5, "delay_ms": 0.5}], "keep_order": false}, "duplicate": 0.01}),
        ),
        one(
            &constant,
            json!({"loss": {"type": "steps", "steps": [{"at_s": 0, "loss": 0}, {"at_s": 2, "loss": 0.3},
            {"at_s": 2.2, "loss": 0.002}]}}),
        ),
        json!({"conditions": {"file": recorded("all", ALL), "offset_ms": "random"}, "delay_ms": 3, "queue": {"type": "codel"}}),
        json!({"conditions": {"file": recorded("all", ALL), "offset_ms": 900, "keep_order": false}, "delay_ms": 3, "jitter_ms": 0.3,
            "queue": {"type": "droptail", "packets": 40}, "duplicate": 0.01}),
        one(
            &cellular,
            json!({"conditions": {"file": recorded("delays", DELAYS), "offset_ms": 70}, "delay_ms": 5, "loss": 0.001}),
        ),
        one(
            &json!({"type": "wifi", "rate": {"type": "conditions"}, "packets": 8}),
            json!({"conditions": {"file": recorded("all", ALL), "offset_ms": 300}, "delay_ms": 3}),
        ),
        one(&constant, json!({"reorder": {"probability": 0.05, "late_ms": 4}})),
        one(&constant, json!({"policer": {"rate_mbps": 8, "burst_bytes": 20000}, "loss": 0.001})),
        one(
            &constant,
            json!({"shaper": {"rate_mbps": 9, "burst_bytes": 20000, "peak_mbps": 11}, "queue": {"type": "codel"}}),
        ),
        one(&cellular, json!({"shaper": {"rate_mbps": 2, "burst_bytes": 20000}})),
        one(
            &json!({"type": "wifi", "rate_mbps": 65, "absent_every_s": 2, "absent_ms": 80, "busy_us": 500}),
            json!({"loss": 0.001}),
        ),
        one(
            &json!({"type": "wifi", "rate": {"type": "random_steps", "min_mbps": 6, "max_mbps": 65, "period_s": 0.5}}),
            json!({"queue": {"type": "pie"}}),
        ),
        one(
            &json!({"type": "grants", "rate_mbps": 12, "slot_ms": 2, "grant_ms": 6, "proactive_bytes": 300, "retry": 0.1}),
            json!({"shaper": {"rate_mbps": 10, "burst_bytes": 5000}}),
        ),
        one(
            &json!({"type": "grants", "rate_mbps": 20}),
            json!({"queue": {"type": "codel"}, "reorder": {"probability": 0.01, "late_ms": 4}}),
        ),
        one(&constant, json!({"duplicate": 0.05, "jitter_ms": 2})),
        one(&constant, json!({"corrupt": {"probability": 0.01, "correlation": 0.5}})),
        one(
            &cellular,
            json!({"reorder": {"probability": 0.1, "correlation": 0.3, "late_ms": 30}, "duplicate": 0.1,
            "corrupt": 0.01, "loss": 0.01, "wakes_ms": 1, "queue": {"type": "codel"}}),
        ),
        one(&constant, json!({"queue": {"type": "dualpi2"}})),
        one(&cellular, json!({"queue": {"type": "dualpi2", "shift_ms": 20, "step_ms": 0.8, "ramp_ms": 0.4}})),
        one(&constant, json!({"queue": {"type": "step", "packets": 100, "mark_packets": 20}})),
        one(&cellular, json!({"queue": {"type": "fq_codel", "ce_threshold_ms": 2, "ce_threshold_l4s": true}})),
        one(&constant, json!({"queue": {"type": "pie", "ecn": true}})),
        one(
            &constant,
            json!({"queue": {"type": "red", "ecn": true, "min_bytes": 15000, "max_bytes": 60000},
            "policer": {"rate_mbps": 11, "burst_bytes": 40000, "action": "mark"}}),
        ),
    ]
}

/// Runs `scenario` in the simulator. Returns what its flows sent, with the flows' numbers, and link 0 after the run.
fn simulated(scenario: &Scenario) -> (Vec<(u32, Transmission)>, LinkResult) {
    let mut sim = Sim::new(scenario, &Files::default(), false).unwrap();
    sim.run_until(Time(scenario.duration.0));
    let mut result = sim.take_result(scenario);
    let mut sent = Vec::new();
    for (flow, of_flow) in (0..).zip(&mut result.flows) {
        sent.extend(of_flow.transmissions.take().unwrap().packets.into_iter().map(|packet| (flow, packet)));
    }
    sent.sort_by_key(|(_, packet)| packet.sent);
    (sent, result.links.remove(0))
}

/// Returns an IPv4 packet like `sent`, with its number in place of addresses.
fn datagram(number: usize, (flow, sent): &(u32, Transmission)) -> Datagram {
    let ecn = match (sent.flags & ECN_CAPABLE, sent.flags & LOW_LATENCY) {
        (0, _) => Ecn::NotEct,
        (_, 0) => Ecn::Ect0,
        _ => Ecn::Ect1,
    };
    let mut bytes = vec![0; sent.bytes as usize];
    (bytes[0], bytes[1]) = (0x45, ecn as u8);
    bytes[12..20].copy_from_slice(&number.to_ne_bytes());
    let mut datagram = Datagram::copy_of(&bytes);
    datagram.set_flow(*flow);
    datagram
}

fn number(packet: &Datagram) -> usize {
    usize::from_ne_bytes(packet.packet()[12..20].try_into().unwrap())
}

#[test]
fn order_fate_and_mark_of_each_packet_are_those_of_the_simulator() {
    let mut marked = 0;
    for link in links() {
        for scheme in ["cubic", "bbr"] {
            // The second flow sends at no time at which the first does.
            let second = json!({"scheme": "cubic", "start_s": 0.01, "base_rtt_ms": 150.37});
            let mut flows = vec![json!({"scheme": scheme, "ecn": true}), second];
            // Packets that are late at random keep the order of their flow in the simulator, and that of the link here.
            if ["jitter_ms", "wakes_ms"].iter().any(|late| link.get(late).is_some()) {
                flows.truncate(1);
            }
            let document = json!({"duration_s": 8, "seed": 5, "links": [link], "flows": flows,
                "record": {"transmissions": true}});
            let scenario = Scenario::from_json(&document).unwrap();
            let end = Time(scenario.duration.0);
            let (sent, of_sim) = simulated(&scenario);
            let mut fabric = Fabric::new(
                vec![Link::of(&scenario, 0, &trace::load).unwrap()],
                vec![Route { delay: Dur::ZERO, path: vec![0] }],
                None,
            );
            let mut out = Vec::new();
            let mut take = |packet: Datagram, due| out.push((number(&packet), due, packet.ecn() == Ecn::Ce));
            for (i, each) in sent.iter().enumerate() {
                fabric.advance(each.1.sent, &mut take);
                fabric.send(datagram(i, each), 0, each.1.sent);
            }
            fabric.advance(Time(end.0 - 1), &mut take);

            assert!(sent.len() > 300, "{link}");
            let mut arrivals: Vec<(Time, usize, bool)> = Vec::new();
            for (i, (_, each)) in sent.iter().enumerate() {
                if matches!(each.fate, Fate::Delivered | Fate::Marked) {
                    arrivals.push((each.arrived, i, each.fate == Fate::Marked));
                }
            }
            let mut seen = vec![false; sent.len()];
            out.retain(|(i, ..)| !std::mem::replace(&mut seen[*i], true));
            let mut first: Vec<_> = out.into_iter().map(|(i, at, marked)| (at, i, marked)).collect();
            // Arrivals at one time are told by no order.
            arrivals.sort_unstable();
            first.sort_unstable();
            assert_eq!(first, arrivals, "{scheme} on {link}");
            let of_emulator = LinkResult::new(&scenario, 0, &mut fabric.links[0]);
            let [emulated, simulated] = [&of_emulator, &of_sim].map(|result| serde_json::to_value(result).unwrap());
            assert_eq!(emulated, simulated, "{scheme} on {link}");
            let fates = |fate| sent.iter().filter(|(_, each)| each.fate == fate).count() as u64;
            assert_eq!(fates(Fate::Corrupted), of_sim.impaired.corrupted_packets);
            assert_eq!(fates(Fate::Policed), of_sim.policed_packets);
            assert_eq!((fates(Fate::Dropped), fates(Fate::Lost)), (of_sim.dropped_packets, of_sim.lost_packets));
            marked += of_sim.marks.ect0;
        }
    }
    assert!(marked > 100, "{marked}");
}
