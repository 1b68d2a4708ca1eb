# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `longhaul`, which makes runs that need root or other hosts: what a worker has to have for them."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longhaul.errors import LonghaulError, UnsupportedError

METHODS = ("emu", "field")
"""That the command carries out."""
EMULATION_LOCK = Path("/run/longhaul-emulation.lock")
"""Emulated runs at the same time would take the processor from each other; only root can write there, and only root emulates."""


def program() -> str:
    """Where it is: `LONGHAUL` of the environment, or the first in `PATH`."""
    found = os.environ.get("LONGHAUL") or shutil.which("longhaul")
    if found is None:
        raise UnsupportedError(
            f"there is no command longhaul on {platform.node()}: install it there, or name it in the environment as LONGHAUL"
        )
    return found


def sources(method: str) -> str:
    """SHA-256 over the sources that decide the figures of a method, of the command that is here."""
    said = _run(["--version"]).stdout
    found = re.search(rf"^ +{method} +([0-9a-f]{{64}})$", said, re.MULTILINE)
    if found is None:
        raise UnsupportedError(f"{program()} on {platform.node()} does not have method {method}: install a later longhaul")
    return found[1]


def prepare(method: str, runs: list[str], hosts: str | None) -> tuple[str, str]:
    """The hash of its sources, and a JSON list of the runs as the method makes them on this machine."""
    with tempfile.TemporaryDirectory(prefix="longhaul-") as folder:
        words = _words(Path(folder), runs, method, hosts)
        checked = _run(["lab", "check", *words, "--json"])
        if checked.returncode != 0:
            raise _error(checked)
        return sources(method), checked.stdout


def run(method: str, run: str, hosts: str | None, folder: Path) -> None:
    """Makes one run, and leaves its record below `folder`: also one that does not count."""
    words = _words(folder, [run], method, hosts)
    with _alone(method):
        ended = _run(["lab", "run", *words, "--out", str(folder / "out"), "--again"])
    try:
        record_below(folder)
    except FileNotFoundError:
        raise _error(ended) from None


def record_below(folder: Path) -> Path:
    """The record that was made there. Attempts that did not count lie in hidden directories."""
    for manifest in folder.rglob("manifest.json"):
        record = manifest.parent
        if not any(part.startswith(".") for part in record.relative_to(folder).parts):
            return record
    raise FileNotFoundError(f"{folder}: no record")


def _words(folder: Path, runs: list[str], method: str, hosts: str | None) -> list[str]:
    file = folder / "runs.json"
    file.write_text(f"[{','.join(runs)}]")
    words = [str(file), "--method", method]
    return words if hosts is None else [*words, "--hosts", hosts]


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    own = program()
    try:
        return subprocess.run(
            [own, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise UnsupportedError(
            f"{own} does not run on {platform.node()} ({platform.machine()}): {error.strerror}. Install the longhaul of that machine"
        ) from error


def _error(ended: subprocess.CompletedProcess[str]) -> LonghaulError:
    """Exit codes 2 and 3 mean that the request, or the machine, must change."""
    said = ended.stderr.strip() or f"it ended with status {ended.returncode}, and said nothing"
    kind = UnsupportedError if ended.returncode in (2, 3) else LonghaulError
    return kind(f"longhaul {ended.args[1]} {ended.args[2]} on {platform.node()}: {said}")


@contextmanager
def _alone(method: str) -> Iterator[None]:
    """Emulated runs of a machine are made one after another."""
    if method != "emu" or os.geteuid() != 0:
        yield
        return
    with EMULATION_LOCK.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
