// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP connections of packet captures.

use crate::{
    arrow::Table,
    errors::{Kind, of_system},
    rows::{Row, plain_keys, table},
};
use ::trace::{
    CaptureReader, ConnectionSummary, DirectionSummary, Growth, KeptCurves, Options, ReadError,
    analyse, decompressed,
};
use pyo3::prelude::*;
use serde_json::Value;
use std::{collections::BTreeMap, fs::File, path::PathBuf};
use units::Bytes;

/// The connections of a capture.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct Capture {
    connections: Vec<ConnectionSummary>,
    /// Packets by kind.
    #[pyo3(get)]
    totals: BTreeMap<String, u64>,
    /// What is not in full in the tables, a sentence each.
    #[pyo3(get)]
    remarks: Vec<String>,
}

#[pymethods]
impl Capture {
    /// A row for each direction of each connection.
    fn directions(&self) -> Table {
        let mut rows = Vec::new();
        for connection in &self.connections {
            for direction in &connection.directions {
                let mut row = plain_keys(connection);
                row.extend(plain_keys(direction));
                rows.push(row);
            }
        }
        let always = ["first_packet", "start_unix_ns", "duration_s", "from", "to"];
        Table::of_batch(table(&rows, if rows.is_empty() { &always } else { &[] }))
    }

    /// The number of connections.
    fn __len__(&self) -> usize {
        self.connections.len()
    }

    /// Each direction over time: how data rose, what was outstanding, the receiver's window, round trips.
    fn curves(&self) -> Table {
        let mut rows = Vec::new();
        for connection in &self.connections {
            for direction in &connection.directions {
                curves(connection, direction, &mut rows);
            }
        }
        let always =
            ["first_packet", "from", "to", "quantity", "unit", "time_s", "lowest", "highest"];
        Table::of_batch(table(&rows, if rows.is_empty() { &always } else { &[] }))
    }
}

/// Adds the rows of a direction's curves. Times count from the connection's first packet.
fn curves(connection: &ConnectionSummary, direction: &DirectionSummary, rows: &mut Vec<Row>) {
    let mut add = |quantity: &str, unit: &str, unix_ns: u64, lowest: f64, highest: f64| {
        let time_s = unix_ns.saturating_sub(connection.start_unix_ns) as f64 / 1e9;
        rows.push(Row::from_iter([
            ("first_packet".to_owned(), connection.first_packet.into()),
            ("from".to_owned(), direction.from.clone().into()),
            ("to".to_owned(), direction.to.clone().into()),
            ("quantity".to_owned(), quantity.into()),
            ("unit".to_owned(), unit.into()),
            ("time_s".to_owned(), Value::from(time_s)),
            ("lowest".to_owned(), Value::from(lowest)),
            ("highest".to_owned(), Value::from(highest)),
        ]));
    };
    for (unix_ns, bytes) in direction.growth.iter().flat_map(Growth::points) {
        add("sent_bytes", "byte", *unix_ns, *bytes as f64, *bytes as f64);
    }
    let Some(windows) = &direction.windows else { return };
    let courses = [
        ("outstanding_bytes", "byte", &windows.outstanding_bytes, 1.0),
        ("window_bytes", "byte", &windows.window_bytes, 1.0),
        ("rtt_us", "us", &windows.rtt_ns, 1e-3),
    ];
    for (quantity, unit, course, scale) in courses {
        for slice in course.slices() {
            let (lowest, highest) = (slice.lowest as f64 * scale, slice.highest as f64 * scale);
            add(quantity, unit, slice.unix_ns, lowest, highest);
        }
    }
}

/// Reads a capture: pcap or pcapng, plain or compressed by gzip or zstd.
#[pyfunction]
pub fn read_capture(
    py: Python<'_>,
    path: PathBuf,
    keep_curves: bool,
    memory_bytes: usize,
) -> PyResult<Capture> {
    let curves = if keep_curves { KeptCurves::All } else { KeptCurves::None };
    let options = Options { shards: 1, memory_bytes, curves };
    let mut connections = Vec::new();
    let input = File::open(&path).and_then(|file| decompressed(Box::new(file)));
    let input = input.map_err(|error| of_system(&path, &error))?;
    let read = || {
        let mut reader = CaptureReader::new(input)?;
        Ok::<_, ReadError>(analyse(&mut reader, options, |one| connections.push(one)))
    };
    let (totals, early) = py
        .detach(read)
        .map_err(|error| Kind::Capture.error(py, format!("{}: {error}", path.display())))?;
    connections.sort_by_key(|one| one.first_packet);
    let mut remarks = totals.remarks(Bytes::new(memory_bytes as u64));
    remarks.extend(early.map(|error| format!("the rest was not read: {error}")));
    let numbers = plain_keys(&totals).into_iter();
    let totals = numbers.filter_map(|(key, number)| Some((key, number.as_u64()?))).collect();
    Ok(Capture { connections, totals, remarks })
}
