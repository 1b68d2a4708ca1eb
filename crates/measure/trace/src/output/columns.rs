// SPDX-License-Identifier: GPL-2.0-or-later
//! The columns of a row. Their names are the keys of the JSON document.

use crate::summary::{ConnectionSummary, DirectionSummary};
use std::borrow::Cow;

/// A direction of a connection of a file.
pub(super) struct Row<'a> {
    pub(super) file: &'a str,
    pub(super) connection: &'a ConnectionSummary,
    pub(super) direction: &'a DirectionSummary,
}

/// The value of a column, by its kind.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Text(fn(&Row<'_>) -> Cow<'static, str>),
    Integer(fn(&Row<'_>) -> u64),
    OptionalInteger(fn(&Row<'_>) -> Option<u64>),
    Real(fn(&Row<'_>) -> f64),
    OptionalReal(fn(&Row<'_>) -> Option<f64>),
}

use Value::{Integer, OptionalInteger, OptionalReal, Real, Text};

/// All columns in order.
pub(super) const COLUMNS: [(&str, Value); 51] = [
    ("file", Text(|row| row.file.to_owned().into())),
    ("first_packet", Integer(|row| row.connection.first_packet)),
    ("start_unix_ns", Integer(|row| row.connection.start_unix_ns)),
    ("duration_s", Real(|row| row.connection.duration_s)),
    ("handshake_captured", Integer(|row| row.connection.handshake_captured.into())),
    ("ending", Text(|row| row.connection.ending.name().into())),
    ("path_rtt_min_us", OptionalReal(|row| row.connection.path_rtt_min_us)),
    ("from", Text(|row| row.direction.from.clone().into())),
    ("to", Text(|row| row.direction.to.clone().into())),
    ("packets", Integer(|row| row.direction.packets)),
    ("data_packets", Integer(|row| row.direction.data_packets)),
    ("payload_bytes", Integer(|row| row.direction.payload_bytes)),
    ("unique_bytes", Integer(|row| row.direction.unique_bytes)),
    ("acknowledged_bytes", Integer(|row| row.direction.acknowledged_bytes)),
    ("uncaptured_bytes", Integer(|row| row.direction.uncaptured_bytes)),
    ("segment_bytes", Integer(|row| row.direction.segment_bytes.into())),
    ("goodput_bps", OptionalReal(|row| row.direction.goodput_bps)),
    ("retransmitted_segments", Integer(|row| row.direction.retransmitted_segments)),
    ("retransmitted_packets", Integer(|row| row.direction.retransmitted_packets)),
    ("retransmitted_bytes", Integer(|row| row.direction.retransmitted_bytes)),
    ("fast_segments", Integer(|row| row.direction.fast_segments)),
    ("timeout_segments", Integer(|row| row.direction.timeout_segments)),
    ("timeouts", Integer(|row| row.direction.timeouts)),
    ("tail_loss_probe_segments", Integer(|row| row.direction.tail_loss_probe_segments)),
    ("unneeded_segments", Integer(|row| row.direction.unneeded_segments)),
    ("unknown_cause_segments", Integer(|row| row.direction.unknown_cause_segments)),
    ("spurious_segments", Integer(|row| row.direction.spurious_segments)),
    ("control_retransmissions", Integer(|row| row.direction.control_retransmissions)),
    ("reordered_packets", Integer(|row| row.direction.reordered_packets)),
    ("reordering_max_us", OptionalReal(|row| row.direction.reordering_max_us)),
    ("gaps", Integer(|row| row.direction.gaps)),
    ("copies", Integer(|row| row.direction.copies)),
    ("stray_packets", Integer(|row| row.direction.stray_packets)),
    ("duplicate_acks", Integer(|row| row.direction.duplicate_acks)),
    ("duplicate_sacks", Integer(|row| row.direction.duplicate_sacks)),
    ("network_duplicates", Integer(|row| row.direction.network_duplicates)),
    ("ecn_marked_packets", Integer(|row| row.direction.ecn_marked_packets)),
    ("keep_alives", Integer(|row| row.direction.keep_alives)),
    ("zero_window_probes", Integer(|row| row.direction.zero_window_probes)),
    ("zero_windows", Integer(|row| row.direction.zero_windows)),
    ("window_full_packets", Integer(|row| row.direction.window_full_packets)),
    ("window_scale", OptionalInteger(|row| row.direction.window_scale.map(u64::from))),
    ("window_max_bytes", OptionalInteger(|row| row.direction.window_max_bytes)),
    ("outstanding_max_bytes", Integer(|row| row.direction.outstanding_max_bytes)),
    ("idle_s", Real(|row| row.direction.idle_s)),
    ("window_limited_s", Real(|row| row.direction.window_limited_s)),
    ("rtt_samples", Integer(|row| row.direction.rtt_samples)),
    ("rtt_min_us", OptionalReal(|row| row.direction.rtt_min_us)),
    ("rtt_mean_us", OptionalReal(|row| row.direction.rtt_mean_us)),
    ("rtt_max_us", OptionalReal(|row| row.direction.rtt_max_us)),
    ("capture_point", Text(|row| row.direction.capture_point.map_or("", |at| at.name()).into())),
];

/// The names of the columns in order.
pub fn column_names() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}
