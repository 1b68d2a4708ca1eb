# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul import _longhaul
from longhaul import control
from longhaul.elsewhere import Carried, Executor, Fetcher
from longhaul.control import Control, load_congestion_control
from longhaul.errors import CongestionControlError, ScenarioError
from longhaul.records import PathLike, Records, open_records
from longhaul.progress import Progress

MOST_TASKS = 256
"""That an executor has at a time, unless `jobs` says otherwise: each takes a thread here."""

Settings = Mapping[str, object] | Iterable[str]


class Run:
    """One run of a scenario, with all values filled in."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    @property
    def id(self) -> str:
        """Its name, unique in the scenario."""
        return str(self._values["id"])

    @property
    def variant(self) -> str | None:
        """The variant's name; None in a scenario without variants."""
        variant = self._values.get("variant")
        return None if variant is None else str(variant["name"])

    @property
    def point(self) -> dict[str, str]:
        """The values of the swept keys."""
        return {str(axis["key"]): str(axis["value"]) for axis in self._values["point"]}

    @property
    def repeat(self) -> int:
        """Counts the repeats of a variant at a point, from 1."""
        return int(self._values["repeat"])

    @property
    def seed(self) -> int:
        """Seed of its random numbers."""
        return int(self._values["seed"])

    def to_dict(self) -> dict[str, Any]:
        """All of its values, as in a record's manifest."""
        return dict(self._values)

    def __repr__(self) -> str:
        return f"<Run {self.id}>"


class Scenario:
    """A scenario (docs/scenario.md): from a file by `load`, from a text by `parse`, from a dict by `Scenario({...})`.

    `set` changes keys, as `--set` does: `{"vars.rtt": "20ms"}` or `["vars.rtt=20ms"]`.
    """

    def __init__(self, values: Mapping[str, Any], *, set: Settings = (), name: str = "scenario") -> None:
        try:
            text = json.dumps(values, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ScenarioError(f"{name}: {error}: a scenario has texts, numbers, booleans, lists and dicts") from error
        self._take(_longhaul.Scenario.text_of_json(text), name, _settings(set), [])

    @classmethod
    def load(cls, path: PathLike, *, set: Settings = ()) -> Scenario:
        """Reads a scenario file. Raises ScenarioError, which names all problems by line."""
        return cls.parse(_longhaul.Scenario.read(path), set=set, name=os.fspath(path))

    @classmethod
    def parse(cls, text: str, *, set: Settings = (), name: str = "scenario") -> Scenario:
        """Reads a scenario from the text of a file."""
        return _parsed(text, name, _settings(set), [])

    def _take(self, text: str, name: str, settings: list[str], variants: list[str]) -> None:
        self._parsed_from = (text, name, settings, variants)
        self._inner = _longhaul.Scenario.parse(text, name, settings)
        if variants:
            self._inner = self._inner.with_variants(variants)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_parsed, self._parsed_from)

    @property
    def title(self) -> str:
        """The title."""
        return self._inner.title

    @property
    def text(self) -> str:
        """The scenario as TOML, before `set`."""
        return self._parsed_from[0]

    @property
    def variants(self) -> dict[str, str]:
        """Names and labels of the variants; empty without any."""
        return dict(self._inner.variants)

    @property
    def axes(self) -> dict[str, list[str]]:
        """The swept keys and their values."""
        return dict(self._inner.axes)

    def only(self, *variants: str) -> Scenario:
        """The same with these variants alone."""
        text, name, settings, _ = self._parsed_from
        return _parsed(text, name, settings, list(variants))

    def runs(self) -> list[Run]:
        """All runs, in the order in which they take place."""
        return [Run(json.loads(run)) for run in self._inner.runs_as_json()]

    def check(self, method: str | None = None) -> None:
        """Raises UnsupportedError if a method (`"sim"`, `"model"`) cannot do a run, or names of congestion controls are unknown."""
        self._inner.check(method)

    def simulate(
        self,
        out: PathLike | None = None,
        *,
        jobs: int | None = None,
        cc: Iterable[Control] = (),
        again: bool = False,
        any_program: bool = False,
        keep: bool = False,
        until: float | None = None,
        progress: bool | None = None,
        executor: Executor | None = None,
    ) -> Records:
        """Simulates all runs, and answers their records.

        `out` is the directory for records: runs that are on record there are not made again, unless `again`, and records of the
        scenario with other settings are replaced, unless `keep` refuses that. Without it, records last as long as what is returned.
        `jobs` is the number of runs at the same time (all processors), `cc` has congestion controls: subclasses of
        `CongestionControl`, or C files. `until` leaves out further repeats once the interval of the mean goodput is within this share
        of it, and `any_program` also takes records of another version. Ctrl-C ends the runs; what was finished stays in `out`.

        `executor` has the runs done elsewhere, one task each: an executor of `concurrent.futures`, of Dask (`client.get_executor()`) or
        of submitit, or a function that makes one, which is called again if the executor breaks. `jobs` is then the number of tasks
        that it has at a time (all, but at most 256).
        """
        controls = list(cc)
        for each in controls:
            load_congestion_control(each)
        rules = _Rules(again, any_program, keep, until, progress)
        try:
            return self._run("sim", out, rules, jobs, executor, controls=controls)
        except CongestionControlError as error:
            raise error from control.raised()
        finally:
            control.ended()

    def emulate(
        self,
        out: PathLike | None = None,
        *,
        jobs: int | None = None,
        again: bool = False,
        any_program: bool = False,
        keep: bool = False,
        until: float | None = None,
        progress: bool | None = None,
        executor: Executor | None = None,
    ) -> Records:
        """Emulates all runs with the kernel's TCP, by the command `longhaul`, which needs root.

        The command is that of this machine, or with an `executor` that of each worker. A machine makes one run at a time, whatever
        `jobs` is.
        """
        rules = _Rules(again, any_program, keep, until, progress)
        return self._run("emu", out, rules, jobs or (None if executor else 1), executor or _threads)

    def measure(
        self,
        hosts: PathLike,
        out: PathLike | None = None,
        *,
        again: bool = False,
        any_program: bool = False,
        keep: bool = False,
        until: float | None = None,
        progress: bool | None = None,
        executor: Executor | None = None,
    ) -> Records:
        """Makes all runs on the hosts that the file `hosts` names (docs/field.md), one after another, by the command `longhaul`.

        The command is that of this machine, or with an `executor` that of a worker, which reads the same file and reaches the hosts by
        ssh.
        """
        rules = _Rules(again, any_program, keep, until, progress)
        return self._run("field", out, rules, 1, executor or _threads, hosts=os.path.abspath(hosts))

    def predict(self, out: PathLike | None = None) -> Records:
        """Predicts all runs by closed forms (docs/model.md). Flows that no form is for have no goodput."""
        return self._run("model", out, _Rules(progress=False), 1, None)

    def _run(
        self,
        method: str,
        out: PathLike | None,
        rules: _Rules,
        jobs: int | None,
        executor: Executor | None,
        *,
        controls: Iterable[Control] = (),
        hosts: str | None = None,
    ) -> Records:
        if jobs is None:
            jobs = (os.cpu_count() or 1) if executor is None else min(len(self) or 1, MOST_TASKS)
        if jobs < 1:
            raise ValueError(f"jobs={jobs}: at least 1")
        keeper = _TemporaryDirectory() if out is None else None
        directory = keeper.path if keeper is not None else Path(out or ".")
        folder = directory if method == "emu" else directory / method
        runs = self._inner.runs_as_json()
        ids = [Run(json.loads(run)).id for run in runs]
        shown = Progress(ids, rules.progress)
        fetcher = None
        try:
            if executor is not None:
                finished = (folder / ".finished").absolute()
                carried = [Carried.of(each) for each in controls]
                fetcher = Fetcher(executor, method, carried, hosts, sys.argv, finished)
                if rules.again:
                    fetcher.forget()
            _longhaul.run(
                self._inner,
                method,
                directory,
                jobs=jobs,
                again=rules.again,
                any_program=rules.any_program,
                keep=rules.keep,
                until=rules.until,
                command=sys.argv,
                tell=shown.news,
                fetch=None if fetcher is None else fetcher.fetch,
                prepared=None if fetcher is None else fetcher.prepare(runs),
            )
            if fetcher is not None:
                fetcher.forget()
        finally:
            shown.close()
            if fetcher is not None:
                fetcher.close()
        found = [folder / run for run in ids]
        return open_records((place for place in found if place.exists()), keeper)

    def __len__(self) -> int:
        return len(self._inner)

    def __repr__(self) -> str:
        return f"<Scenario {self.title!r}: {len(self)} runs>"


@dataclass(frozen=True)
class _Rules:
    """Which runs are made, and whether progress is shown."""

    again: bool = False
    any_program: bool = False
    keep: bool = False
    until: float | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.until is not None and not 0 < self.until < 1:
            raise ValueError(f"until={self.until}: a share above 0 and below 1, as 0.05")


def _threads() -> ThreadPoolExecutor:
    """For runs that the command of this machine makes."""
    return ThreadPoolExecutor(1)


class _TemporaryDirectory:
    """A directory that goes with the last of what refers to this, without a word."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="longhaul-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _parsed(text: str, name: str, settings: list[str], variants: list[str]) -> Scenario:
    scenario = Scenario.__new__(Scenario)
    scenario._take(text, name, settings, variants)
    return scenario


def model(scenario: Scenario, out: PathLike | None = None) -> Records:
    """The same as `scenario.predict(out)`."""
    return scenario.predict(out)


def _settings(settings: Settings) -> list[str]:
    if isinstance(settings, str):
        raise TypeError(f"set={settings!r}: a dict such as {{'vars.rtt': '20ms'}}, or a list of KEY=VALUE")
    if not isinstance(settings, Mapping):
        return [str(item) for item in settings]
    return [f"{key}={_toml(value)}" for key, value in settings.items()]


def _toml(value: object) -> str:
    """A value as `--set` takes it: texts as they are, all else as TOML."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_inner_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_inner_toml(item) for item in value) + "]"
    return json.dumps(value)


def _inner_toml(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else _toml(value)
