// SPDX-License-Identifier: GPL-2.0-or-later
//! Input and output of disciplines that decide when a packet arrives.

use rand_core::Rng;
use rand_pcg::Pcg64;
use units::Timestamp;

/// State of the queue that an arriving packet meets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueOnArrival {
    /// Packets that wait.
    pub(crate) packets: u64,
    /// Their bytes on the link.
    pub(crate) bytes: u64,
    /// When the wire is free of all that it was given: in the past where it is idle.
    pub(crate) free_at: Timestamp,
}

/// Decision of a discipline about an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Mark,
    Drop,
}

/// A discipline's random numbers.
#[derive(Debug, Clone)]
pub(crate) struct DisciplineRandom(Pcg64);

impl DisciplineRandom {
    /// The stream is another than that of the losses, which the same seed begins: what a discipline draws
    /// changes no loss.
    pub(super) fn new(seed: u64) -> Self {
        Self(Pcg64::new(u128::from(seed), 0x51a7_19ce_8c4e_33d5))
    }

    /// From 0 up to 1, without 1, in steps of 2^-53: the same on every machine.
    pub(crate) fn draw(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * f64::EPSILON / 2.0
    }
}
