# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong. Files that cannot be opened are Python's own `OSError`."""

from __future__ import annotations

from typing import NamedTuple


class LonghaulError(Exception):
    """Any error of longhaul."""


class Problem(NamedTuple):
    """One thing that is wrong in a scenario."""

    place: str
    """The file with the line, the setting, or the name of a text."""
    line: int | None
    """The line, from 1; None where the problem is not on one."""
    message: str
    """What is wrong, and what was expected."""


class ScenarioError(LonghaulError, ValueError):
    """A scenario, or a setting of it, is wrong. Its text has a line for each problem."""

    def __init__(self, text: str, problems: list[tuple[str, int | None, str]] | None = None) -> None:
        super().__init__(text)
        self.problems: list[Problem] = [Problem(*problem) for problem in problems or []]
        """Problem by problem, in the order of the file; empty where the scenario could not be read at all."""


class UnsupportedError(LonghaulError):
    """The scenario asks for what the method cannot do, or this machine lacks."""


class RecordError(LonghaulError):
    """Records cannot be read: they are damaged, of a later longhaul, or not there."""


class CaptureError(LonghaulError):
    """A file is damaged, or not a capture."""


class TransferError(LonghaulError, OSError):
    """A file does not come, or not as it was promised. One that is not there is Python's `FileNotFoundError`."""


class VersionError(TransferError):
    """The server has another version of a file by now: open it again."""


class CongestionControlError(LonghaulError):
    """A congestion control of a C file does not compile, or broke the contract in a run."""
