// SPDX-License-Identifier: GPL-2.0-or-later
//! The unit of a key of a record: its suffix says it (`goodput_bps`, `rtt_min_us`). The one place that reads
//! suffixes; tables, axes and exports call it.

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// `_bps`: bits per second.
    BitsPerSecond,
    /// `_bytes`.
    Bytes,
    /// `_us`.
    Microseconds,
    /// `_s` and `seconds`.
    Seconds,
    /// `_segments`, and counts of segments: drops, losses, marks, retransmissions.
    Segments,
    /// `_rtts`: round trips.
    RoundTrips,
    /// `_frames`.
    Frames,
    /// `files_`: counts of files.
    Files,
    /// Shares, indices and counts of events.
    One,
}

impl Unit {
    /// The unit of a key of `summary.json`, or of a quantity of the series.
    pub fn of_key(key: &str) -> Self {
        match key.rsplit('_').next().unwrap_or(key) {
            "bps" => Self::BitsPerSecond,
            "bytes" => Self::Bytes,
            "us" => Self::Microseconds,
            "s" | "seconds" => Self::Seconds,
            "segments" | "drops" | "losses" | "marks" | "retransmits" => Self::Segments,
            "rtts" => Self::RoundTrips,
            "frames" => Self::Frames,
            _ if key == "bytes_expected" => Self::Bytes,
            _ if key == "drops_after_start" => Self::Segments,
            _ if key.starts_with("files_") => Self::Files,
            _ => Self::One,
        }
    }

    /// The name in `unit` columns: of the series, and of exported tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bit/s",
            Self::Bytes => "byte",
            Self::Microseconds => "us",
            Self::Seconds => "s",
            Self::Segments => "segment",
            Self::RoundTrips => "RTT",
            Self::Frames => "frame",
            Self::Files => "file",
            Self::One => "1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_suffix_gives_the_unit() {
        for (key, unit) in [
            ("goodput_bps", "bit/s"),
            ("bytes", "byte"),
            ("bytes_expected", "byte"),
            ("queueing_delay_p99_us", "us"),
            ("completion_mean_s", "s"),
            ("seconds", "s"),
            ("cwnd_mean_segments", "segment"),
            ("queue_drops", "segment"),
            ("drops_after_start", "segment"),
            ("responsiveness_rtts", "RTT"),
            ("gap_frames", "frame"),
            ("files_offered", "file"),
            ("jain_index", "1"),
            ("timeouts", "1"),
            ("loss_ratio", "1"),
        ] {
            assert_eq!(Unit::of_key(key).name(), unit, "{key}");
        }
    }
}
