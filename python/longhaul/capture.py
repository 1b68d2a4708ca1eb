# SPDX-License-Identifier: GPL-2.0-or-later
"""Packet captures."""

from __future__ import annotations

import os

from longhaul import _longhaul
from longhaul.table import Table

LEAST_MEMORY = 16 << 20


class Capture:
    """The TCP connections of a capture (docs/trace.md)."""

    def __init__(self, inner: _longhaul.Capture) -> None:
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def directions(self) -> Table:
        """A row for each direction of each connection: round trips, retransmissions by cause, reordering, windows, goodput."""
        return Table(self._inner.directions())

    @property
    def curves(self) -> Table:
        """Each direction over time: bytes sent, bytes outstanding, the receiver's window, round trips. Empty without `curves=True`."""
        return Table(self._inner.curves())

    @property
    def totals(self) -> dict[str, int]:
        """Packets by kind, and connections."""
        return self._inner.totals

    @property
    def remarks(self) -> list[str]:
        """What is not in full in the tables, a sentence each; empty if all is."""
        return self._inner.remarks

    def __repr__(self) -> str:
        return f"<Capture: {len(self)} connections>"


def trace(path: str | os.PathLike[str], *, curves: bool = False, memory: int = 128 << 20) -> Capture:
    """Finds the TCP connections of a capture: pcap or pcapng, plain or compressed by gzip or zstd.

    `memory` bounds what connections take, in bytes; beyond it, those that are idle longest are summed up early.
    """
    if memory < LEAST_MEMORY:
        raise ValueError(f"memory={memory}: at least {LEAST_MEMORY} bytes")
    return Capture(_longhaul.read_capture(path, curves, memory))
