# SPDX-License-Identifier: GPL-2.0-or-later
"""What type checkers say of the package, and of what its users write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import longhaul

PACKAGE = Path(longhaul.__file__).parent
SOURCES = Path(os.environ["LONGHAUL_SOURCES"]) / "python"
USER = """
import longhaul

scenario = longhaul.Scenario.load("x.toml", set={"vars.rtt": "20ms"})
records: longhaul.Records = scenario.simulate(jobs=2, cc=["a.h"])
mean: float = records.intervals(by="variant").rows()[0]["mean"]
first: longhaul.Record = records[0]
for run in scenario.runs():
    name: str = run.id
capture: longhaul.Capture = longhaul.trace("x.pcap")
"""


WITHOUT_TYPES = {"longhaul.files.LonghaulFileSystem", "longhaul.player.Player", "longhaul.player.play"}
"""Classes whose bases have none, and what returns them."""


def check(program: str, *words: str | Path) -> str:
    """What a type checker objects to."""
    command = [sys.executable, "-m", program, *map(str, words)]
    command += ["--config-file", str(SOURCES / "pyproject.toml")] if program == "mypy" else []
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_package_and_its_tests_have_complete_types() -> None:
    assert check("mypy", PACKAGE) == ""
    assert check("mypy", SOURCES / "tests") == ""
    # Its standard mode: the strict one objects to pandas and fsspec, which have no types.
    assert check("pyright", "--level", "error", PACKAGE) == ""


def test_public_types_are_complete_for_pyright() -> None:
    words = ["--verifytypes", "longhaul", "--ignoreexternal", "--outputjson"]
    done = subprocess.run([sys.executable, "-m", "pyright", *words], capture_output=True, text=True, cwd=PACKAGE.parent)
    found = json.loads(done.stdout)["typeCompleteness"]
    lacking = {it["name"] for it in found["symbols"] if it["isExported"] and not it["isTypeKnown"]}
    assert len(found["symbols"]) > 150 and lacking <= WITHOUT_TYPES, lacking


def test_users_see_the_types(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text(USER)
    assert check("mypy", file) == ""
    file.write_text(USER.replace("mean: float", "first_id: int = records[0].id  # wrong\nmean: float"))
    assert "Incompatible types" in check("mypy", file)


def test_compiled_part_has_what_its_stub_says() -> None:
    """The stub is made from what the compiler knew; this compares it with what Python sees."""
    words = ["longhaul._longhaul", "--mypy-config-file", str(SOURCES / "pyproject.toml")]
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", *words], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr
