// SPDX-License-Identifier: GPL-2.0-or-later
//! What the unit tests share.

/// The seed of a test with random input: 1, or what `LONGHAUL_SEED` says, to replay it.
pub(crate) fn seed() -> u128 {
    let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    eprintln!("LONGHAUL_SEED={seed}");
    seed
}
