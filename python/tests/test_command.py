# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs that the command makes: emulated and on hosts, here and on workers that have what they take."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import longhaul
import pytest
from conftest import scenario_of
from distributed import Client, LocalCluster
from hosts import two_hosts

WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--name", "without", "--no-dashboard"]


def small(**changes: Any) -> longhaul.Scenario:
    flow = [{"name": "file", "from": "a", "to": "b", "bytes": "300KB", "cc": "reno"}]
    link = [{"between": ["a", "b"], "rate": "20mbit", "delay": "5ms"}]
    of = scenario_of(link=link, flow=flow, node=[{"name": "a", "cc": "reno"}, {"name": "b", "cc": "reno"}], timeout="20s")
    del of["duration"]
    return longhaul.Scenario({**of, **changes})


def valid(make: Callable[[], longhaul.Records]) -> longhaul.Records:
    """A busy machine disturbs runs in real time, which then do not count."""
    for _ in range(5):
        records = make()
        if all(record.valid for record in records):
            return records
    raise AssertionError([record.manifest["invalid_reasons"] for record in records])


def test_emulated_here_and_on_record_for_both(tmp_path: Path) -> None:
    (record,) = valid(lambda: small().emulate(tmp_path, progress=False))
    assert record.manifest["method"] == "emu" and record.directory == tmp_path / record.id
    assert record.summary["flows"][0]["outcome"] == "complete"
    started = record.manifest["started"]
    # Nothing is run again: by the package, and by the command with the same scenario.
    (again,) = small().emulate(tmp_path, progress=False)
    file = tmp_path / "small.toml"
    file.write_text(small().text)
    subprocess.run([os.environ["LONGHAUL"], "lab", "run", file, "--out", tmp_path], check=True, capture_output=True)
    (by_command,) = longhaul.read(tmp_path)
    assert {again.manifest["started"], by_command.manifest["started"]} == {started}
    assert not (tmp_path / ".finished").exists()


def test_only_workers_with_the_resource_get_them(tmp_path: Path) -> None:
    settings = {"distributed.worker.multiprocessing-method": "spawn"}
    with dask.config.set(settings), LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", resources={"emu": 1}
    ) as cluster, Client(cluster) as client:
        # Another, where a run would fail: it has no command.
        with subprocess.Popen([*WORKER, cluster.scheduler_address], env={**os.environ, "LONGHAUL": "/nowhere"}) as without:
            try:
                client.wait_for_workers(2)
                executor = client.get_executor(resources={"emu": 1})
                made = valid(lambda: small(repeat=2).emulate(tmp_path, executor=executor, progress=False))
                with pytest.raises(longhaul.UnsupportedError, match="/nowhere does not run"):
                    small().emulate(executor=client.get_executor(workers=["without"]), progress=False)
            finally:
                without.terminate()
    assert len(made) == 2 and all(record.manifest["method"] == "emu" for record in made)


def test_measured_on_hosts(tmp_path: Path) -> None:
    with two_hosts(tmp_path, "20mbit", "5ms") as hosts:
        (record,) = valid(lambda: small().measure(hosts, tmp_path / "out", progress=False))
    assert record.manifest["method"] == "field" and set(record.manifest["hosts"]) == {"a", "b"}
    assert record.directory == tmp_path / "out/field" / record.id


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("/nowhere/longhaul", "does not run on .*No such file"),
        ("/bin/true", "does not have method emu: install a later longhaul"),
    ],
)
def test_worker_without_the_command(program: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGHAUL", program)
    with pytest.raises(longhaul.UnsupportedError, match=words):
        small().emulate(tmp_path, progress=False)
    monkeypatch.delenv("LONGHAUL")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(longhaul.UnsupportedError, match=f"no command longhaul on {platform.node()}: install it there"):
        small().emulate(tmp_path, progress=False)


def test_what_the_machine_lacks_is_said(tmp_path: Path) -> None:
    flow = [{"name": "file", "from": "a", "to": "b", "bytes": "300KB", "cc": "nowhere"}]
    with pytest.raises(longhaul.UnsupportedError, match="nowhere"):
        small(flow=flow).emulate(tmp_path, progress=False)


def test_worker_of_another_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses a program of another machine."""
    foreign = tmp_path / "longhaul"
    header = bytearray(Path(os.environ["LONGHAUL"]).read_bytes()[:64])
    header[18:20] = (0xF3).to_bytes(2, "little")
    foreign.write_bytes(bytes(header))
    foreign.chmod(0o755)
    monkeypatch.setenv("LONGHAUL", str(foreign))
    with pytest.raises(longhaul.UnsupportedError, match=f"does not run on .*{platform.machine()}.*Exec format error. Install"):
        small().emulate(tmp_path, progress=False)
