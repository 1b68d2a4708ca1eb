# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import longhaul
import pytest
from conftest import scenario_of


def test_records_stay_in_a_directory_and_are_not_made_again(tmp_path: Path) -> None:
    scenario = longhaul.Scenario(scenario_of(repeat=2))
    first = scenario.simulate(tmp_path, progress=False)
    started = [record.manifest["started"] for record in first]
    files = [(folder / "manifest.json").stat().st_mtime_ns for folder in first.directories]
    second = scenario.simulate(tmp_path, progress=False)
    assert started == [record.manifest["started"] for record in second]
    again = scenario.simulate(tmp_path, again=True, progress=False)
    assert files != [(folder / "manifest.json").stat().st_mtime_ns for folder in again.directories]


def test_command_and_package_make_the_same_records(tmp_path: Path) -> None:
    program = os.environ.get("LONGHAUL")
    if program is None:
        pytest.fail("LONGHAUL is not set to the program")
    scenario = longhaul.Scenario(scenario_of(repeat=2))
    file = tmp_path / "two.toml"
    file.write_text(scenario.text)
    subprocess.run([program, "sim", file, "--out", tmp_path / "out"], check=True, capture_output=True)
    ours = scenario.simulate(tmp_path / "ours", progress=False)
    theirs = longhaul.read(tmp_path / "out")
    assert [record.summary for record in ours] == [record.summary for record in theirs]
    assert [record.manifest["sources"] for record in ours] == [record.manifest["sources"] for record in theirs]
    # And each takes the other's as its own.
    before = [record.manifest["started"] for record in theirs]
    assert [record.manifest["started"] for record in scenario.simulate(tmp_path / "out", progress=False)] == before


def test_records_of_other_settings_are_kept_on_request(tmp_path: Path) -> None:
    longhaul.Scenario(scenario_of()).simulate(tmp_path, progress=False)
    longer = longhaul.Scenario(scenario_of(), set={"duration": "3s"})
    with pytest.raises(longhaul.UnsupportedError, match="other settings"):
        longer.simulate(tmp_path, keep=True, progress=False)
    assert len(longer.simulate(tmp_path, progress=False)) == 1


def test_directory_in_use_is_refused(tmp_path: Path) -> None:
    scenario = longhaul.Scenario(scenario_of(repeat=2))
    slow = longhaul.Scenario(scenario_of(duration="1000s", link=[{"between": ["a", "b"], "rate": "1gbit", "delay": "10ms"}]))
    code = (
        "import longhaul, sys; "
        "longhaul.Scenario.parse(sys.argv[1]).simulate(sys.argv[2], progress=False)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, slow.text, tmp_path])
    try:
        _until(lambda: (tmp_path / "sim" / ".sweep.jsonl").exists())
        with pytest.raises(longhaul.LonghaulError, match="another longhaul"):
            scenario.simulate(tmp_path, progress=False)
    finally:
        other.kill()
        other.wait()


def test_ctrl_c_ends_runs_and_the_program_goes_on(tmp_path: Path) -> None:
    """As in a notebook, where the process is still there afterwards, and a second Ctrl-C does no harm."""
    slow = longhaul.Scenario(scenario_of(duration="100000s", repeat=2))
    for _ in range(2):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            slow.simulate(tmp_path, progress=False)
        assert time.monotonic() - began < 60
    assert len(longhaul.Scenario(scenario_of()).simulate(tmp_path / "then", progress=False)) == 1
    assert not list(tmp_path.glob(".longhaul-*"))


def test_other_threads_run_meanwhile() -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    scenario = longhaul.Scenario(scenario_of(duration="300s", link=[{"between": ["a", "b"], "rate": "200mbit", "delay": "10ms"}]))
    scenario.simulate(progress=False, jobs=1)
    done.set()
    thread.join()
    assert counted > 5


def test_what_progress_raises_ends_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr("longhaul.progress.Progress.news", fail)
    with pytest.raises(RuntimeError, match="no more"):
        longhaul.Scenario(scenario_of(duration="100000s")).simulate(progress=False)


def test_progress_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    longhaul.Scenario(scenario_of(repeat=2)).simulate(progress=True)
    assert "2.0/2 runs" in capsys.readouterr().err


def test_temporary_records_last_as_long_as_what_uses_them() -> None:
    records = longhaul.Scenario(scenario_of()).simulate(progress=False)
    folder = records.directories[0]
    series = records.series("cwnd_segments")
    del records
    assert folder.exists() and len(series) > 0
    del series
    assert not folder.exists()


def test_congestion_control_of_a_c_file(tmp_path: Path) -> None:
    header = Path(os.environ["LONGHAUL_SOURCES"]) / "cc/reno.h"
    file = tmp_path / "mine.h"
    file.write_text(header.read_text().replace("cc_reno", "cc_filed").replace("(reno", "(filed"))
    flows = [{"name": "file", "from": "a", "to": "b", "cc": "lh_filed"}]
    mine = longhaul.Scenario(scenario_of(flow=flows)).simulate(cc=[file], progress=False)
    flows[0]["cc"] = "lh_reno"
    reno = longhaul.Scenario(scenario_of(flow=flows)).simulate(progress=False)
    assert mine[0].summary["flows"][0]["bytes"] == reno[0].summary["flows"][0]["bytes"]
    assert longhaul.load_congestion_control(file) == "lh_filed"


def test_wrong_congestion_control_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "wrong.h"
    file.write_text("int x = ;\n")
    with pytest.raises(longhaul.CongestionControlError, match="wrong.h"):
        longhaul.load_congestion_control(file)


@pytest.mark.parametrize(("keyword", "value"), [("jobs", 0), ("jobs", -1), ("until", 0.0), ("until", 2.0)])
def test_wrong_arguments_are_refused(keyword: str, value: float) -> None:
    with pytest.raises(ValueError, match=keyword):
        longhaul.Scenario(scenario_of()).simulate(**{keyword: value})  # type: ignore[arg-type]


def test_prediction_is_within_reach_of_the_simulation() -> None:
    scenario = longhaul.Scenario(scenario_of(duration="60s"))
    (predicted,) = longhaul.model(scenario).flows.rows()
    (simulated,) = scenario.simulate(progress=False).flows.rows()
    assert predicted["method"] == "model"
    assert predicted["goodput_bps"] == pytest.approx(simulated["goodput_bps"], rel=0.1)


def _until(is_so: object) -> None:
    assert callable(is_so)
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)
