use std::sync::Arc;

use super::*;
use crate::all_schemes;
use crate::feedback::Feedback;
use crate::learned::monitor::Parts;
use crate::policy::Policy;
use crate::steady_state::{self, Event};
use crate::types::Requirement;

const GOLDEN: &[u8] = include_bytes!("../../tests/data/golden.safetensors");

/// An artifact of the package.
fn shipped(name: &str) -> Vec<u8> {
    let scheme = name.split('-').next().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ccarena");
    std::fs::read(format!("{root}/{scheme}/policies/{name}.safetensors")).unwrap()
}

fn refused(source: &Source<'_>, host: &Host) -> String {
    Flow::build(source, &Config::default(), host, Time::ZERO).unwrap_err().to_string()
}

#[test]
fn every_scheme_without_a_policy_or_rules_runs_on_a_host_that_reports_everything() {
    let config = Config {
        requirement: Some(Requirement { min: Rate::from_mbps(5.0), max: Rate::from_mbps(8.0) }),
        ..Config::default()
    };
    for scheme in all_schemes() {
        let built = Flow::build(&Source::Scheme(scheme.name), &config, &Host::ALL, Time::ZERO);
        match built {
            Ok(flow) => assert!(flow.window() >= Bytes(1448), "{}", scheme.name),
            Err(Refused::Learned { .. }) => assert!(scheme.learned),
            Err(Refused::Rules { .. }) => assert!(scheme.rules),
            Err(e) => panic!("{}: {e}", scheme.name),
        }
    }
}

#[test]
fn the_refusal_names_the_missing_report() {
    let host = Host::default();
    assert!(Flow::build(&Source::Scheme("cubic"), &Config::default(), &host, Time::ZERO).is_ok());
    assert_eq!(
        refused(&Source::Scheme("bbr"), &host),
        "scheme \"bbr\" needs a report of each packet that leaves, which this host does not give: choose another scheme, \
         or let the host give it and say so (`Host` with `every_packet: true`)"
    );
    let host = Host { every_packet: true, ..host };
    assert!(
        refused(&Source::Scheme("vivace"), &host).contains("the numbers of packets that leave, arrive and are lost")
    );
    assert!(refused(&Source::Scheme("bbr"), &host).contains("delivery-rate samples"));
    assert!(refused(&Source::Scheme("prague"), &host).contains("counts of packets marked by ECN"));
    let echoes = Host { marks: Feedback::Classic, ..host };
    assert!(refused(&Source::Scheme("dctcp"), &echoes).contains("every change between marked and unmarked packets"));
    let counts = Host { rate_samples: true, marks: Feedback::Accurate, ..host };
    assert!(refused(&Source::Scheme("prague"), &counts).contains("packets that leave as ECT(1)"));
    assert!(
        Flow::build(&Source::Scheme("prague"), &Config::default(), &Host { l4s: true, ..counts }, Time::ZERO).is_ok()
    );
    assert!(refused(&Source::Scheme("abc"), &host).contains("a header in packets that routers change"));
    let acct = shipped("acct");
    let said = refused(&Source::Artifact(&acct), &Host { rate_samples: true, ..host });
    assert!(said.contains("\"acct\" needs rates that routers advertise for its signal \"zone\""), "{said}");
}

#[test]
fn a_signal_of_marks_needs_a_host_that_counts_them() {
    let text = r#"{"learned": 1, "name": "d", "clock": "window", "base": "none", "act": {"kind": "window", "bounds": [2, 100]},
                   "observe": {"signals": ["ce_ratio"]}, "report": ["rtt_ms"]}"#;
    let spec = crate::Spec::parse(text).unwrap();
    let mut controller = spec.controller(&Config::default()).unwrap();
    let mut check = |marks| {
        let host = Host { marks, ..Host::ALL };
        host.check("d", controller.as_mut(), spec.feedback(), |_| spec.signal_with(Parts::MARKS))
            .map_err(|e| (e.need, e.signal))
    };
    assert_eq!(check(Feedback::Classic), Err((Need::Marks(Feedback::Accurate), Some("ce_ratio"))));
    assert_eq!(check(Feedback::Accurate), Ok(()));
}

#[test]
fn wrong_sources_are_refused_with_the_reason() {
    let said = |source: &Source<'_>| refused(source, &Host::ALL);
    assert!(said(&Source::Scheme("cubik")).contains("did you mean \"cubic\"?"));
    let apart = said(&Source::Scheme("copa@delta=0.1"));
    assert!(apart.contains("did you mean \"copa\"? Parameters are given apart from the name: as "), "{apart}");
    assert!(said(&Source::Scheme("acct")).contains("give the bytes of a policy artifact instead"));
    assert!(said(&Source::Scheme("remy")).contains("runs a rule file"));
    assert!(said(&Source::Artifact(b"no artifact")).starts_with("artifact: "));
    let other = Config { params: [("budget_ms".to_string(), 20.0)].into(), ..Config::default() };
    let error = Flow::build(&Source::Artifact(GOLDEN), &other, &Host::ALL, Time::ZERO).unwrap_err().to_string();
    assert!(error.contains("was trained with budget_ms = 5, and the flow has 20"), "{error}");
}

#[test]
fn a_configuration_that_no_connection_has_is_refused_by_the_name_of_its_field() {
    let usual = Config::default;
    for (config, expected) in [
        (Config { mss: 0, ..usual() }, "Config::mss is 0; expected at least 1"),
        (Config { initial_window: 0, ..usual() }, "Config::initial_window is 0; expected at least 1"),
        (Config { weight: -1.0, ..usual() }, "Config::weight is -1; expected more than 0, at most 1000"),
        (Config { weight: f64::NAN, ..usual() }, "Config::weight is NaN; expected more than 0, at most 1000"),
    ] {
        for source in [Source::Scheme("cubic"), Source::Artifact(GOLDEN)] {
            let error = Flow::build(&source, &config, &Host::ALL, Time::ZERO).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[test]
fn flows_of_one_policy_share_its_weights_and_decide_alike() {
    let policy = Arc::new(Policy::from_bytes(GOLDEN).unwrap());
    let build = |source: &Source<'_>| Flow::build(source, &Config::default(), &Host::ALL, Time::ZERO).unwrap();
    let (shared, own) = (build(&Source::Policy(Arc::clone(&policy))), build(&Source::Artifact(GOLDEN)));
    assert_eq!(Arc::strong_count(&policy), 2);
    assert_eq!(shared.window(), own.window());
}

#[test]
fn a_policy_is_asked_at_each_end_of_an_interval() {
    for name in ["acct", "acct-signals"] {
        let bytes = shipped(name);
        let mut flow = Flow::build(&Source::Artifact(&bytes), &Config::default(), &Host::ALL, Time::ZERO).unwrap();
        flow.keep_reports();
        let width = Policy::from_bytes(&bytes).unwrap().trained().spec.interface().report.len() as u64;
        steady_state::events(20_000, |event| match event {
            Event::Loss(loss) => flow.on_loss(&loss),
            Event::Ack(ack) => flow.on_ack(&ack),
            Event::Sent(sent) => flow.on_sent(&sent),
        });
        assert!(flow.decisions() > 10, "{name}: {} decisions", flow.decisions());
        assert!(flow.outside().decisions > 0, "{name}");
        assert_eq!(flow.reports().len() as u64, flow.decisions() * width, "{name}");
    }
}
