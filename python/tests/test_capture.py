# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from pathlib import Path

import longhaul
import pytest
from conftest import scenario_of


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = [{"name": "a", "capture": True}, {"name": "b"}]
    scenario = longhaul.Scenario(scenario_of(node=nodes))
    records = scenario.simulate(tmp_path_factory.mktemp("capture"), progress=False)
    return records.directories[0] / "a.pcapng"


def test_capture_of_a_simulation_has_its_transfer(captured: Path) -> None:
    capture = longhaul.trace(captured)
    assert len(capture) == 1 and not capture.remarks
    data = max(capture.directions.rows(), key=lambda row: row["payload_bytes"])
    assert data["capture_point"] == "sender"
    assert data["rtt_min_us"] == pytest.approx(20_000, rel=0.1)
    assert capture.totals["tcp_packets"] > 1000
    assert not [column for column, known in capture.directions.metadata.items() if "description" not in known]


def test_curves_on_request(captured: Path) -> None:
    assert len(longhaul.trace(captured).curves) == 0
    curves = longhaul.trace(captured, curves=True).curves.to_pandas()
    assert set(curves["quantity"]) == {"sent_bytes", "outstanding_bytes", "window_bytes", "rtt_us"}
    sent = curves[curves["quantity"] == "sent_bytes"]
    assert sent["time_s"].is_monotonic_increasing and sent["highest"].max() > 1e6


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("not a capture, though it is long enough to be looked at\n")
    with pytest.raises(longhaul.CaptureError, match="text"):
        longhaul.trace(file)
    with pytest.raises(FileNotFoundError):
        longhaul.trace(tmp_path / "none")
    with pytest.raises(ValueError, match="memory"):
        longhaul.trace(file, memory=1)


def test_capture_that_ends_early_says_so(captured: Path, tmp_path: Path) -> None:
    file = tmp_path / "cut.pcapng"
    file.write_bytes(captured.read_bytes()[:-10])
    assert any("not read" in remark for remark in longhaul.trace(file).remarks)
