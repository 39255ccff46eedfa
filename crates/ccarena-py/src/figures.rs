//! Parts of figures that go through all packets of a run.

use ccarena_net::figures::{self, Gone, Packets, Pauses, Shares, Span, Sums, Within};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

/// `percentiles(values: float64[n], shares) -> list[float]`: for each share q, the element at index floor(q n) of the sorted
/// values; NaN if there are none.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
fn percentiles(values: PyReadonlyArray1<'_, f64>, shares: Vec<f64>) -> PyResult<Vec<f64>> {
    let found = figures::percentiles(values.as_slice()?, &shares);
    Ok(found.unwrap_or_else(|| vec![f64::NAN; shares.len()]))
}

/// `rows_by_flow(flow: uint32[n]) -> int64[n]`: rows in the order of their flows, those of one flow in their own order.
#[pyfunction]
fn rows_by_flow<'py>(py: Python<'py>, flow: PyReadonlyArray1<'py, u32>) -> PyResult<Bound<'py, PyArray1<i64>>> {
    Ok(PyArray1::from_vec(py, figures::rows_by_flow(flow.as_slice()?)))
}

/// `signal_spans(arrival_ns: int64[n], departure_ns: int64[n], pauses_after_ns=None, gone_ns: int64[m]) -> (low: int64[k],
/// count: int64[k])`: the least signal delay between two arrivals, and the milliseconds over which it fell to it.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "two arrays")]
fn signal_spans<'py>(
    py: Python<'py>,
    arrival_ns: PyReadonlyArray1<'py, i64>,
    departure_ns: PyReadonlyArray1<'py, i64>,
    pauses_after_ns: Option<i64>,
    gone_ns: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>)> {
    let (arrival, departure) = (arrival_ns.as_slice()?, departure_ns.as_slice()?);
    let spans = figures::signal_spans(arrival, departure, pauses_after_ns, gone_ns.as_slice()?);
    let (low, count) = spans.into_iter().map(|span| (span.low, span.count)).unzip();
    Ok((PyArray1::from_vec(py, low), PyArray1::from_vec(py, count)))
}

/// Columns of a link's packets, as `sums_of_flows` and `percentiles_of_flows` take them.
#[derive(FromPyObject)]
struct Columns<'py> {
    #[pyo3(item)]
    arrival_ns: PyReadonlyArray1<'py, i64>,
    #[pyo3(item)]
    departure_ns: PyReadonlyArray1<'py, i64>,
    #[pyo3(item)]
    flow: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(item)]
    bytes: PyReadonlyArray1<'py, u32>,
    #[pyo3(item)]
    serialisation_ns: PyReadonlyArray1<'py, u32>,
}

impl Columns<'_> {
    fn packets(&self) -> PyResult<Packets<'_>> {
        Ok(Packets {
            arrival_ns: self.arrival_ns.as_slice()?,
            departure_ns: self.departure_ns.as_slice()?,
            flow: self.flow.as_ref().map(|flow| flow.as_slice()).transpose()?,
            bytes: self.bytes.as_slice()?,
            sending_ns: self.serialisation_ns.as_slice()?,
        })
    }
}

/// Columns of packets that went in one way: when, and of which flow.
type Went<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, u32>);

/// Fields of `Sums`, in their order.
type Summed = (u64, u64, u64, i64, i64, Vec<u64>);

/// `sums_of_flows(packets, gone, window_ns, active_ns, all_ns) -> list of tuples`: a row per flow and, last, of all packets,
/// over those that left or went in (from, to].
///
/// Columns are packets, bytes, bytes in the flow's time, the sum of queueing delays and that of times from arrival to
/// departure, both in ns. The last is a list: how many packets went, for each of `gone`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
fn sums_of_flows(
    packets: Columns<'_>,
    gone: Vec<Went<'_>>,
    window_ns: (i64, i64),
    active_ns: Vec<(i64, i64)>,
    all_ns: (i64, i64),
) -> PyResult<Vec<Summed>> {
    let within = |(from, to): (i64, i64)| Within(from, to);
    let active: Vec<Within> = active_ns.into_iter().map(within).collect();
    let ways = gone.iter().map(|(at_ns, flow)| Ok(Gone { at_ns: at_ns.as_slice()?, flow: flow.as_slice()? }));
    let gone = ways.collect::<PyResult<Vec<_>>>()?;
    let (flows, all) = figures::sums_of_flows(packets.packets()?, &gone, within(window_ns), &active, within(all_ns));
    let row = |of: Sums| (of.packets, of.bytes, of.active_bytes, of.queueing_ns, of.whole_ns, of.gone);
    Ok(flows.into_iter().chain([all]).map(row).collect())
}

/// A flow's `pauses_after_ns` and `gone_ns`, as `signal_spans` takes them.
type Pausing<'py> = (Option<i64>, PyReadonlyArray1<'py, i64>);

/// Percentiles of a flow in ms: queueing delays, from arrival to departure, signal delays.
type OfFlow = (Vec<f64>, f64, f64);

/// `percentiles_of_flows(packets, window_ns, pauses, shares, tail) -> list of tuples`: for each flow, percentiles in ms of its
/// queueing delays at each of `shares`, and of times from arrival to departure and signal delays at `tail`. `pauses`: each
/// flow's `pauses_after_ns` and `gone_ns`, as `signal_spans` takes them; None leaves the flow out.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
fn percentiles_of_flows(
    packets: Columns<'_>,
    window_ns: (i64, i64),
    pauses: Vec<Option<Pausing<'_>>>,
    shares: Vec<f64>,
    tail: f64,
) -> PyResult<Vec<Option<OfFlow>>> {
    let owned = |(after_ns, gone_ns): &Pausing<'_>| -> PyResult<Pauses> {
        Ok(Pauses { after_ns: *after_ns, gone_ns: gone_ns.as_slice()?.to_vec() })
    };
    let of: Vec<Option<Pauses>> =
        pauses.iter().map(|flow| flow.as_ref().map(owned).transpose()).collect::<PyResult<_>>()?;
    let shares = Shares { queueing: &shares, tail };
    let found = figures::percentiles_of_flows(packets.packets()?, Within(window_ns.0, window_ns.1), &of, shares);
    Ok(found.into_iter().map(|of| of.map(|of| (of.queueing_ms, of.whole_ms, of.signal_ms))).collect())
}

/// `delays_ms(arrival_ns: int64[n], departure_ns: int64[n], sending_ns: uint32[n] or None, further_ms) -> float64[n]`: from
/// arrival to departure of each packet, less its own sending if given, plus `further_ms`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
fn delays_ms<'py>(
    py: Python<'py>,
    arrival_ns: PyReadonlyArray1<'py, i64>,
    departure_ns: PyReadonlyArray1<'py, i64>,
    sending_ns: Option<PyReadonlyArray1<'py, u32>>,
    further_ms: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let sending = sending_ns.as_ref().map(|array| array.as_slice()).transpose()?;
    let delays = figures::delays_ms(arrival_ns.as_slice()?, departure_ns.as_slice()?, sending, further_ms);
    Ok(PyArray1::from_vec(py, delays))
}

/// `percentile_of_spans(low: int64[k], count: int64[k], q) -> float`: of low, low + 1, ... low + count - 1 of every span; NaN
/// of none.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
fn percentile_of_spans(low: PyReadonlyArray1<'_, i64>, count: PyReadonlyArray1<'_, i64>, q: f64) -> PyResult<f64> {
    let rows = low.as_slice()?.iter().zip(count.as_slice()?);
    let spans: Vec<Span> = rows.map(|(&low, &count)| Span { low, count }).collect();
    Ok(figures::percentile_of_spans(&spans, q).map_or(f64::NAN, |ms| ms as f64))
}

/// `time_in_queue_length_ns(arrival_ns: int64[n], departure_ns: int64[n], sending_ns: uint32[n], from_ns, to_ns) -> int64[k]`:
/// time in [from, to) during which exactly 0, 1, ... packets were queued; the last is not 0, or the only one.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
fn time_in_queue_length_ns<'py>(
    py: Python<'py>,
    arrival_ns: PyReadonlyArray1<'py, i64>,
    departure_ns: PyReadonlyArray1<'py, i64>,
    sending_ns: PyReadonlyArray1<'py, u32>,
    from_ns: i64,
    to_ns: i64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let (arrival, departure, sending) = (arrival_ns.as_slice()?, departure_ns.as_slice()?, sending_ns.as_slice()?);
    let spent = figures::time_in_queue_length_ns(arrival, departure, sending, from_ns, to_ns);
    Ok(PyArray1::from_vec(py, spent))
}

/// `time_over_delay_ns(arrival_ns: int64[n], departure_ns: int64[n], budget_ns, from_ns, to_ns) -> int`: time in [from, to)
/// with more than `budget_ns` of work in the queue, from < to.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
fn time_over_delay_ns(
    arrival_ns: PyReadonlyArray1<'_, i64>,
    departure_ns: PyReadonlyArray1<'_, i64>,
    budget_ns: i64,
    from_ns: i64,
    to_ns: i64,
) -> PyResult<i64> {
    let (arrival, departure) = (arrival_ns.as_slice()?, departure_ns.as_slice()?);
    Ok(figures::time_over_delay_ns(arrival, departure, budget_ns, from_ns, to_ns.max(from_ns)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(percentiles, module)?)?;
    module.add_function(wrap_pyfunction!(rows_by_flow, module)?)?;
    module.add_function(wrap_pyfunction!(signal_spans, module)?)?;
    module.add_function(wrap_pyfunction!(sums_of_flows, module)?)?;
    module.add_function(wrap_pyfunction!(percentiles_of_flows, module)?)?;
    module.add_function(wrap_pyfunction!(delays_ms, module)?)?;
    module.add_function(wrap_pyfunction!(time_in_queue_length_ns, module)?)?;
    module.add_function(wrap_pyfunction!(time_over_delay_ns, module)?)?;
    module.add_function(wrap_pyfunction!(percentile_of_spans, module)?)
}
