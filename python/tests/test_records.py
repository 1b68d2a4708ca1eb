# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import json
import math
import shutil
import statistics
from pathlib import Path

import longhaul
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import scenario_of


def test_tables_have_what_the_records_have(swept: longhaul.Records) -> None:
    assert len(swept) == 12
    runs, flows = swept.runs.rows(), swept.flows.rows()
    for record, run, flow in zip(swept, runs, flows, strict=True):
        assert run["run"] == flow["run"] == record.id
        assert run["goodput_bps"] == record.summary["metrics"]["goodput_bps"]
        assert flow["bytes"] == record.summary["flows"][0]["bytes"]
        assert flow["rtt_p99_us"] == record.summary["metrics"]["flows"][0]["rtt_p99_us"]
        assert run["record"] == str(record.directory)
        assert dict(map(tuple, record.manifest["point"]))["flow.file.cc"] == run["flow.file.cc"]
    (delays,) = ({run["link.a-b.delay_number"] for run in runs},)
    assert delays == {0.005, 0.02}
    assert [link["direction"] for link in swept.links.rows()] == ["forward", "backward"] * 12
    assert {hop["congestion_control"] for hop in swept.hops.rows()} == {"lh_cubic", "lh_reno"}
    assert swept.traffic.rows() == swept.files.rows() == []


def test_libraries_read_the_same(swept: longhaul.Records) -> None:
    for table in (swept.runs, swept.flows, swept.hops, swept.links, swept.series(), swept.intervals()):
        arrow = pyarrow.table(table)
        assert arrow.num_rows == len(table)
        frame = polars.DataFrame(table)
        assert frame.columns == table.columns and frame.height == len(table)
        assert pandas.DataFrame.from_arrow(table).shape == (len(table), len(table.columns))
        assert table.to_pandas().shape == (len(table), len(table.columns))
        assert arrow.to_pylist()[:5] == table.rows(5)


def test_series_are_those_of_the_files(swept: longhaul.Records) -> None:
    ours = swept.series().to_arrow()
    theirs = pyarrow.concat_tables(
        pyarrow.parquet.read_table(folder / name) for folder in swept.directories for name in ("series.parquet", "bins.parquet")
    )
    for column in theirs.column_names:
        assert ours[column].to_pylist() == theirs[column].to_pylist(), column


def test_series_can_be_chosen(swept: longhaul.Records) -> None:
    every = swept.series().to_pandas()
    cwnd = swept.series("cwnd_segments").to_pandas()
    assert len(cwnd) == (every["quantity"] == "cwnd_segments").sum() > 0
    two = swept.series(["cwnd_segments", "queue_bytes"], entity="link:a-b/forward").to_pandas()
    assert set(two["quantity"]) == {"queue_bytes"} and set(two["entity"]) == {"link:a-b/forward"}
    assert len(swept.series("no such thing")) == 0


def test_series_of_more_records_than_small_keys_have_places_for() -> None:
    """A dictionary of 127 texts has keys of one byte."""
    sweep = {"link.a-b.delay": [f"{1 + number}ms" for number in range(130)]}
    records = longhaul.Scenario(scenario_of(duration="100ms", sweep=sweep)).simulate(progress=False)
    series = records.series("cwnd_segments").to_pandas()
    runs = records.runs.to_pandas()
    assert sorted(series["run"].unique()) == sorted(runs["run"])
    of_run = series.groupby("run", observed=True)["point"].first()
    assert dict(of_run) == dict(zip(runs["run"], runs["point"]))
    assert {row["run"] for row in records.series("cwnd_segments").rows()} == set(runs["run"])


def test_columns_have_units_and_descriptions(swept: longhaul.Records) -> None:
    schema = pyarrow.table(swept.flows).schema
    goodput = schema.field("goodput_bps").metadata
    assert goodput[b"unit"] == b"bit/s" and goodput[b"description"]
    swept_keys = ("link.a-b.delay", "flow.file.cc")
    tables = {
        "runs": swept.runs, "flows": swept.flows, "hops": swept.hops, "links": swept.links, "traffic": swept.traffic,
        "files": swept.files, "series": swept.series(), "intervals": swept.intervals(),
    }  # fmt: skip
    lacking = [
        f"{name}.{column}"
        for name, table in tables.items()
        for column, metadata in table.metadata.items()
        if "description" not in metadata and not column.startswith(swept_keys)
    ]
    assert not lacking


def test_intervals_are_those_of_students_t(swept: longhaul.Records) -> None:
    rows = swept.intervals().rows()
    (row,) = (
        row
        for row in rows
        if row["metric"] == "goodput_bps" and row["flow"] == "file"
        and row["flow.file.cc"] == "lh_reno" and row["link.a-b.delay"] == "20ms"
    )  # fmt: skip
    values = [
        flow["goodput_bps"]
        for flow in swept.flows.rows()
        if flow["flow.file.cc"] == "lh_reno" and flow["link.a-b.delay"] == "20ms"
    ]
    assert row["n"] == len(values) == 3
    # 4.302653 is of the t table for 2 degrees of freedom.
    half = 4.302653 * statistics.stdev(values) / math.sqrt(3)
    assert row["mean"] == pytest.approx(statistics.mean(values))
    assert row["ci_high"] - row["mean"] == pytest.approx(half, rel=1e-6)
    assert row["unit"] == "bit/s"


def test_intervals_by_other_keys(swept: longhaul.Records) -> None:
    def goodputs(by: list[str] | str) -> list[dict[str, object]]:
        return [row for row in swept.intervals(by).rows() if row["metric"] == "goodput_bps" and row["flow"] is None]

    assert [(row["flow.file.cc"], row["n"]) for row in goodputs("flow.file.cc")] == [("lh_cubic", 6), ("lh_reno", 6)]
    assert [row["n"] for row in goodputs([])] == [12]
    assert len(goodputs(["point"])) == 4
    with pytest.raises(longhaul.RecordError, match="flow.file.cc"):
        swept.intervals("flow.file.c")


def test_sequence_of_records(swept: longhaul.Records) -> None:
    assert swept[-1].id == swept[11].id
    assert [record.id for record in swept[2:4]] == [swept[2].id, swept[3].id]
    with pytest.raises(IndexError):
        swept[12]


def test_text_and_html_are_short_and_safe(swept: longhaul.Records) -> None:
    assert len(repr(swept.series()).splitlines()) == 12
    html = longhaul.Scenario(scenario_of(title="<b>")).simulate(progress=False).runs._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html


def test_records_of_several_directories_are_read_once(tmp_path: Path) -> None:
    longhaul.Scenario(scenario_of()).simulate(tmp_path / "a", progress=False)
    longhaul.model(longhaul.Scenario(scenario_of()), tmp_path / "b")
    assert len(longhaul.read(tmp_path, tmp_path / "a")) == 2
    assert {row["method"] for row in longhaul.read(tmp_path).intervals(by=[]).rows()} == {"sim", "model"}


def test_directory_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(longhaul.RecordError, match="no record"):
        longhaul.read(tmp_path)
    with pytest.raises(longhaul.RecordError, match="none"):
        longhaul.read(tmp_path / "none")


def test_damaged_and_newer_records_are_refused(tmp_path: Path) -> None:
    records = longhaul.Scenario(scenario_of()).simulate(tmp_path, progress=False)
    manifest = records.directories[0] / "manifest.json"
    whole = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**whole, "schema": 99}))
    with pytest.raises(longhaul.RecordError, match="newer longhaul.*update it"):
        longhaul.read(tmp_path)
    manifest.write_text("{")
    with pytest.raises(longhaul.RecordError, match="manifest.json"):
        longhaul.read(tmp_path)


def test_damaged_series_is_refused_when_it_is_read(tmp_path: Path) -> None:
    records = longhaul.Scenario(scenario_of()).simulate(tmp_path, progress=False)
    (records.directories[0] / "series.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(Exception, match="series.parquet"):
        records.series().to_arrow()
    with pytest.raises(longhaul.RecordError, match="series.parquet"):
        records.series().rows()
    shutil.rmtree(records.directories[0])
    assert len(records.runs) == 1
