// SPDX-License-Identifier: GPL-2.0-or-later
//! How long a queue may become.

use crate::json;
use serde::{Deserialize, Serialize};
use units::Bytes;

/// A limit of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queue {
    /// So many packets.
    #[serde(rename = "queue_packets")]
    Packets(u64),
    /// So many bytes.
    #[serde(rename = "queue_bytes", with = "json::bytes")]
    Bytes(Bytes),
}

/// A queue's length as the keys `mark_packets` and `mark_bytes`, in addition to those of the queue itself.
pub(super) mod mark {
    use super::Queue;
    use crate::json;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use units::Bytes;

    #[derive(Serialize, Deserialize)]
    enum Mark {
        #[serde(rename = "mark_packets")]
        Packets(u64),
        #[serde(rename = "mark_bytes", with = "json::bytes")]
        Bytes(Bytes),
    }

    #[allow(clippy::ref_option, reason = "serde's signature")]
    pub fn serialize<S: Serializer>(mark: &Option<Queue>, s: S) -> Result<S::Ok, S::Error> {
        let mark = mark.map(|mark| match mark {
            Queue::Packets(packets) => Mark::Packets(packets),
            Queue::Bytes(bytes) => Mark::Bytes(bytes),
        });
        mark.serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Queue>, D::Error> {
        Ok(Option::<Mark>::deserialize(d)?.map(|mark| match mark {
            Mark::Packets(packets) => Queue::Packets(packets),
            Mark::Bytes(bytes) => Queue::Bytes(bytes),
        }))
    }
}
