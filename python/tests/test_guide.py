# SPDX-License-Identifier: GPL-2.0-or-later
"""The guide's examples, one after the other in one program, as a reader would run them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest


def test_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(os.environ["LONGHAUL_SOURCES"]) / "docs/python.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", guide, re.M | re.S)
    assert len(examples) >= 3
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "docs/python.md", "exec"), names)
    printed = capsys.readouterr().out
    for word in ("lh_cubic", "ci_low", "retransmitted_segments", "rtt_us"):
        assert word in printed
