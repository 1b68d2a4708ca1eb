// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests share: real depots and origins as processes of their own, scripted origins,
//! real clients. Everything is on loopback, on ports that the system chooses, and ends with the
//! test that started it.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]

pub mod client;
pub mod held;
pub mod idle;
pub mod network;
pub mod pki;
pub mod process;
pub mod scripted;
pub mod web;
pub mod wire;

use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use std::time::Duration;

pub use testkit::refusing_address;

/// How long anything awaited may take before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes that look like nothing in particular, the same for the same seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rand_pcg::Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// A short sum to compare large bodies by.
pub fn sha256(bytes: &[u8]) -> String {
    let hex: Vec<String> = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    hex.concat()
}
