"""Results that others report: read strictly, kept apart, never ranked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccarena import cli
from ccarena.errors import ConfigError
from ccarena.eval.leaderboard.reported import COLUMNS, LARGEST_BYTES, means_of, read_reported
from ccarena.eval.leaderboard.store import Store

HEAD = "link,entrant,throughput_mbps,delay_ms,seed,source"
ROW = "lte,sage,4.5,30,1,A paper"


def written(folder: Path, *lines: str) -> Path:
    file = folder / "theirs.csv"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def test_a_table_in_any_order_of_columns(tmp_path: Path) -> None:
    file = written(
        tmp_path, "\ufeffsource,seed,delay_ms, throughput_mbps ,entrant,link", '"A, 2020",,7,3,orca,wired', ""
    )
    (row,) = read_reported(file)
    assert row["digest"] and {name: row[name] for name in COLUMNS} == {
        **{"link": "wired", "entrant": "orca", "throughput_mbps": 3.0, "delay_ms": 7.0},
        **{"seed": None, "source": "A, 2020"},
    }
    two = read_reported(written(tmp_path, HEAD, ROW, ROW.replace("4.5", "5.5").replace(",1,", ",2,")))
    (mean,) = means_of(two)
    assert (mean["throughput_mbps"], mean["results"]) == (5.0, 2)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([HEAD, ROW, ROW.replace("4.5", "fast")], "row 3: throughput_mbps: got 'fast'; expected a number from 0 to 1e"),
        ([HEAD, ROW.replace("4.5", "-1")], "row 2: throughput_mbps: got -1.0; expected a number from 0"),
        ([HEAD, ROW.replace("4.5", "nan")], "row 2: throughput_mbps: got nan; expected a number from 0"),
        ([HEAD, ROW.replace(",30,", ",,")], "row 2: delay_ms: got None; expected a number from 0"),
        ([HEAD, ROW.replace(",1,", ",1.5,")], "row 2: seed: got 1.5; expected a whole number"),
        ([HEAD, ROW.replace("sage", "")], "row 2: entrant: is empty; expected a text"),
        ([HEAD, ROW.replace("sage", "s" * 201)], "row 2: entrant: expected text of at most 200 characters"),
        ([HEAD, ROW.replace("sage", "\x1b]0;x")], "row 2: entrant: holds"),
        ([HEAD, "", ROW, ROW + ",more"], "row 4: 7 fields; expected 6: link, entrant"),
        ([HEAD, ROW, ROW], "row 3: repeats an earlier row"),
        ([HEAD], "has no rows; expected a line of column names"),
        (["link,entrant"], "row 1: no column throughput_mbps, delay_ms, seed, source; expected the columns link"),
        ([HEAD.replace("_mbps", "")], 'row 1: unknown column "throughput"; did you mean "throughput_mbps"'),
        ([HEAD + ",link"], "row 1: a column twice; expected the columns"),
        ([HEAD, '"lte'], "is no CSV table: "),
    ],
)
def test_what_is_wrong_is_said(lines: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        read_reported(written(tmp_path, *lines))


def test_files_that_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    (tmp_path / "large.csv").write_bytes(b"x" * (LARGEST_BYTES + 1))
    for name, said in (("bytes.csv", "is no UTF-8 text"), ("large.csv", "expected"), ("absent.csv", "cannot be read")):
        with pytest.raises(ConfigError, match=said):
            read_reported(tmp_path / name)


def test_the_command(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.db"
    path.write_bytes(small.read_bytes())
    words = ["leaderboard", "import", "--store", str(path)]
    file = str(written(tmp_path, HEAD, ROW))
    for said in ("1 reported results are new here, 0 were there", "0 reported results are new here, 1 were there"):
        assert cli.main([*words, "--reported", file]) == 0
        assert said in capsys.readouterr().out
    assert cli.main(["leaderboard", "rank", "--store", str(path)]) == 0
    before, _, after = " ".join(capsys.readouterr().out.split()).partition(
        "reported by others: not run here, and not ranked"
    )
    assert "sage" in after and "sage" not in before and "copa" in before
    for wrong in ([], ["out.csv", "--reported", file]):
        assert cli.main([*words, *wrong]) == 2
        assert "expected either FILE, a file of `export`, or --reported FILE" in capsys.readouterr().err
    broken = written(tmp_path, HEAD, ROW, ROW.replace("30", "soon"))
    assert cli.main([*words, "--reported", str(broken)]) == 2
    assert "row 3: delay_ms: got 'soon'; expected a number" in capsys.readouterr().err
    with Store(str(path), read_only=True) as store:
        assert len(store.reported()) == 1, "a file with a wrong row is refused as a whole"
