// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading maps of BPF programs.

use crate::Error;
use libbpf_rs::{MapCore, MapFlags};

/// The words of the one value of a map.
pub fn words(map: &impl MapCore, what: &str) -> Result<Vec<u32>, Error> {
    let value = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(Error::bpf(format!("read {what}")))?
        .unwrap_or_default();
    let words = value.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("4")));
    Ok(words.collect())
}
