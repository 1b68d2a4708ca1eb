// SPDX-License-Identifier: GPL-2.0-or-later
//! Packet captures to TCP connections: round trips, retransmissions and their causes, reordering, windows, goodput.
//!
//! ```text
//! file ─▶ reader ─▶ Packet ─▶ Segment ─▶ table ─▶ connection ─▶ flow ─▶ summary ─▶ output
//!                                          │ by ends, in shards     └▶ classify: the rules
//! ```
//!
//! No module but `reader` and `output` does I/O, and these take any `Read` and `Write`. Memory is bounded whatever a capture
//! holds: one buffer for reading, a budget for connections, summaries handed over as connections end. `docs/trace.md` publishes
//! the rules of classification next to those of tshark and tcptrace.

mod analysis;
mod classify;
mod connection;
mod copies;
mod course;
mod curves;
mod file_names;
mod flow;
mod growth;
mod largest;
mod output;
mod packet;
mod ranges;
mod reader;
mod round_trip;
mod segment;
mod summary;
mod table;
mod transfers;

pub use analysis::{Options, Totals, analyse, observe};
pub use classify::{Cause, Kind};
pub use connection::{Event, Observer};
pub use course::{Course, MAX_SLICES, Slice};
pub use curves::{KeptCurves, WindowCurves};
pub use file_names::short_names;
pub use growth::{Growth, MAX_POINTS, mean_growth};
pub use largest::{LargestDirection, LargestDirections, MAX_LARGEST};
pub use output::{CsvRows, JsonDocument, ParquetRows, RowWriter, column_names};
pub use packet::{Heading, LinkType, Packet};
pub use reader::{CaptureReader, MAX_BLOCK, MAX_INTERFACES, ReadError, decompressed};
pub use segment::{Endpoint, Flags, NoSegment, Segment};
pub use summary::{CapturePoint, ConnectionSummary, DirectionSummary, Ending};
pub use table::ConnectionTable;
pub use transfers::{
    FileTransfers, MAX_TRANSFERS, Session, Transfer, TransferCollector, TransferFilter, Transfers,
};
