# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps on executors: the same records as without, whatever is killed."""

from __future__ import annotations

import dataclasses
import functools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import longhaul
import pytest
from conftest import scenario_of
from longhaul import _longhaul, elsewhere

SPAWN = multiprocessing.get_context("spawn")


def sweep(runs: int = 8, **changes: Any) -> longhaul.Scenario:
    return longhaul.Scenario(scenario_of(sweep={"flow.file.cc": ["lh_cubic", "lh_reno"]}, repeat=runs // 2, **changes))


def results(records: longhaul.Records) -> dict[str, dict[str, Any]]:
    """What does not depend on where and when a run took place."""
    return {record.id: record.summary for record in records}


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=SPAWN)


@pytest.mark.parametrize("make", [processes, longhaul.processes(2), functools.partial(ThreadPoolExecutor, 2)])
def test_executor_makes_the_same_records(make: Any, tmp_path: Path) -> None:
    scenario = sweep()
    here = scenario.simulate(progress=False)
    with make() as executor:
        there = scenario.simulate(tmp_path, executor=executor, progress=False)
    assert results(there) == results(here)
    assert (there.directories[0] / "series.parquet").read_bytes() == (here.directories[0] / "series.parquet").read_bytes()
    assert not (tmp_path / "sim" / ".finished").exists()
    # And they are on record for the command and for this process.
    started = [record.manifest["started"] for record in there]
    assert [record.manifest["started"] for record in scenario.simulate(tmp_path, progress=False)] == started


def test_captures_come_along(tmp_path: Path) -> None:
    scenario = longhaul.Scenario(scenario_of(node=[{"name": "a", "capture": True}, {"name": "b"}]))
    with processes() as executor:
        (record,) = scenario.simulate(tmp_path, executor=executor, progress=False)
    assert len(longhaul.trace(record.directory / "a.pcapng")) == 1


def test_workers_without_the_clients_directory_send_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = elsewhere.Task
    monkeypatch.setattr(elsewhere, "Task", lambda *fields: dataclasses.replace(task(*fields), finished="/nowhere"))
    with ThreadPoolExecutor(2) as executor:
        there = sweep().simulate(tmp_path, executor=executor, progress=False)
    assert results(there) == results(sweep().simulate(progress=False))


def test_congestion_control_of_a_file_goes_to_workers(tmp_path: Path) -> None:
    file = tmp_path / "far.h"
    header = (Path(os.environ["LONGHAUL_SOURCES"]) / "cc/reno.h").read_text()
    file.write_text(header.replace("cc_reno", "cc_far").replace("(reno", "(far"))
    scenario = longhaul.Scenario(scenario_of(flow=[{"name": "file", "from": "a", "to": "b", "cc": "lh_far"}]))
    with processes() as executor:
        (record,) = scenario.simulate(tmp_path / "out", cc=[file], executor=executor, progress=False)
    assert record.manifest["congestion_controls"]["lh_far"]["file"]["name"] == "far.h"


def test_worker_of_another_longhaul_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _longhaul.source_hash("sim")
    answers = iter([real])
    monkeypatch.setattr(_longhaul, "source_hash", lambda method: next(answers, "another"))
    with ThreadPoolExecutor(1) as executor, pytest.raises(longhaul.UnsupportedError, match="another longhaul.*install the same"):
        longhaul.Scenario(scenario_of()).simulate(tmp_path, executor=executor, progress=False)


class Broken(Executor):
    """Answers what a worker's unpickling would raise, or what is no record."""

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome

    def submit(self, function: Any, /, *args: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(self.outcome, BaseException):
            future.set_exception(self.outcome)
        else:
            future.set_result(self.outcome)
        return future


@pytest.mark.parametrize(
    ("outcome", "error", "words"),
    [
        (ModuleNotFoundError("No module named 'longhaul'", name="longhaul"), longhaul.LonghaulError, "install the same"),
        (ModuleNotFoundError("No module named 'other'", name="other"), ModuleNotFoundError, "other"),
        (RuntimeError("out of memory"), RuntimeError, "out of memory"),
        ({"not": "bytes"}, longhaul.LonghaulError, "dict instead of a record"),
        (b"not a zip", Exception, "zip"),
    ],
)
def test_what_goes_wrong_at_a_worker_is_raised(outcome: object, error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        sweep().simulate(tmp_path, executor=Broken(outcome), progress=False)


def test_what_is_no_executor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="submit"):
        sweep().simulate(tmp_path, executor=3, progress=False)  # type: ignore[arg-type]


def test_names_in_records_of_workers_are_plain(tmp_path: Path) -> None:
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../outside", "x")
    with pytest.raises(longhaul.LonghaulError, match="not a plain name"):
        longhaul.Scenario(scenario_of()).simulate(tmp_path, executor=Broken(packed.getvalue()), progress=False)
    assert not list(tmp_path.rglob("outside"))


def test_a_broken_executor_is_made_anew_only_by_a_function(tmp_path: Path) -> None:
    slow = sweep(4, duration="60s", link=[{"between": ["a", "b"], "rate": "200mbit", "delay": "10ms"}])
    with pytest.raises(longhaul.LonghaulError, match="call simulate\\(\\) again"), processes() as executor:
        for _ in range(2):
            executor.submit(os.getpid).result()
        _kill_soon(executor)
        slow.simulate(tmp_path, executor=executor, progress=False)


def _kill_soon(executor: ProcessPoolExecutor) -> None:
    import threading

    workers = list(executor._processes)
    threading.Timer(0.3, os.kill, (workers[0], signal.SIGKILL)).start()


CLIENT = """
import sys
import longhaul

if __name__ == "__main__":
    scenario = longhaul.Scenario.load(sys.argv[1])
    scenario.simulate(sys.argv[2], executor=longhaul.processes(2), progress=False)
"""


def test_kills_of_workers_and_clients_lose_nothing_and_run_nothing_twice(tmp_path: Path) -> None:
    """100 kills at random times, of a worker or of the client, over a sweep of 40 runs."""
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    scenario = sweep(40, duration="8s", link=[{"between": ["a", "b"], "rate": "100mbit", "delay": "10ms"}])
    file, client, out = tmp_path / "sweep.toml", tmp_path / "client.py", tmp_path / "out"
    file.write_text(scenario.text)
    client.write_text(CLIENT)
    started: dict[str, str] = {}
    sessions: set[int] = set()
    kills, again = 0, 0
    while kills < 100:
        process = subprocess.Popen([sys.executable, client, file, out], stderr=subprocess.DEVNULL, start_new_session=True)
        sessions.add(process.pid)
        while process.poll() is None and kills < 100:
            time.sleep(chance.uniform(0.05, 1.0))
            workers = _children(process.pid)
            if workers and chance.random() < 0.7:
                _kill(chance.choice(workers))
            else:
                process.kill()
                process.wait()
            kills += 1
            again += _run_again(out, started)
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.returncode == 0:
            out.rename(tmp_path / f"out-{kills}")
            started.clear()
    assert again == 0
    subprocess.run([sys.executable, client, file, out], check=True, timeout=300)
    left = time.monotonic() + 60
    while _session(sessions) and time.monotonic() < left:
        time.sleep(0.1)
    assert not _session(sessions), "workers of killed clients"
    undisturbed = results(scenario.simulate(tmp_path / "undisturbed", progress=False))
    for whole in [out, *tmp_path.glob("out-*")]:
        assert results(longhaul.read(whole)) == undisturbed, f"seed {seed}"


def _session(leaders: set[int]) -> list[int]:
    """Processes that clients have started, with what these started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session, *_ = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(session) in leaders and state != "Z":
            found.append(int(stat.parent.name))
    return found


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _run_again(out: Path, started: dict[str, str]) -> int:
    """How many runs that were on record are there with another start."""
    again = 0
    for manifest in (out / "sim").glob("*/manifest.json"):
        try:
            told = json.loads(manifest.read_text())
        except (OSError, ValueError):
            continue
        if told["valid"]:
            again += started.setdefault(told["id"], told["started"]) != told["started"]
    return again
