# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios that several tests use."""

from __future__ import annotations

from typing import Any

import fsspec
import longhaul
import pytest
from longhaul.files import LonghaulFileSystem

# As the installed package does; here it is only found by its path.
for protocol in LonghaulFileSystem.protocol:
    fsspec.register_implementation(protocol, LonghaulFileSystem, clobber=True)


def scenario_of(**changes: Any) -> dict[str, Any]:
    """Two hosts, a link of 10 Mbit/s and 20 ms, one flow for 2 s."""
    return {
        "title": "two hosts",
        "duration": "2s",
        "node": [{"name": "a"}, {"name": "b"}],
        "link": [{"between": ["a", "b"], "rate": "10mbit", "delay": "10ms"}],
        "flow": [{"name": "file", "from": "a", "to": "b", "cc": "lh_cubic"}],
        **changes,
    }


@pytest.fixture(scope="session")
def swept() -> longhaul.Records:
    """Two round trips and two congestion controls, each three times."""
    sweep = {"link.a-b.delay": ["5ms", "20ms"], "flow.file.cc": ["lh_cubic", "lh_reno"]}
    return longhaul.Scenario(scenario_of(sweep=sweep, repeat=3)).simulate(progress=False)
