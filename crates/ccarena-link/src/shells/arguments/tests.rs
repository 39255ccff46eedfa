use super::*;

use proptest::prelude::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn parse(name: &str, line: &str) -> Result<Request, ArgumentError> {
    read(name, &format!("cca-{name}"), &words(line))
}

fn good(name: &str, line: &str) -> Request {
    parse(name, line).unwrap_or_else(|e| panic!("{line}: {e}"))
}

fn bad(name: &str, line: &str) -> String {
    parse(name, line).expect_err(line).to_string()
}

fn link(line: &str) -> ([LinkWay; 2], bool, Vec<OsString>) {
    let request = good("link", line);
    let Shell::Link(ways, once) = only(request.shells) else { panic!("{line}") };
    (*ways, once, request.command)
}

fn only<T>(of: Vec<T>) -> T {
    assert_eq!(of.len(), 1);
    of.into_iter().next().unwrap()
}

#[test]
fn mm_links_line_is_read() {
    let ([up, down], once, command) = link(
        "A.up --uplink-log=u.log --downlink-queue droptail --downlink-queue-args=packets=5 A.down --once -- ping -c 1 x",
    );
    assert_eq!((up.trace, up.log), ("A.up".into(), Some("u.log".into())));
    assert_eq!((down.trace, down.log), ("A.down".into(), None));
    assert_eq!(up.queue, QueueSpec::infinite());
    assert_eq!(down.queue.limit, Some(ccarena_net::queues::Limit::Packets(5)));
    assert!(once);
    assert_eq!(command, words("ping -c 1 x"));
}

#[test]
fn options_may_follow_the_command_as_with_getopt() {
    let ([up, _], once, command) = link("A B sh run.sh --once -u up.log");
    assert!(once);
    assert_eq!(up.log, Some("up.log".into()));
    assert_eq!(command, words("sh run.sh"));
}

#[test]
fn a_command_with_options_of_its_own_keeps_them() {
    let (_, once, command) = link("A B ls -l --once");
    assert!(!once, "mahimahi refuses this line: -l is none of its options");
    assert_eq!(command, words("ls -l --once"));
    assert_eq!(link("A B sh -c true -d").2, words("sh -c true -d"));
}

#[test]
fn abbreviations_and_short_options() {
    let ([up, down], ..) = link("A B --uplink-l x -dy");
    assert_eq!((up.log, down.log), (Some("x".into()), Some("y".into())));
    assert!(bad("link", "A B --uplink-").contains("--uplink-log or --uplink-queue"));
    assert!(link("A B --meter-all --on").1);
}

#[test]
fn what_is_wrong_with_a_link_is_said() {
    assert!(bad("link", "A").contains("DOWNLINK-TRACE is missing"));
    assert!(bad("link", "A B --uplnk-log=x").contains("did you mean --uplink-log?"));
    assert!(bad("link", "A B --uplink-log").contains("needs a value"));
    assert!(bad("link", "A B --once=1").contains("takes no value"));
    assert!(bad("link", "A B -x").contains("unknown option -x"));
    assert!(bad("link", "A B --uplink-queue=codl").contains("did you mean \"codel\"?"));
    assert!(bad("link", "A").contains("usage: cca-link UPLINK-TRACE DOWNLINK-TRACE"));
    assert!(bad("lnk", "A B").contains("did you mean \"link\"?"));
}

#[test]
fn delays() {
    let request = good("delay", "20 ping -c 3 10.0.0.1");
    assert_eq!(only(request.shells), Shell::Delay(Dur::from_millis(20), None));
    assert_eq!(request.command, words("ping -c 3 10.0.0.1"));
    assert_eq!(only(good("delay", "0.5").shells), Shell::Delay(Dur::from_micros(500), None));
    assert_eq!(good("delay", "1 -- -x").command, words("-x"));
    for wrong in ["x", "-5", "1e9", "nan"] {
        assert!(bad("delay", wrong).contains("MS is"), "{wrong}");
    }
}

/// A loss of the uplink.
fn loss_of(rate: f64) -> Shell {
    let mut wire = Wire::at_once();
    wire.link.loss = LossSpec::independent(rate);
    Shell::Loss(Direction::Uplink, Box::new(wire))
}

#[test]
fn losses() {
    assert_eq!(only(good("loss", "uplink 0.25").shells), loss_of(0.25));
    assert!(bad("loss", "sideways 0.1").contains("expected uplink or downlink"));
    assert!(bad("loss", "uplink 1.5").contains("from 0 to 1"));
    assert!(bad("loss", "uplink x").contains("from 0 to 1"));
}

#[test]
fn on_and_off() {
    let shell = |line| only(good("onoff", line).shells);
    let turns = OnOff::Turns(Outages { on: Dur::from_millis(1500), off: Dur::from_millis(500) });
    let link = || Box::new(Wire::at_once());
    assert_eq!(shell("downlink 1.5 0.5"), Shell::OnOff(Direction::Downlink, turns, link()));
    assert_eq!(shell("uplink 1 0"), Shell::OnOff(Direction::Uplink, OnOff::Always, link()));
    assert_eq!(shell("uplink 0 1"), Shell::OnOff(Direction::Uplink, OnOff::Never, link()));
    assert!(bad("onoff", "uplink 0 0").contains("both 0"));
    assert!(bad("onoff", "uplink -1 1").contains("MEAN-ON-TIME is -1"));
}

#[test]
fn what_all_shells_take() {
    let options =
        good("loss", "--verbose uplink 0.5 --summary=s.json --lateness-bound 2.5 --seed 7 --far-command=x sh").options;
    let options = only(options);
    assert_eq!(options.lateness_bound, Some(Dur::from_micros(2500)));
    assert_eq!(options.summary, Some("s.json".into()));
    assert_eq!((options.seed, options.verbose, options.mahimahi), (Some(7), true, None));
    assert!(good("delay", "5 --timing=mahimahi").options[0].wakes);
    assert!(good("delay", "5 --enlarge-buffers").enlarges_buffers() && !good("delay", "5").enlarges_buffers());
    assert!(
        bad("emulate", "s.yaml --enlarge-buffers").contains("--enlarge-buffers"),
        "both ends are the emulator's own"
    );
    assert!(bad("delay", "5 --timing=mm").contains("expected exact or mahimahi"));
    assert!(bad("delay", "5 --emulator=mm").contains("expected ccarena or mahimahi"));
    assert!(bad("delay", "5 --lateness-bound=0").contains("above 0"));
    assert!(matches!(parse("delay", "--help"), Err(ArgumentError::Help(text)) if text.contains("--summary=")));
    let one_way = |name| parse(name, "--help").unwrap_err().to_string().contains("--downlink-gilbert and so on");
    assert!(one_way("link") && one_way("delay") && !one_way("loss") && !one_way("emulate"));
}

#[test]
fn help_names_every_queue_discipline() {
    let help = parse("link", "--help").unwrap_err().to_string();
    for discipline in ccarena_net::queues::all() {
        assert!(help.contains(discipline.name), "{}", discipline.name);
    }
    assert!(!help.contains(line::QUEUES));
}

#[test]
fn mahimahi_gets_its_own_line() {
    let words = |name, line| good(name, line).options[0].mahimahi.as_ref().map(|w| w.join(OsStr::new(" ")));
    assert_eq!(words("loss", "uplink 0 --emulator mahimahi -- ls -l"), Some("uplink 0 ls -l".into()));
    let line = "--verbose --emulator=mahimahi A B --once -u x ls";
    assert_eq!(words("link", line), Some("--once --uplink-log=x A B -- ls".into()));
    assert!(bad("emulate", "s.json --emulator=mahimahi").contains("no shell for scenarios"));
    assert!(bad("loss", "uplink 0.5 --emulator=mahimahi --seed=1").contains("no option --seed"));
}

proptest! {
    #[test]
    fn no_line_is_too_odd(
        name in prop::sample::select(names().collect::<Vec<_>>()),
        line in prop::collection::vec(
            prop_oneof![
                Just("--once".to_owned()), Just("--uplink-log".to_owned()), Just("-u".to_owned()), Just("--".to_owned()),
                Just("uplink".to_owned()), Just("5".to_owned()), Just("--seed=1".to_owned()), Just("--s".to_owned()),
                Just("--uplink-queue-args=packets=1".to_owned()), Just("-".to_owned()), "[-a-z=,0-9.]{0,12}", any::<String>(),
            ],
            0..9,
        ),
    ) {
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        match read(name, "test", &words) {
            Ok(request) => prop_assert!(line.len() >= request.command.len()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        // Behind `--` everything is the command's.
        let mut behind = words;
        behind.splice(0..0, ["5", "--"].map(OsString::from));
        let request = read("delay", "test", &behind);
        prop_assert_eq!(request.map(|r| r.command), Ok(behind[2..].to_vec()));
    }
}

#[test]
fn every_option_does_something_or_is_refused() {
    let value = |name: &str| match name {
        "lateness-bound" | "seed" | "queue-memory-mb" => "7",
        "timing" | "emulator" => "mahimahi",
        "uplink-queue" | "downlink-queue" => "codel",
        "uplink-queue-args" | "downlink-queue-args" => "packets=7",
        _ if name.ends_with("policer") || name.ends_with("shaper") => "5,3000",
        _ if conditions::OF_ALL.iter().chain(conditions::OF_ONE).any(|(known, ..)| *known == name) => "0.1,0.5",
        _ => "word",
    };
    for form in FORMS {
        let positions = match form.name {
            "loss" => "uplink 0",
            "onoff" => "uplink 1 1",
            "link" => {
                "A B --uplink-queue droptail --uplink-queue-args packets=5 --downlink-queue pie \
                       --downlink-queue-args packets=5"
            }
            _ => "5",
        };
        // A meter is taken so that scripts for mahimahi run; the help says that nothing is drawn.
        let options = form.specs().filter(|(name, ..)| !name.starts_with("meter"));
        for (name, takes_value, _) in options {
            let option = if *takes_value { format!("--{name} {}", value(name)) } else { format!("--{name}") };
            let (with, without) = (format!("{option} {positions}"), positions.to_owned());
            let with = if name.contains("queue") { format!("{positions} {option}") } else { with };
            assert_ne!(parse(form.name, &with), parse(form.name, &without), "{} {with}", form.name);
        }
    }
}

#[test]
fn a_seed_of_nothing_random_is_refused() {
    for (name, line) in [("link", "--seed 7 A B"), ("loss", "--seed 7 uplink 0"), ("onoff", "--seed 7 uplink 1 0")] {
        assert!(bad(name, line).contains("--seed has no effect"), "{name} {line}");
    }
    assert!(bad("delay", "--seed 7 5").contains("--seed has no effect"));
    assert_eq!(good("delay", "--seed 7 5 --gilbert 0.1,0.5").options[0].seed, Some(7));
    assert_eq!(good("link", "--seed 7 --uplink-queue red --uplink-queue-args packets=50 A B").options[0].seed, Some(7));
}

#[test]
fn a_far_command_is_behind_all_shells_of_its_line() {
    for line in [
        "20 cca-link --far-command x a b cca-loss uplink 0 ls",
        "20 cca-link a b cca-loss --far-command=x uplink 0 ls",
        "--far-command x 20 cca-link a b cca-loss uplink 0 ls",
    ] {
        let request = good("delay", line);
        assert_eq!(request.shells.len(), 3, "{line}");
        assert_eq!(request.far_commands().collect::<Vec<_>>(), ["x"], "{line}");
    }
    let two = good("delay", "--far-command x 20 cca-loss --far-command y uplink 0 ls");
    assert_eq!(two.shells.len(), 2);
    assert_eq!(two.far_commands().collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn shells_on_one_line_are_joined_and_keep_their_options() {
    let joined = good("delay", "20 ccarena-link link a b /usr/bin/cca-loss uplink 0.1 ccarena delay 5 ls -l");
    assert_eq!(joined.shells.len(), 4);
    assert_eq!(joined.shells[0], Shell::Delay(Dur::from_millis(20), None));
    assert_eq!(joined.shells[2], loss_of(0.1));
    assert_eq!(joined.shells[3], Shell::Delay(Dur::from_millis(5), None));
    assert_eq!(joined.command, ["ls", "-l"]);
    let own = good(
        "delay",
        "--summary o.json --lateness-bound 3 --queue-memory-mb 8 20 cca-loss --seed 3 --verbose --summary i.json \
         --lateness-bound 2 --queue-memory-mb 9 uplink 0.5 cca-delay --timing mahimahi 5 ls",
    );
    let summaries: Vec<_> = own.options.iter().map(|options| options.summary.clone()).collect();
    assert_eq!(summaries, [Some(PathBuf::from("o.json")), Some(PathBuf::from("i.json")), None]);
    assert_eq!(own.options.iter().map(|options| options.seed).collect::<Vec<_>>(), [None, Some(3), None]);
    assert_eq!(own.options.iter().map(|options| options.wakes).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((own.lateness_bound(), own.emulator().memory_bytes), (Dur::from_millis(2), 9 << 20));
    assert!(own.verbose());
    for (line, command) in [
        ("20 mm-delay 5 ls", "mm-delay 5 ls"),
        ("20 cca-delay ls", "cca-delay ls"),
        ("20 cca-delay --emulator mahimahi 5 ls", "cca-delay --emulator mahimahi 5 ls"),
        ("20 ccarena emulate s.json ls", "ccarena emulate s.json ls"),
        ("20 ccarena eval", "ccarena eval"),
    ] {
        let request = good("delay", line);
        assert_eq!(
            (request.shells.len(), request.command.join(std::ffi::OsStr::new(" "))),
            (1, command.into()),
            "{line}"
        );
    }
}

/// The links of both directions of a delay with these options.
fn links(options: &str) -> [ccarena_net::scenario::Link; 2] {
    match only(good("delay", &format!("5 {options}")).shells) {
        Shell::Delay(_, Some(wires)) => wires.map(|wire| wire.link),
        other => panic!("{options}: {other:?}"),
    }
}

#[test]
fn options_are_keys_of_a_link() {
    let expected = |keys: serde_json::Value| {
        let mut document = serde_json::json!({"service": {"type": "constant", "rate_mbps": 1}, "delay_ms": 0});
        document.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let at_once = conditions::at_once();
        let read = ccarena_net::scenario::Link::from_json(&document).unwrap();
        ccarena_net::scenario::Link { service: at_once.service, queue: at_once.queue, ..read }
    };
    for (option, keys) in [
        ("--gilbert 0.01,0.3", serde_json::json!({"loss": {"type": "gilbert_elliott", "p": 0.01, "r": 0.3}})),
        (
            "--gilbert r=0.3,p=0.01,loss_bad=0.5",
            serde_json::json!({"loss": {"type": "gilbert_elliott", "p": 0.01, "r": 0.3, "loss_bad": 0.5}}),
        ),
        (
            "--slots 10,0.1,0.5",
            serde_json::json!({"loss": {"type": "slots", "slot_ms": 10, "probability": 0.1, "loss": 0.5}}),
        ),
        ("--shaper 5,30000", serde_json::json!({"shaper": {"rate_mbps": 5, "burst_bytes": 30000}})),
        ("--policer 5,30000", serde_json::json!({"policer": {"rate_mbps": 5, "burst_bytes": 30000}})),
        (
            "--policer 5,3e4,mark",
            serde_json::json!({"policer": {"rate_mbps": 5, "burst_bytes": 30000, "action": "mark"}}),
        ),
        ("--reorder=0.1,5", serde_json::json!({"reorder": {"probability": 0.1, "late_ms": 5}})),
        ("--duplicate 0.1,0.5", serde_json::json!({"duplicate": {"probability": 0.1, "correlation": 0.5}})),
        ("--corrupt 0.1", serde_json::json!({"corrupt": 0.1})),
    ] {
        assert_eq!(links(option), [expected(keys.clone()), expected(keys.clone())], "{option}");
        let uplink = option.replace("--", "--uplink-");
        assert_eq!(links(&uplink), [expected(keys.clone()), conditions::at_once()], "{uplink}");
        let ([up, down], ..) = link(&format!("A B {}", option.replace("--", "--downlink-")));
        assert_eq!([up.wire.link, down.wire.link], [conditions::at_once(), expected(keys)], "{option}");
    }
    let both = links("--gilbert 0.1,0.5 --uplink-corrupt 0.2");
    assert!(!both[0].impairments.is_none() && both[1].impairments.is_none());
    assert_eq!(both[0].loss, both[1].loss);
}

#[test]
fn traces_of_delays_and_losses_are_files() {
    let traces = |options: &str| match only(good("delay", options).shells) {
        Shell::Delay(delay, Some(wires)) => (delay, wires.map(|wire| (wire.traces.delays, wire.traces.losses))),
        other => panic!("{options}: {other:?}"),
    };
    let (d, l) = (|| Some(PathBuf::from("d.csv")), || Some(PathBuf::from("l.csv")));
    assert_eq!(traces("0 --delay-trace d.csv").1, [(d(), None), (d(), None)]);
    let five = Dur::from_millis(5);
    assert_eq!(traces("5 --uplink-delay-trace=d.csv --loss-trace l.csv"), (five, [(d(), l()), (None, l())]));
    assert!(bad("delay", "5 --delay-trace d.csv").contains("MS is 5, but traces give the delay of both directions"));
    assert!(bad("delay", "0 --delay-trace=").contains("--delay-trace is empty; expected a file"));
    assert!(bad("loss", "uplink 0.1 --loss-trace l.csv").contains("RATE is 0.1, but an option gives the loss, too"));
    let both = bad("loss", "uplink 0 --loss-trace l.csv --gilbert 0.1,0.5");
    assert!(both.contains("--loss-trace and --gilbert both give the loss of the uplink"), "{both}");
}

#[test]
fn what_is_wrong_with_an_option_is_said() {
    for (options, says) in [
        ("--gilbert 0.1", "--gilbert is \"0.1\": loss.r"),
        ("--gilbert 0.1,2", "loss.r"),
        ("--gilbert 0.1,0.2,0.3,0.4,0.5", "\"0.5\" is one value too many; expected p,r,loss_bad,loss_good"),
        ("--gilbert p=0.1,q=0.3", "loss.q"),
        ("--gilbert 0.1,", "r has no value"),
        ("--gilbert 0.1,p=0.2", "p is given twice"),
        ("--policer 5", "policer.burst_bytes"),
        ("--shaper 5,30000,1", "shaper.peak_mbps"),
        ("--gilbert 0.1,0.2 --slots 10,0.1", "--gilbert and --slots both give the loss of the uplink"),
        ("--policer 0,30000", "policer.rate_mbps"),
        ("--policer 5,30000,shape", "policer.action"),
        ("--reorder 0.1", "reorder.late_ms"),
        ("--corrupt nan", "probability is nan; expected a finite number"),
        (
            "--gilbert 0.1,0.2 --uplink-gilbert 0.1,0.3",
            "--gilbert and --uplink-gilbert both give the loss of the uplink",
        ),
    ] {
        let said = bad("delay", &format!("5 {options}"));
        assert!(said.contains(says), "{options}: {said}");
    }
    assert!(bad("loss", "uplink 0.5 --gilbert 0.1,0.5").contains("RATE is 0.5, but an option gives the loss, too"));
    assert!(bad("loss", "uplink 0 --uplink-gilbert 0.1,0.5").contains("unknown option --uplink-gilbert"));
}

#[test]
fn options_of_ours_are_the_commands_behind_it() {
    let (_, once, command) = link("A B iperf3 --seed 4 --once");
    assert!(!once, "mahimahi refuses this line");
    assert_eq!(command, words("iperf3 --seed 4 --once"));
    // mahimahi's abbreviations stay its own.
    assert!(link("A B --o").1);
}
