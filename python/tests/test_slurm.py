# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep by submitit on a real Slurm, whose jobs and whose client are killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import longhaul
import pytest
import submitit
from conftest import scenario_of
from longhaul import elsewhere
from slurm import cluster


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with cluster(tmp_path_factory.mktemp("slurm")) as file:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(file))
            yield file


def scenario(runs: int, seconds: int = 2) -> longhaul.Scenario:
    link = [{"between": ["a", "b"], "rate": "100mbit", "delay": "10ms"}]
    sweep = {"flow.file.cc": ["lh_cubic", "lh_reno"]}
    return longhaul.Scenario(scenario_of(duration=f"{seconds}s", link=link, sweep=sweep, repeat=runs // 2))


def executor(folder: Path) -> submitit.SlurmExecutor:
    made = submitit.SlurmExecutor(folder=folder, python=sys.executable)
    made.update_parameters(time=10, cpus_per_task=1, use_srun=False)
    return made


def results(records: longhaul.Records) -> dict[str, object]:
    return {record.id: record.summary for record in records}


def jobs_of_slurm() -> list[int]:
    """Processes that do a task, children of a job's step."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"submitit.core._submit" in words:
                found.append(int(entry.name))
    return found


def test_jobs_make_the_same_records(configuration: Path, tmp_path: Path) -> None:
    made = scenario(4).simulate(tmp_path / "out", executor=executor(tmp_path / "jobs"), progress=False)
    assert results(made) == results(scenario(4).simulate(progress=False))
    assert not (tmp_path / "out/sim/.finished").exists()


def test_killed_jobs_are_run_again(configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "DEAD_AFTER_S", 6.0)
    monkeypatch.setattr(elsewhere, "QUEUE_S", 2.0)
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance, killed, done = random.Random(seed), 0, threading.Event()

    def kill() -> None:
        nonlocal killed
        while killed < 3 and not done.wait(chance.uniform(0.2, 1.0)):
            if found := jobs_of_slurm():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(found), signal.SIGKILL)
                    killed += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        made = scenario(6, 60).simulate(tmp_path / "out", executor=executor(tmp_path / "jobs"), progress=False)
    finally:
        done.set()
        killer.join()
    assert killed >= 1, f"seed {seed}"
    assert results(made) == results(scenario(6, 60).simulate(progress=False))


CLIENT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_slurm import executor, scenario
scenario(6, 60).simulate({out!r}, executor=executor(Path({jobs!r})), progress=False)
"""


def test_jobs_that_never_begin_are_run_again(configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled in the queue, and killed before the first sign of life."""
    monkeypatch.setattr(elsewhere, "DEAD_AFTER_S", 4.0)
    monkeypatch.setattr(elsewhere, "QUEUE_S", 1.0)
    submitted = executor(tmp_path / "jobs")
    submit, jobs = submitted.submit, 0

    def submit_and_cancel(function: Any, *words: Any) -> Any:
        nonlocal jobs
        job: Any = submit(function, *words)
        jobs += 1
        if jobs <= 2:
            job.cancel(check=True)
        return job

    monkeypatch.setattr(submitted, "submit", submit_and_cancel)
    made = scenario(2).simulate(tmp_path / "out", executor=submitted, progress=False)
    assert jobs >= 4 and results(made) == results(scenario(2).simulate(progress=False))


def test_killed_client_continues(configuration: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = CLIENT.format(tests=str(Path(__file__).parent), out=str(out), jobs=str(tmp_path / "jobs"))
    with subprocess.Popen([sys.executable, "-c", program]) as client:
        for _ in range(600):
            if any(out.glob("sim/*/manifest.json")):
                break
            time.sleep(0.1)
        client.kill()
    before = {file: json.loads(file.read_text())["started"] for file in out.glob("sim/*/manifest.json")}
    assert 1 <= len(before) < 6
    made = scenario(6, 60).simulate(out, executor=executor(tmp_path / "jobs"), progress=False)
    assert results(made) == results(scenario(6, 60).simulate(progress=False))
    for file, started in before.items():
        assert json.loads(file.read_text())["started"] == started, "what was on record is not run again"
