// SPDX-License-Identifier: GPL-2.0-or-later
//! The directions that carried most data, of however many there are.

use crate::summary::{ConnectionSummary, DirectionSummary, Ending};

/// Directions that are kept.
pub const MAX_LARGEST: usize = 40;

/// A direction, with what is known of its connection.
#[derive(Debug, Clone, PartialEq)]
pub struct LargestDirection {
    /// Its file.
    pub file: String,
    /// When the connection began, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// How the connection ended.
    pub ending: Ending,
    /// The direction.
    pub direction: DirectionSummary,
}

/// The directions with most payload, and what the others have together.
#[derive(Debug, Default)]
pub struct LargestDirections {
    /// Most payload first, then in the order in which they came. At most [`MAX_LARGEST`].
    pub rows: Vec<LargestDirection>,
    /// How many others there are.
    pub others: u64,
    /// Their payload.
    pub other_bytes: u64,
    /// Their segments that were sent again.
    pub other_retransmitted_segments: u64,
}

impl LargestDirections {
    /// A connection of a file.
    pub fn add(&mut self, file: &str, connection: &ConnectionSummary) {
        for direction in connection.directions.iter().filter(|one| one.payload_bytes > 0) {
            let bytes = direction.payload_bytes;
            let at = self.rows.partition_point(|known| known.direction.payload_bytes >= bytes);
            if at == MAX_LARGEST {
                self.leave_out(direction);
                continue;
            }
            let row = LargestDirection {
                file: file.to_owned(),
                start_unix_ns: connection.start_unix_ns,
                ending: connection.ending,
                direction: direction.clone(),
            };
            self.rows.insert(at, row);
            if self.rows.len() > MAX_LARGEST {
                let other = self.rows.pop().expect("there is one more than fit");
                self.leave_out(&other.direction);
            }
        }
    }

    fn leave_out(&mut self, other: &DirectionSummary) {
        self.others += 1;
        self.other_bytes = self.other_bytes.saturating_add(other.payload_bytes);
        self.other_retransmitted_segments += other.retransmitted_segments;
    }
}
