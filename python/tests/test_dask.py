# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep on a real Dask scheduler with two workers, which are killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import dask
import longhaul
import pytest
from conftest import scenario_of
from distributed import Client, LocalCluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    # A worker that is killed is no fault of its task.
    settings = {"distributed.scheduler.allowed-failures": 100, "distributed.worker.multiprocessing-method": "spawn"}
    with dask.config.set(settings):
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
            yield cluster


def test_killed_workers_change_nothing(cluster: LocalCluster, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    scenario = longhaul.Scenario(
        scenario_of(
            duration="20s",
            link=[{"between": ["a", "b"], "rate": "200mbit", "delay": "10ms"}],
            sweep={"flow.file.cc": ["lh_cubic", "lh_reno"]},
            repeat=20,
        )
    )
    done = threading.Event()
    killed = 0

    def kill() -> None:
        nonlocal killed
        while killed < 10 and not done.wait(chance.uniform(0.3, 1.5)):
            workers = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
            if workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(workers), signal.SIGKILL)
                    killed += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with Client(cluster) as client:
            records = scenario.simulate(tmp_path, executor=client.get_executor(), progress=False)
    finally:
        done.set()
        killer.join()
    assert killed >= 1, f"seed {seed}"
    undisturbed = scenario.simulate(progress=False)
    assert {record.id: record.summary for record in records} == {record.id: record.summary for record in undisturbed}
