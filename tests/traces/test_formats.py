"""Every format that is known by name: what it reads, what it is told by, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccarena.errors import ConfigError, TraceError
from ccarena.traces import convert
from ccarena.traces.formats import FORMATS, Format, detect, find_format

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: formats of recordings not tested")

ROOT = Path(__file__).parents[2]


def iperf_json(rates: list[float], **more: Any) -> str:
    intervals = [
        {
            "streams": [],
            "sum": {"start": i, "end": i + 1, "bits_per_second": rate * 1e6, "omitted": i < 0, "sender": True},
        }
        for i, rate in enumerate(rates, -1)
    ]
    return json.dumps({"start": {"version": "iperf 3.16"}, "intervals": intervals, "end": {}, **more})


IPERF_TEXT = """Connecting to host 10.0.0.1, port 5201
[  5] local 10.0.0.2 port 40000 connected to 10.0.0.1 port 5201
[  7] local 10.0.0.2 port 40002 connected to 10.0.0.1 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  9.00 MBytes  70.0 Mbits/sec    0    141 KBytes       (omitted)
[SUM]   0.00-1.00   sec  9.00 MBytes  70.0 Mbits/sec    0             (omitted)
[  5]   0.00-1.00   sec  1.25 MBytes  10.0 Mbits/sec    0    141 KBytes
[  7]   0.00-1.00   sec  1.25 MBytes  10.0 Mbits/sec    0    141 KBytes
[SUM]   0.00-1.00   sec  2.50 MBytes  20.0 Mbits/sec    0
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5]   1.00-1.50   sec   250 KBytes  500 KBytes/sec    0    141 KBytes
[  7]   1.00-1.50   sec   250 KBytes  500 KBytes/sec    0    141 KBytes
[SUM]   1.00-1.50   sec   500 KBytes  1000 KBytes/sec    0
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[SUM]   0.00-1.50   sec  3.00 MBytes  16.8 Mbits/sec    0             sender
[SUM]   0.00-1.52   sec  3.00 MBytes  16.6 Mbits/sec                  receiver
"""
LOG = "# mahimahi mm-link (uplink) [up.trace] > up.log\n# base timestamp: 5000\n5000 + 1504\n5002 # 1504\n"
LOG += "5002 - 1504 2\n5002 # 1504\n5004 # 1504\n5005 d 1 1504\n5006 + 1504\n"
RATTAN = {
    "RepeatedBwPatternConfig": {
        "count": 0,
        "pattern": [
            {"StaticBwConfig": {"bw": "12Mbps", "duration": "1s 500ms"}},
            {
                "RepeatedBwPatternConfig": {
                    "count": 2,
                    "pattern": [{"TraceBwConfig": {"pattern": [["100ms", ["1Gbps 500Mbps", "48 kbps"]]]}}],
                }
            },
            {"StaticBwConfig": {"bw": {"gbps": 1, "bps": 500}, "duration": {"secs": 2, "nanos": 500000000}}},
        ],
    }
}
TABLES: dict[str, tuple[str, list[float], list[float]]] = {
    "mbps-csv": ("rate_mbps\n12\n24\n", [12, 24], [1, 1]),
    "nyu-mets": ("0.57,Mbits/sec\n1,Mbits/sec\n500,Kbits/sec\n", [0.57, 1, 0.5], [1, 1, 1]),
    "irish-5g": (
        "Timestamp,State,DL_bitrate,UL_bitrate\n2019.12.16_13.40.04,I,9,9\n2019.12.16_13.40.05,D,12000,9\n"
        "2019.12.16_13.40.06,D,6000,9\n2019.12.16_13.40.06,D,3000,9\n2019.12.16_13.40.09,D,9000,9\n",
        [12, 6, 3, 9],
        [1, 1.5, 1.5, 1],
    ),
    "conext-2023": (
        "time,throughput,speed\n2023-04-12 10:40:20 CDT,147.0,62.9\n2023-04-12 10:40:21 CDT,260.0,62.2\n"
        "2023-04-12 10:40:23 CDT,20.5,62.2\n",
        [147, 260, 20.5],
        [1, 2, 1.5],
    ),
    "mtu-5g": (
        "Time,rsrp(dBm),Sent Bytes,RATE(MBit/s)\nFri Dec 17 14:06:06 UTC 2021,-80,5,0\n"
        "Fri Dec 17 14:06:09 UTC 2021,-80,5,9.5\nFri Dec 17 14:06:12 UTC 2021,-80,5,-22997.4\n"
        "Fri Dec 17 14:06:15 UTC 2021,-80,5,22835.2\nFri Dec 17 14:06:18 UTC 2021,-80,5,8.5\n",
        [0, 9.5, 8.5],
        [3, 3, 3],
    ),
    "hsdpa": (
        "1289406399 549893 59.851 10.781 215500 1000\n1289406401 551894 59.8 10.7 3000 2000\n",
        [1.724, 0.012],
        [1, 2],
    ),
    "ghent": ("1453122790686 2999 51.04 3.73 1500 1000\n", [0.012], [1]),
    "iperf3-json": (iperf_json([99, 10, 20]), [10, 20], [1, 1]),
    "iperf3": (IPERF_TEXT, [20, 8], [1, 0.5]),
    "mahimahi-log": (LOG, [0, 24, 0, 12, 0], [0.001, 0.001, 0.001, 0.001, 0.002]),
    "pensieve": ("0.0 9.9\n0.5 1.5\n1.5 2.5\n", [1.5, 2.5], [0.5, 1]),
    "rattan": (json.dumps(RATTAN), [12, 1500, 0.048, 1500, 0.048, 1000.0005], [1.5, 0.1, 0.1, 0.1, 0.1, 2.5]),
}


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_every_format_is_told_from_its_file_and_reads_its_rows(known: Format, tmp_path: Path) -> None:
    text, rates, spans = TABLES[known.name]
    (tmp_path / "t").write_text(text)
    assert detect(tmp_path / "t") is known
    (found,) = known.read(tmp_path / "t")
    assert found.rates_mbps == pytest.approx(rates)
    assert found.spans_s == pytest.approx(spans)


def test_every_format_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "traces.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) >= {known.name for known in FORMATS}


@pytest.mark.parametrize("text", ["", "12\n13\n", "a,b\n1,2\n", "{}", "3 1\n2 5\n", "\x00\x01"])
def test_what_looks_like_no_format_is_not_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    assert detect(tmp_path / "t") is None


def test_unknown_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='did you mean "nyu-mets"'):
        find_format("nyu-met")
    with pytest.raises(TraceError, match="cannot read the table"):
        convert.convert(tmp_path / "absent", find_format("nyu-mets"))


def test_a_link_log_gives_back_the_trace_that_ran(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(LOG.replace("5005 d 1 1504\n5006 + 1504\n", ""))
    assert convert.convert(tmp_path / "t", find_format("mahimahi-log")).tolist() == [2, 2, 4]


def test_the_receivers_intervals_count_where_iperf3_has_them(tmp_path: Path) -> None:
    there = json.loads(iperf_json([99, 4, 5]))
    (tmp_path / "t").write_text(iperf_json([99, 10, 20], server_output_json=there))
    (found,) = find_format("iperf3-json").read(tmp_path / "t")
    assert found.rates_mbps.tolist() == [4, 5]
    single = "[ ID] Interval\n[  5]   0.00-1.00   sec  1 MBytes  {rate} Mbits/sec\n"
    (tmp_path / "t").write_text(single.format(rate=9) + "Server output:\n" + single.format(rate=7))
    (found,) = find_format("iperf3").read(tmp_path / "t")
    assert found.rates_mbps.tolist() == [7]


def test_iperf3s_stream_of_json(tmp_path: Path) -> None:
    document = json.loads(iperf_json([99, 10, 20]))
    events = [{"event": "start", "data": document["start"]}]
    events += [{"event": "interval", "data": one} for one in document["intervals"]]
    (tmp_path / "t").write_text("\n".join(json.dumps(event, separators=(",", ":")) for event in events) + "\n")
    assert detect(tmp_path / "t") is find_format("iperf3-json")
    (found,) = find_format("iperf3-json").read(tmp_path / "t")
    assert found.rates_mbps.tolist() == [10, 20]


def test_rattans_toml_and_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
    text = '[[RepeatedBwPatternConfig.pattern]]\n[RepeatedBwPatternConfig.pattern.StaticBwConfig]\nbw = "8Mbps"\n'
    (tmp_path / "t").write_text(text + 'duration = "2s"\n')
    assert detect(tmp_path / "t") is find_format("rattan")
    (found,) = find_format("rattan").read(tmp_path / "t")
    assert (found.rates_mbps.tolist(), found.spans_s.tolist()) == ([8], [2])
    (tmp_path / "t").write_text('{"TraceBwConfig": [[250, [1, 2.5]]]}')
    (found,) = find_format("rattan").read(tmp_path / "t")
    assert (found.rates_mbps.tolist(), found.spans_s.tolist()) == ([1, 2.5], [0.25, 0.25])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    known=st.sampled_from(FORMATS),
    edits=st.lists(
        st.tuples(st.integers(0, 2000), st.sampled_from([*'0 9\n,.{}[]:"-#eNx', "\0", "é", ""])), max_size=4
    ),
)
def test_whatever_a_file_holds_it_is_read_or_refused(
    known: Format, edits: list[tuple[int, str]], tmp_path: Path
) -> None:
    text = TABLES[known.name][0]
    for place, put in edits:
        at = place % len(text)
        text = text[:at] + put + text[at + 1 :]
    (tmp_path / "t").write_text(text, encoding="utf-8")
    detect(tmp_path / "t")
    try:
        found = convert.recordings(tmp_path / "t", known)
    except TraceError:
        return
    assert all((one.spans_s > 0).all() and (one.rates_mbps >= 0).all() for one in found)


DEEP = '{"RepeatedBwPatternConfig":{"count":1,"pattern":['


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("iperf3-json", '{"intervals": []}', "no report intervals"),
        ("iperf3-json", '{"intervals": [], "error": "unable to connect"}', "the test failed: unable to connect"),
        ("iperf3-json", '{"intervals": [{"streams": []}]}', "sum.*expected iperf3's JSON"),
        (
            "iperf3-json",
            '{"intervals": [{"sum": {"start": 0, "end": 1, "bits_per_second": NaN}}]}',
            "t: not JSON: expected value at line 1 column 66",
        ),
        ("iperf3-json", iperf_json([1, 2, 3])[:-9], "t: not JSON: EOF while parsing"),
        ("iperf3-json", "[" * 100_000, "t: not JSON: recursion limit exceeded"),
        ("iperf3", "hello\n", "no report intervals; expected iperf3's output"),
        ("iperf3", IPERF_TEXT * 2, "t:24: a second test starts here"),
        ("mahimahi-log", "# base timestamp: 5\n7 + 1504\n", "no delivery opportunities"),
        ("mahimahi-log", LOG + "5007 ? 1504\n", 't:10: "5007 [?] 1504"; expected an event'),
        ("mahimahi-log", LOG + "4999 # 1504\n", 't:10: "4999 # 1504"; expected an event after the base timestamp'),
        ("pensieve", "0.0 1\n0.5 1\n0.4 1\n", "t:3: time 0.4 s comes after 0.5 s"),
        ("pensieve", "0.0 1\n0.5 fast\n", 't:2: "0.5 fast"; expected a time in s and a rate in Mbit/s'),
        ("pensieve", "0.0 1\n", "expected at least two times"),
        ("rattan", "{}", "document: got .*; expected one of StaticBwConfig"),
        ("rattan", '{"NormalizedBwConfig": {}}', "document: got NormalizedBwConfig; expected one of StaticBwConfig"),
        ("rattan", '{"StaticBwConfig": {"bw": "12", "duration": "1s"}}', "StaticBwConfig: the rate is '12'"),
        ("rattan", '{"StaticBwConfig": {"bw": "12Mbps", "duration": "1 day"}}', "the duration is '1 day'"),
        ("rattan", '{"TraceBwConfig": {"pattern": [["1s"]]}}', r"TraceBwConfig.pattern\[0\]: expected"),
        ("rattan", DEEP + '{"RepeatedBwPatternConfig":{"pattern":[]}}]}}', "count: got 0; expected 1 or more"),
        ("rattan", DEEP * 5000, "t: not JSON: recursion limit exceeded"),
        (
            "rattan",
            '{"RepeatedBwPatternConfig":{"count":4000000000,"pattern":[{"StaticBwConfig":{"bw":"1Mbps","duration":"1s"}}]}}',
            "1 rates 4000000000 times; expected at most 2000000 in all",
        ),
        ("rattan", '{"TraceBwConfig": {"pattern": []}}', "the trace has no rates"),
    ],
)
def test_what_a_format_does_not_say_is_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(TraceError, match=message):
        find_format(name).read(tmp_path / "t")
