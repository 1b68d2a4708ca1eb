# SPDX-License-Identifier: GPL-2.0-or-later
"""What is on record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from longhaul import _longhaul
from longhaul.table import Table

PathLike = str | os.PathLike[str]


class Record:
    """One run on record."""

    def __init__(self, directory: Path, manifest: dict[str, Any], summary: dict[str, Any]) -> None:
        self.directory = directory
        """Where it is."""
        self.manifest = manifest
        """`manifest.json`: what was run, where, with which settings (docs/record.md)."""
        self.summary = summary
        """`summary.json`: what came out."""

    @property
    def id(self) -> str:
        """The run's name."""
        return str(self.manifest["id"])

    @property
    def valid(self) -> bool:
        """Whether the run counts."""
        return bool(self.manifest["valid"])

    def __repr__(self) -> str:
        return f"<Record {self.id} in {self.directory}>"


class Records(Sequence[Record]):
    """Runs on record, and their results as tables. Runs that do not count are among them, with `valid` false."""

    def __init__(self, inner: _longhaul.Records, keep: object = None) -> None:
        self._inner = inner
        self._keep = keep

    @property
    def directories(self) -> list[Path]:
        """The directory of each record."""
        return self._inner.directories

    @property
    def runs(self) -> Table:
        """A row for each run, with its metrics (docs/metrics.md)."""
        return self._table(self._inner.runs())

    @property
    def flows(self) -> Table:
        """A row for each flow of each run."""
        return self._table(self._inner.flows())

    @property
    def hops(self) -> Table:
        """A row for each TCP connection of each flow."""
        return self._table(self._inner.hops())

    @property
    def links(self) -> Table:
        """A row for each direction of each link."""
        return self._table(self._inner.links())

    @property
    def traffic(self) -> Table:
        """A row for each traffic source."""
        return self._table(self._inner.traffic())

    @property
    def files(self) -> Table:
        """A row for each file that traffic offered."""
        return self._table(self._inner.files())

    def series(
        self,
        quantity: str | Iterable[str] | None = None,
        *,
        entity: str | Iterable[str] | None = None,
    ) -> Table:
        """Samples over time, of these quantities (`"cwnd_segments"`) and entities (`"hop:file/0"`), or of all."""
        return self._table(self._inner.series(_set(quantity), _set(entity)))

    def intervals(self, by: Iterable[str] | None = None) -> Table:
        """Mean, standard deviation and 95 % confidence interval of each metric over repeats.

        `by` names what runs that are put together have in common: `"variant"`, `"point"` or swept keys. Runs by different methods
        are never put together. Runs that do not count or failed are left out.
        """
        if isinstance(by, str):
            by = [by]
        return self._table(self._inner.intervals(None if by is None else list(by)))

    def __len__(self) -> int:
        return len(self._inner)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        if isinstance(index, slice):
            return [self._record(n) for n in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        return self._record(number)

    def __iter__(self) -> Iterator[Record]:
        return (self._record(n) for n in range(len(self)))

    def __repr__(self) -> str:
        return f"<Records: {len(self)} runs>"

    def _record(self, number: int) -> Record:
        directory, manifest, summary = self._inner.record(number)
        return Record(directory, json.loads(manifest), json.loads(summary))

    def _table(self, inner: _longhaul.Table) -> Table:
        return Table(inner, self._keep)


def read(*directories: PathLike) -> Records:
    """Reads all records at and below these directories.

    Raises RecordError if there are none, or one is damaged or of a later longhaul.
    """
    return open_records(directories)


def open_records(directories: Iterable[PathLike], keep: object = None) -> Records:
    """The same; `keep` is held as long as the records and their tables are."""
    return Records(_longhaul.Records.open([os.fspath(directory) for directory in directories]), keep)


def _set(names: str | Iterable[str] | None) -> set[str] | None:
    if names is None:
        return None
    return {names} if isinstance(names, str) else set(names)
