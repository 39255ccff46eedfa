"""Public sets of recorded links: what each holds, its licence, and where its files are.

`ccarena traces fetch` and the catalogue in docs/traces.md read this table. A set with `by_hand` has files behind a page
that asks for a click; copies at hand are converted like downloaded ones.

Digests are of the files at the named commits of their authors' repositories.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from ccarena.errors import ConfigError, did_you_mean
from ccarena.traces.manifest import Entry, RemoteFile, manifest

__all__ = ["PublicSet", "catalogue", "find_set", "set_names"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicSet:
    """Public set of recorded links."""

    name: str
    content: str
    """Measured networks and quantities."""
    count: str
    """Number of recordings."""
    rtts: str
    """Round-trip times in it."""
    licence: str
    page: str
    """Address for people."""
    paper: str
    files: tuple[RemoteFile, ...] = ()
    """Files that can be downloaded."""
    format: str = ""
    """Format of the tables in it; empty for traces, which stay as they are."""
    members: tuple[str, ...] = ("*",)
    """Patterns of the recordings' names, in an archive or in a folder of copies."""
    by_hand: str = ""
    """Reason why files have to be downloaded by hand, and where they are; empty if none has to."""

    @property
    def bytes(self) -> int | None:
        """Returns the size of all files; None if one is unknown or has to be downloaded by hand."""
        sizes = [file.bytes for file in self.files]
        if self.by_hand or None in sizes:
            return None
        return sum(size for size in sizes if size is not None)

    @property
    def checked(self) -> str:
        """Returns how a download is checked."""
        if not self.files:
            return "by hand"
        if all(file.sha256 for file in self.files):
            return "SHA-256"
        if all(file.sha256 or file.git_blob for file in self.files):
            return "git's SHA-1"
        return "none published; recorded at first fetch"


_GITHUB = "https://raw.githubusercontent.com"


def _github(
    set_: str, repository: str, commit: str, files: Iterable[tuple[str, int | None, str]]
) -> tuple[RemoteFile, ...]:
    """Returns files of a commit from (path, size, SHA-256, or git's SHA-1 if the size is unknown)."""
    found = []
    for path, size, known in files:
        digest = {"sha256": known} if len(known) == 64 else {"git_blob": known}
        url = f"{_GITHUB}/{repository}/{commit}/{path}"
        found.append(RemoteFile(set=set_, name=path.rpartition("/")[2], url=url, bytes=size, **digest))
    return tuple(found)


_SETS = (
    PublicSet(
        name="conext-2023",
        content="Starlink Mobility and Roam, AT&T, T-Mobile and Verizon on a car, UDP throughput once a second",
        count="6 tables, sessions of up to 20 min",
        rtts="in a folder of its own (4-UDP-Ping-Latency)",
        licence="none stated",
        page="https://github.com/Starlink-Project/Satellite-vs-Cellular",
        paper="Hu et al., LEO Satellite vs. Cellular Networks (CoNEXT Companion 2023)",
        format="conext-2023",
        members=("*.csv",),
        files=_github(
            "conext-2023",
            "Starlink-Project/Satellite-vs-Cellular",
            "79f9412cf6888de1b44a87576c308a9f26539169",
            (
                (
                    "3-Thrpt-Comp/UDP/Downlink/mob_all.csv",
                    2_050_509,
                    "c24b4fa6711bad01a096ad00dd9cf009b9d718995819941c769e28610bb21827",
                ),
                (
                    "3-Thrpt-Comp/UDP/Downlink/rm_all.csv",
                    474_157,
                    "cbd18fd6ce02f001795065e869aa4561eaf76789956491814314ead5a9723da7",
                ),
                (
                    "3-Thrpt-Comp/UDP/Downlink/att_all.csv",
                    2_591_231,
                    "cbcd1e8a525b2b9594bb88b3a4244738a6c4610fb2bb6aac6bc5a0e7aab27653",
                ),
                (
                    "3-Thrpt-Comp/UDP/Downlink/tm_all.csv",
                    2_456_974,
                    "667695358ff0825aa8ccafdd7f6508e430f498aa5a9c37576d0e59a5d9d7f9a0",
                ),
                (
                    "3-Thrpt-Comp/UDP/Downlink/vz_all.csv",
                    2_465_863,
                    "cd1e827ae7671ffcb8bcff21933b1df54eb10b9f643fa56b6957151a2351652c",
                ),
                (
                    "3-Thrpt-Comp/UDP/Uplink/mob_all_area.csv",
                    462_199,
                    "b34a8e07eef2339d0d482104297284bb0fa999664f4e197a0f1548f43aab39a8",
                ),
            ),
        ),
    ),
    PublicSet(
        name="leocc",
        content="Starlink, rate each millisecond and one-way delay each 10 ms",
        count="1 recording of 120 s; 4,800 more by hand",
        rtts="in each recording",
        licence="MIT",
        page="https://github.com/SpaceNetLab/LeoCC/tree/main/traces",
        paper="Lai et al., LeoCC (SIGCOMM 2025)",
        format="leocc",
        members=("bw_*.txt",),
        by_hand="all recordings are at https://cloud.tsinghua.edu.cn/d/9fc6fd096e764f57bd25/, which asks for a click",
        files=_github(
            "leocc",
            "SpaceNetLab/LeoCC",
            "867e67399094b1ff1439fcd693f61c8fe31fe160",
            (
                (
                    "leoreplayer/replayer/example/Cubic/bw_example.txt",
                    2_965_847,
                    "a99ded2c73aaf24be50bd03b2ff6e2c1b8bde09b5bb4c705b08e9ef3fc4212e2",
                ),
                (
                    "leoreplayer/replayer/example/Cubic/delay_example.txt",
                    33_464,
                    "53fe96e652cfa9f8e1ae08ebf0a39c4e3a0b2c0849dd7f827476e0450e0483f2",
                ),
            ),
        ),
    ),
    PublicSet(
        name="cellreplay",
        content="5G of T-Mobile and Verizon at rest, walking and driving: packet trains, and opportunities under load",
        count="an archive",
        rtts="in the packet trains",
        licence="GPL-3.0",
        page="https://github.com/williamsentosa95/cellreplay",
        paper="Sentosa et al., CellReplay (NSDI 2025)",
        members=("*/up-pdo", "*/down-pdo"),
        files=_github(
            "cellreplay",
            "williamsentosa95/cellreplay",
            "2ca662cb01a222dd7fcc10f9ed79293803b4ef21",
            (("traces/cellular-traces.zip", None, "3bd230229547c05f7be80d4a6b2495d30f6621f0"),),
        ),
    ),
    PublicSet(
        name="irish-5g",
        content="5G of an Irish carrier at rest and driving, downloads, once a second",
        count="an archive of tables; those of downloads are converted",
        rtts="a column of the tables (PINGAVG)",
        licence="GPL-3.0",
        page="https://github.com/uccmisl/5Gdataset",
        paper="Raca et al., Beyond Throughput, The Next Generation (MMSys 2020)",
        format="irish-5g",
        members=("*/Download/*.csv",),
        files=_github(
            "irish-5g",
            "uccmisl/5Gdataset",
            "306d92eba81cb4f1195d8b8eba625666a02a10ec",
            (
                (
                    "5G-production-dataset.zip",
                    2_177_094,
                    "abc729d696b5e0ba34a9c6ed35a851f2868d2b5071be5efb8a49691c23bb1a9b",
                ),
            ),
        ),
    ),
    PublicSet(
        name="mtu-5g",
        content="5G without a standalone core in Cork, uplink, at rest and driving, every 3 s",
        count="5 tables",
        rtts="none",
        licence="none stated",
        page="https://github.com/MTU-Insectt/Measurements5G",
        paper="Munster Technological University, InSecTT project",
        format="mtu-5g",
        members=("*.csv",),
        files=_github(
            "mtu-5g",
            "MTU-Insectt/Measurements5G",
            "ab9e549ecfe826a5e1c8492ff6273234473a7015",
            (
                (
                    "cleaned/Data5G_110822.csv",
                    69_838,
                    "40b4db25b89e0db72f22186f41a9f77f1d385baa23519df9de47740d7f1349a7",
                ),
                (
                    "cleaned/Data5G_151221.csv",
                    27_897,
                    "6e82a906c09f542abbad9eb7c3d836b45321dc24c267eed515b875e2b4e62ea3",
                ),
                (
                    "cleaned/Data5G_171221.csv",
                    47_547,
                    "b21ab6254d0f11619c470d2a8dda2423f9f7703d72d7f73daed91eb4857af832",
                ),
                (
                    "cleaned/Data5G_static4Gonly_110122.csv",
                    45_696,
                    "7ee86edf9592ab65bc824aa9d68acaefdfeac3d20d7df6f08d096cbe73d4eceb",
                ),
                (
                    "cleaned/Data5G_static5G_070322.csv",
                    33_549,
                    "8aeb25b0a6233c7006852b2ef20e172151e05918079952d25586b8ea8d5a4ba4",
                ),
            ),
        ),
    ),
    PublicSet(
        name="lumos5g",
        content="5G at 28 and 39 GHz in Minneapolis, walking and driving, throughput once a second",
        count="tables of three areas",
        rtts="none",
        licence="as its page says",
        page="https://lumos5g.umn.edu",
        paper="Narayanan et al., Lumos5G (IMC 2020)",
        members=("*.csv",),
        by_hand="the page asks who downloads; `ccarena traces convert --rate COLUMN` reads its tables",
    ),
    PublicSet(
        name="fcc",
        content="Measuring Broadband America: cable, DSL, fibre and satellite at home",
        count="archives of several GB a month",
        rtts="tables of their own (curr_udplatency)",
        licence="public domain (US government)",
        page="https://www.fcc.gov/oet/mba/raw-data-releases",
        paper="FCC, Measuring Broadband America",
        members=("*.csv",),
        by_hand="each release is a choice on the page; `ccarena traces convert --rate COLUMN` reads its tables",
    ),
    PublicSet(
        name="norway-3g",
        content="3G/HSDPA in Oslo on bus, metro, tram, ferry, car and train, TCP throughput about once a second",
        count="logs of 11 routes",
        rtts="none",
        licence="free for research, with a citation",
        page="https://datasets.simula.no/hsdpa-tcp-logs/",
        paper="Riiser et al., Commute Path Bandwidth Traces from 3G Networks (MMSys 2013)",
        format="hsdpa",
        members=("*.log", "report*"),
        by_hand="the page has a list of logs for each route, and no archive of them",
    ),
)


@functools.cache
def catalogue() -> tuple[PublicSet, ...]:
    """Returns all public sets: those of the manifest, which are traces already, then the others."""
    mahimahi = PublicSet(
        name="mahimahi",
        content="LTE, EV-DO and UMTS of US carriers, driving and at rest, both directions",
        count=str(len(_of_manifest("mahimahi"))),
        rtts="none",
        licence=_of_manifest("mahimahi")[0].licence,
        page="https://github.com/ravinet/mahimahi/tree/master/traces",
        paper="Winstein et al., Sprout (NSDI 2013)",
        files=_of_manifest("mahimahi"),
    )
    nyc = PublicSet(
        name="nyc-lte",
        content="LTE in New York: at home, walking, in buses and taxis",
        count=str(len(_of_manifest("nyc-lte"))),
        rtts="none",
        licence=_of_manifest("nyc-lte")[0].licence,
        page="https://github.com/Soheil-ab/Cellular-Traces-NYC",
        paper="Abbasloo et al., Classic Meets Modern (Orca, SIGCOMM 2020)",
        files=_of_manifest("nyc-lte"),
    )
    return (mahimahi, nyc, *_SETS)


def set_names() -> list[str]:
    """Returns the names of all public sets, in the catalogue's order."""
    return [known.name for known in catalogue()]


def find_set(name: str) -> PublicSet:
    """Returns the set called `name`. Raises ConfigError, naming the nearest, if there is none."""
    for known in catalogue():
        if known.name == name:
            return known
    raise ConfigError(f'unknown trace set "{name}"{did_you_mean(name, set_names())}')


def _of_manifest(name: str) -> tuple[Entry, ...]:
    return tuple(entry for entry in manifest() if entry.set == name)
