# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables as Arrow streams."""

from __future__ import annotations

import shutil
from html import escape
from typing import TYPE_CHECKING, Any

from longhaul import _longhaul

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

SHOWN = 10


class Table:
    """A table whose rows are read as they are asked for, by the Arrow PyCapsule interface.

    `polars.DataFrame(table)`, `pyarrow.table(table)` and `pandas.DataFrame.from_arrow(table)` take it as it is. `metadata` has
    the unit and the description of each column, as has the Arrow schema.
    """

    def __init__(self, inner: _longhaul.Table, keep: object = None) -> None:
        self._inner = inner
        self._keep = keep

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._inner.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._inner.__arrow_c_schema__()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._inner.columns

    @property
    def metadata(self) -> dict[str, dict[str, str]]:
        """Of each column its `unit`, if it is a number, and its `description`."""
        return self._inner.metadata

    def __len__(self) -> int:
        return len(self._inner)

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The rows as dicts, or the first of them."""
        return self._inner.rows(limit)

    def to_arrow(self) -> pyarrow.Table:
        """The table for pyarrow, which must be installed."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """The table for polars, which must be installed."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The table for pandas, which must be installed; long tables are faster with pyarrow, too."""
        import pandas

        try:
            import pyarrow
        except ImportError:
            return pandas.DataFrame(self.rows(), columns=self.columns)
        return pyarrow.table(self).to_pandas()

    def __repr__(self) -> str:
        rows = self.rows(SHOWN + 1)
        columns = [[column, *(_text(row[column]) for row in rows[:SHOWN])] for column in self.columns]
        lines, room = [""] * (1 + len(rows[:SHOWN])), shutil.get_terminal_size((120, 24)).columns - 1
        for column in columns:
            width = max(map(len, column)) + 2
            if width > room:
                lines = [f"{line}…" for line in lines]
                break
            room -= width
            lines = [line + cell.ljust(width) for line, cell in zip(lines, column)]
        return "\n".join([line.rstrip() for line in lines] + ["…"] * (len(rows) > SHOWN))

    def _repr_html_(self) -> str:
        rows = self.rows(SHOWN + 1)
        metadata = self.metadata

        def title(column: str) -> str:
            known = metadata.get(column, {})
            return ", ".join(known[key] for key in ("description", "unit") if key in known)

        head = "".join(f'<th title="{escape(title(column))}">{escape(column)}</th>' for column in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_text(row[column]))}</td>" for column in self.columns) + "</tr>"
            for row in rows[:SHOWN]
        )
        more = "<p>…</p>" if len(rows) > SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
