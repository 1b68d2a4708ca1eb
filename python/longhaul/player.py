# SPDX-License-Identifier: GPL-2.0-or-later
"""A widget for notebooks that plays a run: the path with its packets, windows, queues and deliveries. Needs anywidget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from longhaul.records import Record, Records, read

POINTS = 1200
"""Of a curve: more than a screen has."""
MOST_HOPS = 8
MOST_LINKS = 4

Curve = list[tuple[float, float]]


class Player(anywidget.AnyWidget):
    """Plays a run. `time` is the moment that is shown, in seconds, and can be set."""

    # As text: of a file, anywidget keeps each widget for as long as the process lives (manzt/anywidget#929).
    _esm = (Path(__file__).parent / "player.js").read_text()
    run: Any = traitlets.Dict().tag(sync=True)
    time: Any = traitlets.Float(0.0).tag(sync=True)


def play(record: Record | Records) -> Player:
    """Shows a run of the records: its busiest links, and at most eight of its TCP connections."""
    chosen = record if isinstance(record, Record) else record[0]
    return Player(run=data_of(chosen))


def data_of(record: Record) -> dict[str, Any]:
    """What is drawn of a run, as plain data."""
    records = read(record.directory)
    curves: dict[tuple[str, str], Curve] = {}
    wanted = ["queue_bytes", "throughput_bps", "drops", "losses", "cwnd_segments", "delivered_bytes", "retransmits"]
    for row in records.series(wanted).rows():
        curves.setdefault((row["entity"], row["quantity"]), []).append((row["time_s"], row["value"]))
    scenario = record.manifest["scenario"]
    links = [_link(link, heading, curves) for link in scenario["links"] for heading in ("forward", "backward")]
    # The busiest first: links that carry acknowledgements alone come last.
    links.sort(key=lambda link: (-link["load"], link["name"]))
    hops = sorted(entity for entity, quantity in curves if quantity == "cwnd_segments")
    ends = [curve[-1][0] for curve in curves.values() if curve]
    return {
        "title": f"{scenario['title']}: {record.id}",
        "duration": max(ends, default=0.0),
        "links": links[:MOST_LINKS],
        "hops": [_hop(entity, curves) for entity in hops[:MOST_HOPS]],
        "left_out": max(0, len(hops) - MOST_HOPS),
    }


def _link(link: dict[str, Any], heading: str, curves: dict[tuple[str, str], Curve]) -> dict[str, Any]:
    entity = f"link:{link['name']}/{heading}"
    ends = (link["a"], link["b"]) if heading == "forward" else (link["b"], link["a"])
    carried = curves.get((entity, "throughput_bps"), [])
    lost = [_counted(curves.get((entity, what), [])) for what in ("drops", "losses")]
    return {
        "name": f"{ends[0]} to {ends[1]}",
        "ends": ends,
        "delay": link[heading].get("delay_us", 0) / 1e6,
        "load": sum(value for _, value in carried),
        "queue": thinned(curves.get((entity, "queue_bytes"), [])),
        "throughput": averaged(carried),
        "lost": thinned(sorted(lost[0] + lost[1])),
    }


def _hop(entity: str, curves: dict[tuple[str, str], Curve]) -> dict[str, Any]:
    return {
        "name": entity.removeprefix("hop:"),
        "window": thinned(curves[entity, "cwnd_segments"]),
        "delivered": thinned(curves.get((entity, "delivered_bytes"), [])),
        "resent": thinned(_steps(curves.get((entity, "retransmits"), []))),
    }


def _counted(curve: Curve) -> Curve:
    return [(time, value) for time, value in curve if value > 0]


def _steps(curve: Curve) -> Curve:
    """When a count has risen, and by how much."""
    return [(time, value - before) for (_, before), (time, value) in zip(curve, curve[1:]) if value > before]


def averaged(curve: Sequence[tuple[float, float]], points: int = POINTS // 2) -> Curve:
    """The mean of each stretch: bins of monitors are shorter than a frame, and full or empty."""
    size = max(1, -(-len(curve) // points))
    stretches = [curve[begin : begin + size] for begin in range(0, len(curve), size)]
    return [(stretch[0][0], sum(value for _, value in stretch) / len(stretch)) for stretch in stretches]


def thinned(curve: Sequence[tuple[float, float]], points: int = POINTS) -> Curve:
    """A curve that looks the same: the lowest and the highest value of each stretch."""
    if len(curve) <= points:
        return list(curve)
    size = -(-len(curve) * 2 // points)
    kept: Curve = []
    for begin in range(0, len(curve), size):
        stretch = curve[begin : begin + size]
        low, high = min(stretch, key=lambda it: it[1]), max(stretch, key=lambda it: it[1])
        kept += sorted({low, high})
    return kept
