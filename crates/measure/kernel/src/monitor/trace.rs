// SPDX-License-Identifier: GPL-2.0-or-later
//! Every packet as it was counted, for those who want to reckon for themselves.

use super::{Direction, Flow, Monitor, flow::BYTES};
use crate::{
    Error,
    objects::{TRACE, TRACE_LOST},
    ring::Ring,
};
use libbpf_rs::{MapCore, MapFlags};
use units::{Duration, Timestamp};

/// A packet, a super-packet or a gap frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Which way it went.
    pub direction: Direction,
    /// In the order in which they were counted, from 0 in each direction. Entries may be shown in
    /// another order where several processors send.
    pub number: u64,
    /// When it came.
    pub time: Timestamp,
    /// Its bytes on the wire.
    pub bytes: u64,
    /// Frames on the wire; several for a super-packet.
    pub frames: u32,
    /// Whether it is a gap frame.
    pub is_gap: bool,
    /// The flow that it belongs to.
    pub flow: Flow,
}

/// An open trace. Dropping it ends the reading, not the recording.
pub struct Trace<'a> {
    ring: Ring<'a>,
    monitor: &'a Monitor,
}

impl Monitor {
    /// Has each packet shown to `on_entry`, whenever the [`Trace`] is polled.
    ///
    /// # Errors
    /// It was not attached with [`super::Options::trace`].
    pub fn trace<'a>(&'a self, on_entry: impl FnMut(Entry) + 'a) -> Result<Trace<'a>, Error> {
        let mut on_entry = on_entry;
        if !self.traced {
            return Err(Error::NotTraced { name: "the monitor".to_owned() });
        }
        let map = self.object.maps().find(|map| map.name() == TRACE).expect("the monitor has it");
        let origin = self.origin;
        let ring = Ring::open(&map, move |bytes| on_entry(Entry::read(bytes, origin)))?;
        Ok(Trace { ring, monitor: self })
    }
}

impl Trace<'_> {
    /// Shows the packets since the last time; waits that long for the first.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn poll(&self, patience: Duration) -> Result<(), Error> {
        self.ring.poll(patience.into())
    }

    /// Packets that are missing, because they came faster than they were read.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn lost(&self) -> Result<u64, Error> {
        let bytes = self.monitor.value(TRACE_LOST, 0, MapFlags::ANY)?;
        Ok(u64::from_ne_bytes(bytes.try_into().expect("8 bytes")))
    }
}

impl Entry {
    /// `struct entry` of `src/bpf/monitor.bpf.c`.
    fn read(bytes: &[u8], origin: Duration) -> Self {
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8"));
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4"));
        Self {
            direction: if word(32 + BYTES) == 0 { Direction::Out } else { Direction::In },
            number: long(0),
            time: Timestamp::from_nanos(long(8)) - origin,
            bytes: long(16),
            frames: word(24),
            is_gap: word(28) != 0,
            flow: Flow::read(bytes[32..32 + BYTES].try_into().expect("a struct flow")),
        }
    }
}
