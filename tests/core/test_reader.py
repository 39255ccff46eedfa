"""The reader of files from outside: what it takes, what it refuses and with which words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the reader not tested (run make)")

from ccarena.core import reader
from ccarena.errors import ConfigError


def refusal(text: str | bytes, name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        reader.parse(text, name)
    assert len(str(caught.value)) < 300
    return str(caught.value)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{each}: &{each} [{', '.join([f'*{before}'] * 10)}]\n" for before, each in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flows: 1\nlinks: 2\nflows: 3\n", 'line 3, column 1: not valid YAML: the key "flows" is there twice'),
        ("a: {b: 1,\n    b: 1}", 'line 2, column 5: not valid YAML: the key "b" is there twice'),
        (BOMB, "aliases repeat more than 100,000 values and characters; write them out"),
        (f"a: &a {'x' * 50_000}\nb: [*a, *a, *a]", "line 2, column 9: not valid YAML: aliases repeat more than"),
        ("a: &a [*a]", "line 1, column 8: not valid YAML: the alias *a stands within its own value"),
        ("a: &a\n  b: {c: *a}", "line 2, column 10: not valid YAML: the alias *a stands within its own value"),
        ("a: *b", "line 1, column 4: not valid YAML: the alias *b has no anchor before it"),
        ("a: &a 1\nb: &a 2", "line 2, column 4: not valid YAML: the anchor &a is there twice"),
        ("[" * 128 + "]" * 128, "column 128: not valid YAML: nested too deeply; expected at most 127 levels"),
        ("[" * 100_000, "line 1, column "),
        ("- " * 100_000, "nested too deeply"),
        (f"- &a {'[' * 100}{']' * 100}\n- {'[' * 100}*a{']' * 100}", "line 2, column 103: not valid YAML: nested"),
        ("a: !!bool x", "line 1, column 4: not valid YAML: the tag 'tag:yaml.org,2002:bool'; leave tags (!...) out"),
        ("a: !!timestamp x", "the tag"),
        ("!!map [[a, b]]", "line 1, column 1: not valid YAML: the tag"),
        ("a: !own 1", "the tag '!own'"),
        ("a: !!python/object/apply:os.system [true]", "line 1, column 4: not valid YAML: the tag"),
        ("seed: 010", "line 1, column 7: not valid YAML: 010 is not read alike by all readers of YAML; leave the lead"),
        ("seed: 08.5", "08.5 is not read alike"),
        ("- 0o17", "0o17 is not read alike by all readers of YAML; write the number in decimal"),
        ("- 0x1F", "0x1F is not read alike"),
        ("- 0b1", "0b1 is not read alike"),
        ("at_s: 1:30", "line 1, column 7: not valid YAML: 1:30 is not read alike"),
        ("at_s: 190:20:30.15", "190:20:30.15 is not read alike"),
        (
            f"seed: {'9' * 400}",
            "line 1, column 7: not valid YAML: a whole number of 400 digits; expected -9223372036854775808 ",
        ),
        (f"seed: {2**64}", "a whole number of 20 digits; expected -9223372036854775808 to 18446744073709551615"),
        (f"seed: {-(2**63) - 1}", "a whole number of 19 digits; expected -9223372036854775808 to "),
        ("a: 1e999", "1e999 is beyond the range of numbers"),
        ("a: .inf", ".inf is not a finite number"),
        ("a: -.Inf", "-.Inf is not a finite number"),
        ("a: .NaN", ".NaN is not a finite number"),
        ("1: a", "line 1, column 1: not valid YAML: the key 1 is not text"),
        (f"? {'a' * 5000}\n: 1", "a key of 5,000 characters; expected at most 1000"),
        ("? {a: b}\n: 1", "the key {'a': 'b'} is not text"),
        ("a: 1\n---\nb: 2\n", "a second document; expected one"),
        (b"a: \xff", "line 1: not a text file (byte 0xff); expected YAML in UTF-8"),
        ("a: @", "line 1, column 4: not valid YAML: "),
    ],
)
def test_yaml_that_readers_take_differently_is_refused_with_its_place(text: str | bytes, message: str) -> None:
    assert message in refusal(text, "own.yaml")
    assert refusal(text, "own.yaml").startswith("own.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "a": 2}', 'own.json: not JSON: the key "a" is there twice at line 2 column 4'),
        ('[{"b": {"\\u0061": 1, "a": 2}}]', 'the key "a" is there twice at line 1'),
        ("[" * 100_000, "recursion limit exceeded at line 1 column 128"),
        ('{"a": NaN}', "at line 1 column 7"),
        ('{"a": Infinity}', "at line 1 column 7"),
        ('{"a": 1e999}', "number out of range at line 1"),
        (f'{{"{20 * "9"}": "{20 * "9"}",\n"b": {20 * "9"}}}', f"expected {-(2**63)} to {2**64 - 1} at line 2 column 6"),
        ("{a: 1}", "at line 1 column 2"),
        ("{'a': 1}", "at line 1 column 2"),
        ("[1,]", "at line 1"),
        ("[01]", "at line 1"),
        ("", "EOF while parsing a value at line 1"),
        (b"\xff", "own.json, line 1: not a text file (byte 0xff); expected JSON in UTF-8"),
    ],
)  # fmt: skip
def test_json_goes_through_a_json_parser_that_takes_no_key_twice(text: str | bytes, message: str) -> None:
    assert message in refusal(text, "own.json")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("{a: 1, b: -2, c: 1_000, d: +3}", {"a": 1, "b": -2, "c": 1000, "d": 3}),
        ("[0.5, .5, 1., 1e-4, 1E3, -0, 1__0.5]", [0.5, 0.5, 1.0, 1e-4, 1e3, 0, 10.5]),
        ("[true, False, ~, null, ]", [True, False, None, None]),
        ("[no, on, yes, off, 2024-01-01, 10-15, 1.2.3, ., +, <<, =]",) * 2,  # all text, as in YAML 1.2
        ("['010', \"1:30\", '.inf']", ["010", "1:30", ".inf"]),
        ("a: &x {b: [1]}\nc: *x\n", {"a": {"b": [1]}, "c": {"b": [1]}}),
        ("a: |\n  1\n  2\n", {"a": "1\n2\n"}),
        ("", None),
        ("# nothing\n", None),
        (b"\xef\xbb\xbfa: 1", {"a": 1}),
        ("[" * 127 + "]" * 127, None),
    ],
)
def test_yaml_is_read_as_version_1_2(text: str, data: Any) -> None:
    found = reader.parse(text, "own.yaml")
    if isinstance(data, str):
        assert found == [each.strip() for each in text.strip("[]").split(",")]
    elif data is not None or not found:
        assert found == data


def test_what_an_alias_repeats_is_a_copy() -> None:
    data = reader.parse("a: &x {b: [1]}\nc: *x\n", "own.yaml")
    data["a"]["b"].append(2)
    assert data["c"] == {"b": [1]}


plain_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # PyYAML writes these characters in a way that it does not read back.
    | st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc:0 #'-", max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(plain_data)
def test_what_was_written_reads_back(data: Any) -> None:
    assert reader.parse(yaml.safe_dump(data), "own.yaml") == data


@given(st.text(max_size=60) | st.text("[]{}&*!:,-?|>'\"#%@` \n01a.", max_size=60))
def test_any_text_is_data_or_a_refusal(text: str) -> None:
    for name in ("own.yaml", "own.json"):
        try:
            reader.parse(text, name)
        except ConfigError as error:
            assert str(error).startswith(name)


@pytest.mark.parametrize("name", ["file.yaml", "file.json"])
def test_a_file_that_is_missing_or_empty_gets_what_was_expected(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(ConfigError, match=f"{name}: cannot be read: No such file or directory; expected a space"):
        reader.read_data(path, "a space")
    with pytest.raises(FileNotFoundError):
        reader.read_data(path)
    path.write_text("null\n", "utf-8")
    with pytest.raises(ConfigError, match=f"{name}: is empty; expected a space"):
        reader.read_data(path, "a space")


def test_files_are_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PIPE_S", 0.2)

    def said(path: Path) -> str:
        with pytest.raises(OSError) as caught:
            reader.read_bytes(path, 1000)
        return str(caught.value.strerror)

    sparse, empty_pipe, pipe, whole = (tmp_path / name for name in ("sparse", "empty", "pipe", "whole"))
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    assert said(sparse) == "it has 1,099,511,627,776 bytes or more; expected at most 1,000"
    assert said(Path("/dev/zero")) == "it is a device; expected a file"
    assert said(tmp_path) == "it is a folder; expected a file"
    assert said(tmp_path / "absent") == "No such file or directory"
    os.mkfifo(empty_pipe)
    assert said(empty_pipe) == "the pipe did not end within 0.2 s", "nobody writes"
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDWR)  # so that neither end waits for the other
    os.write(handle, b"a: 1")
    assert said(pipe) == "the pipe did not end within 0.2 s", "the writer goes on"
    os.write(handle, b"x" * 5000)
    assert said(pipe) == "it has 5,000 bytes or more; expected at most 1,000"
    os.close(handle)
    read, write = os.pipe()
    os.write(write, b"a: 1")
    os.close(write)
    assert reader.read_data(f"/dev/fd/{read}") == {"a": 1}
    os.close(read)
    whole.write_bytes(b"x" * 1000)
    assert len(reader.read_bytes(whole, 1000)) == 1000
    whole.write_bytes(b"x" * 1001)
    assert said(whole) == "it has 1,001 bytes or more; expected at most 1,000"
