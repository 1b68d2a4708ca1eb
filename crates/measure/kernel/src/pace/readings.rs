// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads what the program at a paced device has counted.

use super::{
    counters::{Counts, Sender},
    layout,
};
use crate::Error;
use libbpf_rs::{MapCore, MapFlags};

pub fn counts(work: &impl MapCore) -> Result<Counts, Error> {
    let values = work.lookup_percpu(&ONLY, MapFlags::ANY);
    let mut sum = Counts::default();
    for value in values.map_err(Error::bpf("read what was paced"))?.unwrap_or_default() {
        sum += layout::read_counts(&value);
    }
    Ok(sum)
}

/// Sockets by their cookies. Those that come and go meanwhile may be missing.
pub fn senders(seen: &impl MapCore) -> Result<Vec<Sender>, Error> {
    let mut senders = Vec::new();
    for key in seen.keys() {
        let value = seen.lookup(&key, MapFlags::ANY).map_err(Error::bpf("read who was paced"))?;
        senders.extend(value.map(|value| layout::read_sender(&value)));
    }
    senders.sort_by_key(|sender| (sender.rule, sender.source, sender.destination));
    Ok(senders)
}

/// The key of a map with one value.
pub const ONLY: [u8; 4] = [0; 4];
