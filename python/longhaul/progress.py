# SPDX-License-Identifier: GPL-2.0-or-later
"""How far runs are."""

from __future__ import annotations

import sys
import warnings
from typing import Any


class Progress:
    """Shows how far runs are, by tqdm where that is installed."""

    def __init__(self, runs: list[str], show: bool | None) -> None:
        self._runs = runs
        self._shares = [0.0] * len(runs)
        self._bar: Any = None
        if show or (show is None and _is_watched()):
            try:
                from tqdm.auto import tqdm
            except ImportError:
                if show:
                    raise ImportError("progress=True needs tqdm: pip install tqdm") from None
            else:
                form = "{desc}{percentage:3.0f}%|{bar}| {n:.1f}/{total_fmt} runs [{elapsed}<{remaining}]"
                self._bar = tqdm(total=len(runs), bar_format=form)

    def news(self, index: int, what: str, share: float, text: str) -> None:
        """What happened to a run."""
        if what == "ended" and text:
            warnings.warn(f"{self._runs[index]} does not count: {text}", stacklevel=3)
        if self._bar is not None:
            # A run that does not count may begin again: the bar never goes back.
            further = max(0.0, share - self._shares[index])
            self._shares[index] += further
            self._bar.update(further)

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()


def _is_watched() -> bool:
    is_notebook = "ipykernel" in sys.modules
    return is_notebook or (sys.stderr is not None and sys.stderr.isatty())
