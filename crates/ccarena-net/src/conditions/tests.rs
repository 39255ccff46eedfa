use ccarena_cc::types::Time;
use proptest::prelude::*;

use super::*;

const ALL: &str = "time_ms,rate_mbps,delay_ms,loss\n0,10,20,0\n100,5,40.5,0.1\n250,5,20,1\n";

fn read(text: &str) -> Result<Conditions, String> {
    Conditions::read(text.as_bytes(), "a.csv").map_err(|e| e.to_string())
}

fn ms(ms: u64) -> Dur {
    Dur::from_millis(ms)
}

#[test]
fn a_trace_holds_each_row_until_the_next_and_repeats() {
    let conditions = read(ALL).unwrap();
    assert_eq!(conditions.period, Some(ms(400)));
    assert_eq!(conditions.least_delay(), Some(ms(20)));
    let delays = conditions.starting_at(ms(390)).delays.unwrap();
    let at = |t| delays.step(delays.index(Time::ZERO + ms(t))).unwrap().value;
    assert_eq!(
        [at(0), at(9), at(10), at(110), at(259), at(260), at(510)],
        [ms(20), ms(20), ms(20), Dur(40_500_000), Dur(40_500_000), ms(20), Dur(40_500_000)]
    );
    let rates = conditions.rates.unwrap();
    assert_eq!(
        rates.values().collect::<Vec<_>>(),
        [Rate::from_mbps(10.0), Rate::from_mbps(5.0)],
        "a repeated value is no step"
    );
    let constant = read("time_ms,delay_ms\n0,7\n").unwrap();
    assert_eq!((constant.period, constant.least_delay()), (None, Some(ms(7))));
    let other = read("\u{feff}delay_ms , time_ms\r\n20, 0\r\n1e1,1e2").unwrap();
    assert_eq!((other.period, other.least_delay(), other.rates), (Some(ms(200)), Some(ms(10)), None));
}

#[test]
fn faults_are_named_with_file_line_and_expectation() {
    let cases = [
        ("", "a.csv: the conditions trace is empty; expected a header"),
        ("\n", "a.csv: the conditions trace is empty; expected a header"),
        ("time_ms,delay_ms\n", "a.csv: the conditions trace has a header and no rows; expected at least one row"),
        ("rate_mbps\n1\n", "a.csv:1: there is no column time_ms; expected the header"),
        ("time_ms\n0\n", "a.csv:1: time_ms is the only column; expected any of"),
        ("time_ms,delay\n0,1\n", "a.csv:1: unknown column \"delay\", did you mean delay_ms?; expected time_ms"),
        ("time_ms,xyz\n0,1\n", "a.csv:1: unknown column \"xyz\"; expected time_ms"),
        ("time_ms,loss,loss\n0,1,1\n", "a.csv:1: column loss is there twice"),
        ("time_ms,loss\n5,1\n", "a.csv:2: the first row's time is 5.000 ms; expected 0"),
        (
            "time_ms,loss\n0,1\n10,1\n9,1\n",
            "a.csv:4: time 9.000 ms comes after 10.000 ms; expected times that increase",
        ),
        ("time_ms,loss\n0,1\n0,1\n", "a.csv:3: time 0.000 ms comes after 0.000 ms"),
        (
            "time_ms,loss\n0,1\n0.0001,1\n",
            "a.csv:3: time 0.000 ms comes after 0.000 ms; expected times that increase by 0.001 ms",
        ),
        ("time_ms,loss\n-1,1\n", "a.csv:2: time_ms is \"-1\"; expected a number from 0 to 1000000000"),
        ("time_ms,delay_ms\n0,-1\n", "a.csv:2: delay_ms is \"-1\"; expected a number from 0 to 100000"),
        ("time_ms,loss\n0,1.01\n", "a.csv:2: loss is \"1.01\"; expected a number from 0 to 1"),
        ("time_ms,loss\n0,nan\n", "a.csv:2: loss is \"nan\"; expected a number from 0 to 1"),
        ("time_ms,rate_mbps\n0,inf\n", "a.csv:2: rate_mbps is \"inf\"; expected a number from 0 to 1000000"),
        ("time_ms,rate_mbps\n0,\n", "a.csv:2: rate_mbps is \"\"; expected a number"),
        ("time_ms,rate_mbps\n0\n", "a.csv:2: the row has 1 cells; expected 2, as the header"),
        ("time_ms,rate_mbps\n0,1,2,3\n", "a.csv:2: the row has 4 cells; expected 2, as the header"),
        ("time_ms,rate_mbps\n0,1\n\n1,1\n", "a.csv:3: time_ms is \"\"; expected a number"),
        ("time_ms,rate_mbps\n0,0\n5,0\n", "a.csv: every rate is 0; expected a rate"),
        ("1\n2\n", "a.csv:1: unknown column \"1\"; expected time_ms"),
    ];
    for (text, expected) in cases {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}");
    }
    let binary = Conditions::read(b"time_ms,loss\n\xff\xfe", "a.csv").unwrap_err().to_string();
    assert!(binary.starts_with("a.csv:2: the line is no text; expected a CSV table"), "{binary}");
    assert!(load(Path::new("/nonexistent/a.csv")).unwrap_err().to_string().contains("cannot read the trace"));
}

proptest! {
    /// Reading ends without a panic, and values that were read are in bounds.
    #[test]
    fn any_bytes_are_read_or_refused(rows in prop::collection::vec((0.0_f64..50.0, -1.0_f64..3.0, any::<f64>()), 0..6)) {
        let mut text = String::from("time_ms,loss,delay_ms\n");
        for (time, loss, delay) in rows {
            text += &format!("{time},{loss},{delay}\n");
        }
        if let Ok(conditions) = read(&text) {
            prop_assert!(conditions.losses.unwrap().values().all(|loss| (0.0..=1.0).contains(&loss)));
            prop_assert!(conditions.delays.unwrap().values().all(|delay| delay <= ms(100_000)));
        }
    }
}
