// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of a run's nodes: a file in pcapng for each, next to the record.

mod file;
mod interfaces;
pub(crate) mod pcapng;

pub use file::{CaptureFile, CaptureSource};
pub use interfaces::links_of;
pub use pcapng::{CapturedPacket, Heading};
