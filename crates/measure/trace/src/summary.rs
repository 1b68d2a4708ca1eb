// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of a connection when it is over, in the words and units of `docs/trace.md`.

use crate::{connection::Connection, curves::WindowCurves, growth::Growth, segment::Endpoint};
use serde::Serialize;

/// How a connection ended in the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Both ends closed it.
    Closed,
    /// One end aborted it.
    Reset,
    /// The capture ended first.
    Open,
    /// The memory limit was met: what came later counts as another connection.
    Evicted,
}

impl Ending {
    /// Its name in all outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::Open => "open",
            Self::Evicted => "evicted",
        }
    }
}

/// Where a direction's packets were captured, by the round trips to both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturePoint {
    /// At the end that sends the data: all that was sent is in the capture, and gaps are the capture's.
    Sender,
    /// At the end that receives: what was lost on the path is not in the capture.
    Receiver,
    /// Between: losses before it leave gaps, losses behind it do not.
    Middle,
}

impl CapturePoint {
    /// Its name in all outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Middle => "middle",
        }
    }
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionSummary {
    /// Number of its first packet in the capture.
    pub first_packet: u64,
    /// When its first packet was captured, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// From its first to its last packet.
    pub duration_s: f64,
    /// Whether both packets that open it were captured. If not, windows have no scale, and the segment size is a guess.
    pub handshake_captured: bool,
    /// How it ended.
    pub ending: Ending,
    /// Shortest round trips to both ends, added. `None` if one is unknown.
    pub path_rtt_min_us: Option<f64>,
    /// From the end that opened it, and from the other one.
    pub directions: [DirectionSummary; 2],
}

/// What one end of a connection sent, and how the other acknowledged it.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct DirectionSummary {
    /// Who sent the data: address and port.
    pub from: String,
    /// Who received it.
    pub to: String,
    /// Packets in this direction.
    pub packets: u64,
    /// Those with payload.
    pub data_packets: u64,
    /// Payload of all of them.
    pub payload_bytes: u64,
    /// Payload without what was captured before.
    pub unique_bytes: u64,
    /// Payload that was acknowledged.
    pub acknowledged_bytes: u64,
    /// Acknowledged or followed by later data, and not in the capture.
    pub uncaptured_bytes: u64,
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// Acknowledged bytes over the time from the first data to the last acknowledgement of data.
    pub goodput_bps: Option<f64>,
    /// Segments of data that were sent again, whatever the cause.
    pub retransmitted_segments: u64,
    /// Packets that carried them.
    pub retransmitted_packets: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Of the segments: told by acknowledgements.
    pub fast_segments: u64,
    /// By timeout, or in the recovery after it.
    pub timeout_segments: u64,
    /// How often the retransmission timer ran out.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_loss_probe_segments: u64,
    /// Acknowledged before, as the capture shows.
    pub unneeded_segments: u64,
    /// For no reason that the capture shows.
    pub unknown_cause_segments: u64,
    /// Of all causes: those that came twice, as the receiver says by duplicate selective acknowledgements.
    pub spurious_segments: u64,
    /// SYN and FIN without data that were sent again.
    pub control_retransmissions: u64,
    /// Packets that were overtaken.
    pub reordered_packets: u64,
    /// By how much the latest of them was late.
    pub reordering_max_us: Option<f64>,
    /// Times that data began beyond the high-water mark.
    pub gaps: u64,
    /// Packets captured twice.
    pub copies: u64,
    /// Packets far outside of the window.
    pub stray_packets: u64,
    /// Duplicate acknowledgements by the receiver.
    pub duplicate_acks: u64,
    /// Duplicate selective acknowledgements by the receiver.
    pub duplicate_sacks: u64,
    /// Of them, for data that was not sent again: the network duplicated it.
    pub network_duplicates: u64,
    /// Packets that the network marked.
    pub ecn_marked_packets: u64,
    /// Keep-alives.
    pub keep_alives: u64,
    /// Probes of a closed window.
    pub zero_window_probes: u64,
    /// Times that the receiver's window was closed, in packets.
    pub zero_windows: u64,
    /// Packets that filled the receiver's window.
    pub window_full_packets: u64,
    /// By how many bits the receiver's windows are shifted. `None` without the handshake.
    pub window_scale: Option<u8>,
    /// The receiver's largest window.
    pub window_max_bytes: Option<u64>,
    /// Largest number of bytes sent and not acknowledged, at the point of capture.
    pub outstanding_max_bytes: u64,
    /// Time in which all was acknowledged, between data.
    pub idle_s: f64,
    /// Time in which no further segment fitted into the receiver's window.
    pub window_limited_s: f64,
    /// Round trips from the point of capture to the receiver, by acknowledgements of data: how many were measured.
    pub rtt_samples: u64,
    /// Shortest.
    pub rtt_min_us: Option<f64>,
    /// Mean.
    pub rtt_mean_us: Option<f64>,
    /// Longest.
    pub rtt_max_us: Option<f64>,
    /// Where it was captured. `None` if one of the round trips is unknown, or both are too short to tell.
    pub capture_point: Option<CapturePoint>,
    /// How the high-water mark rose. `None` if that was not asked for, or no data was sent.
    #[serde(skip)]
    pub growth: Option<Growth>,
    /// Windows and round trips over time. `None` likewise.
    #[serde(skip)]
    pub windows: Option<WindowCurves>,
}

/// Of the path's round trip: what is nearer to an end than this share of it is at that end.
const AT_END_SHARE: f64 = 0.1;
/// Paths with shorter round trips have no ends that can be told apart.
const TELLING_NS: u64 = 200_000;

impl Connection {
    /// Sums a connection up.
    pub(crate) fn summary(&self, is_evicted: bool) -> ConnectionSummary {
        let ending = if self.is_reset {
            Ending::Reset
        } else if self.is_closed() {
            Ending::Closed
        } else if is_evicted {
            Ending::Evicted
        } else {
            Ending::Open
        };
        let [a, b] = [0, 1].map(|side| self.round_trips[side].min_ns());
        ConnectionSummary {
            first_packet: self.first_packet,
            start_unix_ns: self.start_ns,
            duration_s: seconds(self.last_ns.saturating_sub(self.start_ns)),
            handshake_captured: self.is_opening_known(),
            ending,
            path_rtt_min_us: a.zip(b).map(|(a, b)| micros(a.saturating_add(b))),
            directions: [0, 1].map(|side| self.direction(side)),
        }
    }

    fn direction(&self, side: usize) -> DirectionSummary {
        let (flow, trips) = (&self.flows[side], &self.round_trips[1 - side]);
        let counts = &flow.counts;
        let (first, high, acknowledged) = flow.positions();
        let unique_bytes = flow.seen_bytes();
        let (window_scale, window_max_bytes) = flow.largest_window();
        let acknowledged_bytes = acknowledged.saturating_sub(first);
        let named = |end: Endpoint| end.to_string();
        DirectionSummary {
            from: named(self.ends[side]),
            to: named(self.ends[1 - side]),
            packets: counts.packets,
            data_packets: counts.data_packets,
            payload_bytes: counts.payload_bytes,
            unique_bytes,
            acknowledged_bytes,
            uncaptured_bytes: (high - first).saturating_sub(unique_bytes),
            segment_bytes: flow.segment_bytes(self.largest_segment()).0,
            goodput_bps: self.goodput_bps(side, acknowledged_bytes),
            retransmitted_segments: counts.retransmitted_segments(),
            retransmitted_packets: counts.retransmitted_packets,
            retransmitted_bytes: counts.retransmitted_bytes,
            fast_segments: counts.fast,
            timeout_segments: counts.timeout,
            timeouts: counts.timeouts,
            tail_loss_probe_segments: counts.tail_loss_probe,
            unneeded_segments: counts.unneeded,
            unknown_cause_segments: counts.unknown,
            spurious_segments: counts.spurious,
            control_retransmissions: counts.control,
            reordered_packets: counts.reordered_packets,
            reordering_max_us: (counts.reordered_packets > 0)
                .then(|| micros(counts.reordering_max_ns)),
            gaps: counts.gaps,
            copies: counts.copies,
            stray_packets: counts.strays,
            duplicate_acks: counts.duplicate_acks,
            duplicate_sacks: counts.duplicate_sacks,
            network_duplicates: counts.unmatched_duplicate_sacks,
            ecn_marked_packets: counts.marked_packets,
            keep_alives: counts.keep_alives,
            zero_window_probes: counts.zero_window_probes,
            zero_windows: counts.zero_windows,
            window_full_packets: counts.window_full,
            window_scale,
            window_max_bytes,
            outstanding_max_bytes: counts.outstanding_max_bytes,
            idle_s: seconds(counts.idle_ns),
            window_limited_s: seconds(counts.window_limited_ns),
            rtt_samples: trips.samples,
            rtt_min_us: trips.min_of_samples_ns().map(micros),
            rtt_mean_us: (trips.samples > 0).then(|| micros(trips.sum_ns) / trips.samples as f64),
            rtt_max_us: (trips.samples > 0).then(|| micros(trips.max_ns)),
            capture_point: self.capture_point(side),
            growth: flow.growth().cloned(),
            windows: flow.window_curves().cloned(),
        }
    }

    fn goodput_bps(&self, side: usize, acknowledged: u64) -> Option<f64> {
        let flow = &self.flows[side];
        let (first_ns, _) = flow.active_ns()?;
        let active_ns = flow.last_advance_ns().checked_sub(first_ns).filter(|ns| *ns > 0)?;
        Some(acknowledged as f64 * 8.0 / seconds(active_ns))
    }

    fn capture_point(&self, side: usize) -> Option<CapturePoint> {
        let to_sender = self.round_trips[side].min_ns()?;
        let path = to_sender.saturating_add(self.round_trips[1 - side].min_ns()?);
        let share = to_sender as f64 / path as f64;
        (path >= TELLING_NS).then_some(if share < AT_END_SHARE {
            CapturePoint::Sender
        } else if share > 1.0 - AT_END_SHARE {
            CapturePoint::Receiver
        } else {
            CapturePoint::Middle
        })
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}
