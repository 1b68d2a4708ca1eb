# SPDX-License-Identifier: GPL-2.0-or-later
# Generated: LONGHAUL_BLESS=1 cargo test -p longhaul-python stub_is
"""
The compiled part of longhaul.
"""

from _typeshed import SupportsGetItem
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Final, SupportsFloat, SupportsIndex, final

__all__ = ["VERSION", "Ack", "Capture", "Decision", "Job", "Records", "Remote", "Scenario", "StopFlag", "Table", "Version", "add_control", "forget_connections", "load_congestion_control", "read_capture", "run", "source_hash"]

VERSION: Final[str]
"""
The version of longhaul.
"""

@final
class Ack:
    """
    One acknowledgement event: `struct cc_ack` of `cc/cc.h`.
    """
    @property
    def acked(self, /) -> int: ...
    @property
    def delivered(self, /) -> int: ...
    @property
    def delivered_ce(self, /) -> int: ...
    @property
    def delivery_rate(self, /) -> int: ...
    @property
    def in_flight(self, /) -> int: ...
    @property
    def in_recovery(self, /) -> bool: ...
    @property
    def is_app_limited(self, /) -> bool: ...
    @property
    def is_cwnd_limited(self, /) -> bool: ...
    @property
    def is_paced(self, /) -> bool: ...
    @property
    def lost(self, /) -> int: ...
    @property
    def min_rtt_us(self, /) -> int: ...
    @property
    def mss(self, /) -> int: ...
    @property
    def now_us(self, /) -> int: ...
    @property
    def paced_us(self, /) -> int: ...
    @property
    def prior_delivered(self, /) -> int: ...
    @property
    def prior_in_flight(self, /) -> int: ...
    @property
    def rtt_us(self, /) -> int: ...

@final
class Capture:
    """
    The connections of a capture.
    """
    def __len__(self, /) -> int:
        """
        The number of connections.
        """
    def curves(self, /) -> Table:
        """
        Each direction over time: how data rose, what was outstanding, the receiver's window, round trips.
        """
    def directions(self, /) -> Table:
        """
        A row for each direction of each connection.
        """
    @property
    def remarks(self, /) -> list[str]:
        """
        What is not in full in the tables, a sentence each.
        """
    @property
    def totals(self, /) -> dict[str, int]:
        """
        Packets by kind.
        """

@final
class Decision:
    """
    What shall be in force: `struct cc_decision`.
    """
    @property
    def cwnd(self, /) -> int: ...
    @cwnd.setter
    def cwnd(self, /, value: SupportsIndex) -> None: ...
    @property
    def pacing_rate(self, /) -> int: ...
    @pacing_rate.setter
    def pacing_rate(self, /, value: SupportsIndex) -> None: ...
    @property
    def ssthresh(self, /) -> int: ...
    @ssthresh.setter
    def ssthresh(self, /, value: SupportsIndex) -> None: ...

@final
class Job:
    """
    Something that is being done.
    """
    def cancel(self, /) -> None:
        """
        Ends it early; its function is still called.
        """

@final
class Records:
    """
    Records, read without their samples.
    """
    def __len__(self, /) -> int: ...
    @property
    def directories(self, /) -> list[Path]:
        """
        The directory of each.
        """
    def files(self, /) -> Table:
        """
        The files that traffic offered.
        """
    def flows(self, /) -> Table:
        """
        A row for each flow of each run.
        """
    def hops(self, /) -> Table:
        """
        A row for each TCP connection of each flow.
        """
    def intervals(self, /, by: SupportsGetItem[int, str] | None) -> Table:
        """
        Mean, deviation and 95 % confidence interval of each metric over runs that are alike in `by`: "variant", "point" or swept keys.
        """
    def links(self, /) -> Table:
        """
        A row for each direction of each link.
        """
    @staticmethod
    def open(directories: SupportsGetItem[int, str | PathLike[str]]) -> Records:
        """
        Reads the records at and below these directories, each once.
        """
    def record(self, /, index: SupportsIndex) -> tuple[Path, str, str]:
        """
        The directory of one, and its manifest and its summary as JSON.
        """
    def runs(self, /) -> Table:
        """
        A row for each run.
        """
    def series(self, /, quantities: set[str] | None = None, entities: set[str] | None = None) -> Table:
        """
        Samples over time.
        """
    def traffic(self, /) -> Table:
        """
        A row for each traffic source.
        """

@final
class Remote:
    """
    Where files are asked for.
    """
    def __new__(cls, /, *, via: SupportsGetItem[int, str] | None, ca: str | PathLike[str] | None, retries: SupportsIndex, connections: SupportsIndex, connect_timeout: SupportsFloat | SupportsIndex, stall_time: SupportsFloat | SupportsIndex, allow_downgrade: bool, allow_unknown_length: bool, save_encoded: bool) -> Remote:
        """
        `via` is a list of routes, each a text such as `d1.example.net,d2.example.org`; None: those of the user's configuration.
        `connections` bounds transfers at a time, times are in seconds.
        """
    def find(self, /, url: str, done: Callable[[Any | None, BaseException | None], object]) -> Job:
        """
        Asks what the server has.
        """
    def read(self, /, url: str, most: SupportsIndex, done: Callable[[Any | None, BaseException | None], object]) -> Job:
        """
        Reads a whole file of at most `most` bytes.
        """
    def read_range(self, /, url: str, version: Version, start: SupportsIndex, end: SupportsIndex, done: Callable[[Any | None, BaseException | None], object]) -> Job:
        """
        Reads a range of a version.
        """
    def save(self, /, url: str, path: str | PathLike[str], done: Callable[[Any | None, BaseException | None], object]) -> Job:
        """
        Copies a file; what was there before is replaced once it is whole. A copy that was not ended goes on.
        """

@final
class Scenario:
    """
    A scenario whose runs are expanded.
    """
    def __len__(self, /) -> int: ...
    @property
    def axes(self, /) -> list[tuple[str, list[str]]]:
        """
        Swept keys and their values.
        """
    def check(self, /, method: str | None) -> None:
        """
        Refuses runs that a method cannot do. Without one, only names of congestion controls are looked at.
        """
    @staticmethod
    def of_runs(runs: SupportsGetItem[int, str]) -> Scenario:
        """
        A scenario of runs that were expanded elsewhere.
        """
    @staticmethod
    def parse(text: str, name: str, set: SupportsGetItem[int, str]) -> Scenario:
        """
        Reads a scenario from its text, changed by settings such as `vars.rtt=20ms`; `name` is for messages.
        """
    @staticmethod
    def read(path: str | PathLike[str]) -> str:
        """
        The text of a scenario file.
        """
    def runs_as_json(self, /) -> list[str]:
        """
        Each run as JSON, with all values filled in.
        """
    @staticmethod
    def text_of_json(json: str) -> str:
        """
        The text of a scenario that is written as JSON.
        """
    @property
    def title(self, /) -> str: ...
    @property
    def variants(self, /) -> list[tuple[str, str]]:
        """
        Names and labels.
        """
    def with_variants(self, /, names: SupportsGetItem[int, str]) -> Scenario:
        """
        The same with these variants alone.
        """

@final
class StopFlag:
    """
    Whether runs shall end early.
    """
    def is_set(self, /) -> bool: ...

@final
class Table:
    """
    A table.
    """
    def __arrow_c_schema__(self, /) -> "object":
        """
        The columns, by Arrow's C interface.
        """
    def __arrow_c_stream__(self, /, requested_schema: Any | None = None) -> "object":
        """
        The rows, as a stream of Arrow's C interface. A reader that asks for another schema gets this one, as the interface allows.
        """
    def __len__(self, /) -> int:
        """
        How many rows there are.
        """
    @property
    def columns(self, /) -> list[str]:
        """
        The names of the columns.
        """
    @property
    def metadata(self, /) -> dict[str, dict[str, str]]:
        """
        Of each column its unit and its description.
        """
    def rows(self, /, limit: SupportsIndex | None = None) -> "list[dict[str, object]]":
        """
        The first rows, or all, as dicts.
        """

@final
class Version:
    """
    One version of a file at a server.
    """

def add_control(name: str, is_rate: bool, rule: str, place: str, sha256: str, control: type, raised: Callable[[BaseException], object]) -> str:
    """
    Takes up a class, `control`, under a name; `raised` is called with what a call raises.
    """

def forget_connections() -> None:
    """
    Lets go of the objects of all connections. No simulation may be under way with them.
    """

def load_congestion_control(path: str | PathLike[str]) -> tuple[str, str]:
    """
    Compiles a congestion control from a C file; its name in scenarios, and the compiler's warnings.
    """

def read_capture(path: str | PathLike[str], keep_curves: bool, memory_bytes: SupportsIndex) -> Capture:
    """
    Reads a capture: pcap or pcapng, plain or compressed by gzip or zstd.
    """

def run(scenario: Scenario, method: str, out: str | PathLike[str], *, jobs: SupportsIndex, again: bool, any_program: bool, keep: bool, until: SupportsFloat | SupportsIndex | None, command: SupportsGetItem[int, str], tell: Callable[[int, str, float, str], object], fetch: Callable[[str, Path, StopFlag], object] | None, prepared: tuple[str, str] | None) -> None:
    """
    Runs what is not on record in `out` yet. `tell` is called with the index of a run, what happened to it, the share of it that
    is done, and a reason or remark. `prepared` is for methods that the command `longhaul` carries out: the hash of their sources, and the
    runs as that command makes them.
    """

def source_hash(method: str) -> str:
    """
    SHA-256 over the sources that decide a method's figures: longhauls with the same one make the same records.
    """
