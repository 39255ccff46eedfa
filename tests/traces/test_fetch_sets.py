"""Public sets against a real HTTP server on this machine: fetched, unpacked, converted, refused; and the catalogue."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: public sets not tested (run make)")

from ccarena.errors import ConfigError, DownloadError
from ccarena.traces import conditions, fetch_sets, files
from ccarena.traces.fetch import FIRST_FETCH
from ccarena.traces.manifest import RemoteFile
from ccarena.traces.public_sets import PublicSet, catalogue, find_set
from docs.generate import traces as docs

TABLE = b"time,throughput,speed\n" + b"".join(b"2023-04-12 10:40:%02d CDT,%d,9\n" % (k, 50 + k) for k in range(30))
LATER = TABLE + b"".join(b"2023-04-13 10:40:%02d CDT,%d,9\n" % (k, 20 + k) for k in range(20))


def packed(members: dict[str, bytes]) -> bytes:
    """An archive with these members."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


class Server(ThreadingHTTPServer):
    """Serves `content` by path; a path that is missing is a 404."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content: dict[str, bytes] = {}
        self.short = False

    def set(self, name: str, content: bytes, checked: bool = True, **changes: Any) -> PublicSet:
        """A set of one file."""
        self.content[name] = content
        sha256 = hashlib.sha256(content).hexdigest()
        known: dict[str, Any] = {"bytes": len(content), "sha256": sha256} if checked else {}
        file = RemoteFile(set="s", name=name, url=f"http://127.0.0.1:{self.server_port}/{name}", **known)
        texts = dict.fromkeys(("content", "count", "rtts", "licence", "page", "paper"), "")
        fields = {"format": "conext-2023", "members": ("*.csv",), "files": (file,), **changes}
        return PublicSet(name="s", **{**texts, **fields})


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.server.content.get(self.path.removeprefix("/"))
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.server.short else body)

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def fetch(known: PublicSet, to: Path, source: Path | None = None) -> fetch_sets.FetchedSet:
    return fetch_sets.fetch_set("s", to, source, known=known, retry_wait_s=0.001)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_table_becomes_a_conditions_trace_per_session(server: Server, tmp_path: Path) -> None:
    known = server.set("mob.csv", LATER)
    done = fetch(known, tmp_path)
    assert [file.action for file in done.files] == ["downloaded"]
    assert names(tmp_path) == ["s/.originals/mob.csv", "s/mob-1.csv", "s/mob-2.csv"]
    first = conditions.load(tmp_path / "s" / "mob-1.csv")
    assert first.columns["rate_mbps"][:3].tolist() == [[0, 50], [1000, 51], [2000, 52]]
    assert first.period_ms == 30_000
    server.content.clear()
    assert [file.action for file in fetch(known, tmp_path).files] == ["present"]


def test_an_archive_is_unpacked_by_its_members(server: Server, tmp_path: Path) -> None:
    archive = packed({"set/Download/a.csv": TABLE, "set/Video/b.csv": TABLE, "__MACOSX/Download/c.csv": b"junk"})
    done = fetch(server.set("all.zip", archive, members=("*/Download/*.csv",)), tmp_path)
    assert [path.name for path in done.converted] == ["set-Download-a.csv"]
    assert names(tmp_path) == ["s/.originals/all.zip", "s/set-Download-a.csv"]


def test_a_member_outside_the_folder_stays_inside(server: Server, tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("../../outside.csv", TABLE)
    done = fetch(server.set("all.zip", data.getvalue()), tmp_path)
    assert all(path.parent == tmp_path / "s" for path in done.converted)
    assert names(tmp_path.parent / tmp_path.name) == ["s/..-..-outside.csv", "s/.originals/all.zip"]


def test_traces_in_an_archive_stay_traces(server: Server, tmp_path: Path) -> None:
    known = server.set("all.zip", packed({"x/down-pdo": b"1\n2\n2\n9\n"}), format="", members=("*/down-pdo",))
    fetch(known, tmp_path)
    assert files.load(tmp_path / "s" / "x-down-pdo").tolist() == [1, 2, 2, 9]


def test_leocc_recordings_have_rate_and_delay(server: Server, tmp_path: Path) -> None:
    source = tmp_path / "copies" / "A" / "1"
    source.mkdir(parents=True)
    (source / "bw_1.txt").write_text("0\n0\n3\n11\n29\n")
    (source / "delay_1.txt").write_text("24\n18\n20\n")
    known = dataclasses.replace(find_set("leocc"), name="s")
    fetch(known, tmp_path / "to", tmp_path / "copies")
    got = conditions.load(tmp_path / "to" / "s" / "A-1-bw_1.csv")
    # The trace repeats after 29 ms, so that its first two opportunities come again then.
    assert got.columns["rate_mbps"].tolist() == [[0, 3.6], [10, 1.2], [20, 3.6]]
    assert got.columns["delay_ms"].tolist() == [[0, 24], [10, 18], [20, 20]]
    (source / "delay_1.txt").unlink()
    with pytest.raises(DownloadError, match="there is no file of its delays beside it"):
        fetch(known, tmp_path / "other", tmp_path / "copies")


def test_without_a_published_digest_the_first_fetch_is_trusted(server: Server, tmp_path: Path) -> None:
    known = server.set("mob.csv", TABLE, checked=False)
    fetch(known, tmp_path)
    record = tmp_path / "s" / ".originals" / FIRST_FETCH
    assert json.loads(record.read_text())["mob.csv"]["sha256"] == hashlib.sha256(TABLE).hexdigest()
    assert [file.action for file in fetch(known, tmp_path).files] == ["present"]
    (tmp_path / "s" / ".originals" / "mob.csv").unlink()
    server.content["mob.csv"] = TABLE.replace(b"50", b"99")
    with pytest.raises(DownloadError, match=r"has SHA-256 .* expected"):
        fetch(known, tmp_path)
    assert not (tmp_path / "s" / ".originals" / "mob.csv").exists()


def test_a_git_blob_is_a_checksum(server: Server, tmp_path: Path) -> None:
    server.set("mob.csv", TABLE)
    blob = hashlib.sha1(b"blob %d\0" % len(TABLE) + TABLE).hexdigest()
    file = RemoteFile(set="s", name="mob.csv", url=f"http://127.0.0.1:{server.server_port}/mob.csv", git_blob=blob)
    known = dataclasses.replace(server.set("mob.csv", TABLE), files=(file,))
    assert fetch(known, tmp_path).converted
    other = dataclasses.replace(known, files=(dataclasses.replace(file, git_blob="0" * 40),))
    with pytest.raises(DownloadError, match=r"is git's blob .* expected 0000"):
        fetch(other, tmp_path / "other")
    assert names(tmp_path / "other") == []


def test_wrong_checksum_404_and_a_cut_transfer_leave_no_file(server: Server, tmp_path: Path) -> None:
    wrong = server.set("mob.csv", TABLE)
    server.content["mob.csv"] = TABLE.replace(b"50", b"51")
    with pytest.raises(DownloadError, match="nothing was installed under its name"):
        fetch(wrong, tmp_path)
    server.content.clear()
    with pytest.raises(DownloadError, match="the server answered 404"):
        fetch(wrong, tmp_path)
    cut = server.set("mob.csv", TABLE, checked=False)
    server.short = True
    with pytest.raises(DownloadError, match="the connection ended after"):
        fetch(cut, tmp_path)
    assert [name for name in names(tmp_path) if not name.endswith(".part")] == []


@pytest.mark.parametrize(
    "damage", [b"PK\x03\x04 nothing else", packed({"a.csv": TABLE * 50})[:-30], b"not packed at all"]
)
def test_a_broken_archive_is_named(server: Server, tmp_path: Path, damage: bytes) -> None:
    with pytest.raises(DownloadError, match=r"all\.zip: (the archive is broken|no zip archive).*fetch it again"):
        fetch(server.set("all.zip", damage), tmp_path)
    assert names(tmp_path) == ["s/.originals/all.zip"]


def test_a_member_that_is_no_recording_is_named(server: Server, tmp_path: Path) -> None:
    bad = packed({"Download/a.csv": b"time,throughput\n2023-04-12 10:40:20 CDT,fast\n"})
    with pytest.raises(DownloadError, match=r'Download/a\.csv: ?2: column "throughput" is "fast"'):
        fetch(server.set("all.zip", bad), tmp_path)


def test_a_full_disk_leaves_nothing_half(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ccarena.traces.fetch_sets.shutil.copyfileobj", full)
    with pytest.raises(DownloadError, match=r"cannot unpack all\.zip: No space left on device; make room or use --to"):
        fetch(server.set("all.zip", packed({"a.csv": TABLE})), tmp_path)
    assert names(tmp_path) == ["s/.originals/all.zip"]


def test_an_interruption_leaves_nothing_half(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    known = server.set("all.zip", packed({"a.csv": TABLE, "b.csv": TABLE}))
    monkeypatch.setattr("ccarena.traces.conditions.write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(known, tmp_path)
    assert names(tmp_path) == ["s/.originals/all.zip"]
    monkeypatch.undo()
    assert len(fetch(known, tmp_path).converted) == 2


def test_a_set_behind_a_click_says_so(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r'set "norway-3g" cannot be fetched: .*--from DIR`'):
        fetch_sets.fetch_set("norway-3g", tmp_path)
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "report.log").write_text(
        "1289406399 549893 59.8 10.7 215500 1000\n1289406400 1 1 1 9 1000\n"
    )
    done = fetch_sets.fetch_set("norway-3g", tmp_path / "to", tmp_path / "copies")
    assert [path.name for path in done.converted] == ["report.csv"]
    (tmp_path / "to" / "norway-3g" / "deep").mkdir()
    with pytest.raises(DownloadError, match="no recording in"):
        fetch_sets.fetch_set("norway-3g", tmp_path / "none", tmp_path / "to" / "norway-3g" / "deep")
    with pytest.raises(DownloadError, match="there is no such folder"):
        fetch_sets.fetch_set("norway-3g", tmp_path / "none", tmp_path / "absent")


def test_originals_are_no_traces(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".originals").mkdir()
    (tmp_path / ".originals" / "delay_1.txt").write_text("24\n25\n")
    assert files.in_folder(tmp_path) == []


def test_the_catalogue_is_sound_and_in_the_page() -> None:
    sets = catalogue()
    assert {"leocc", "cellreplay", "irish-5g", "lumos5g", "mtu-5g", "conext-2023", "fcc", "norway-3g"} <= {
        known.name for known in sets
    }
    for known in sets:
        assert known.page.startswith("https://") and known.licence and known.content and known.rtts
        assert known.files or known.by_hand
        for file in known.files:
            assert file.set == known.name and file.url.startswith("https://")
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256) or re.fullmatch(r"[0-9a-f]{40}", file.git_blob)
    with pytest.raises(ConfigError, match='did you mean "leocc"'):
        find_set("leoc")
    page = (Path(__file__).parents[2] / "docs" / "traces.md").read_text("utf-8")
    assert page.endswith(docs.markdown()), "run `make docs`"
