# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios of long, fat networks: simulated in this process, read from records, predicted by models; captures analysed.

    import longhaul
    records = longhaul.Scenario.load("compare.toml").simulate()
    print(records.intervals().to_pandas())

Tables (`longhaul.Table`) are Arrow streams, which pandas, polars and pyarrow read. `docs/python.md` is the guide.
"""

from longhaul._longhaul import VERSION as __version__
from longhaul._longhaul import Ack, Decision
from longhaul.capture import Capture, trace
from longhaul.control import CongestionControl, load_congestion_control
from longhaul.elsewhere import processes
from longhaul.errors import (
    CaptureError,
    CongestionControlError,
    LonghaulError,
    Problem,
    RecordError,
    ScenarioError,
    TransferError,
    UnsupportedError,
    VersionError,
)
from longhaul.records import Record, Records, read
from longhaul.scenario import Run, Scenario, model
from longhaul.table import Table

__all__ = [
    "Ack",
    "Capture",
    "CaptureError",
    "CongestionControl",
    "CongestionControlError",
    "Decision",
    "LonghaulError",
    "Problem",
    "Record",
    "RecordError",
    "Records",
    "Run",
    "Scenario",
    "ScenarioError",
    "Table",
    "TransferError",
    "UnsupportedError",
    "VersionError",
    "__version__",
    "load_congestion_control",
    "model",
    "processes",
    "read",
    "trace",
]
