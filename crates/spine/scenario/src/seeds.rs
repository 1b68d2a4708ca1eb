// SPDX-License-Identifier: GPL-2.0-or-later
//! Seeds, and what is drawn from them: the same on every machine and in every later version, so
//! that a recorded seed gives the same run again.

use rand_core::Rng;
use rand_pcg::Pcg64;
use units::Duration;

/// A repeat's seed from the scenario's. Variants and points share it, so that they meet the same
/// chance; 53 bits, which every JSON reader keeps.
pub(crate) fn seed(scenario: u64, repeat: u32) -> u64 {
    split_mix(scenario ^ split_mix(u64::from(repeat))) >> 11
}

/// The draw of the thing of that kind and name: a time from zero up to, but without, `limit`.
///
/// It depends on nothing else, so that things can be added to a scenario, and variants and points
/// differ, without another draw for those that were there.
pub(crate) fn jitter(run_seed: u64, kind: &str, name: &str, limit: Duration) -> Duration {
    let state = split_mix(run_seed ^ fnv_1a(0, ended_by_zero([kind, name])));
    // The stream is PCG's own default; the state alone tells one draw from another.
    let mut random = Pcg64::new(u128::from(state), 0x0a02_bdbf_7bb3_c0a7);
    let scaled = u128::from(random.next_u64()) * u128::from(limit.as_nanos());
    Duration::from_nanos((scaled >> 64) as u64)
}

/// The output function of `SplitMix64` (Steele, Lea and Flood 2014): near inputs, unrelated outputs.
fn split_mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// FNV-1a of 64 bits (Fowler, Noll and Vo) over bytes, its start changed by `salt`: names as numbers,
/// the same on every machine and in every later version.
pub fn fnv_1a(salt: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(salt ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Texts as bytes, each ended by a zero.
fn ended_by_zero<const N: usize>(texts: [&str; N]) -> impl Iterator<Item = u8> {
    texts.into_iter().flat_map(|text| text.bytes().chain([0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn seeds_depend_on_scenario_and_repeat() {
        let seeds: BTreeSet<u64> = (0..100)
            .flat_map(|scenario| (1..100).map(move |repeat| seed(scenario, repeat)))
            .collect();
        assert_eq!(seeds.len(), 9900);
        assert!(seeds.iter().all(|s| *s < 1 << 53));
        // The first output of the published generator.
        assert_eq!(split_mix(0), 0xe220_a839_7b1d_cdaf);
        // A recorded seed must give the same run in a later version.
        assert_eq!(seed(1, 1), 8_232_782_446_381_918);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // FNV's own test vector for "foobar" with its terminating zero.
        assert_eq!(fnv_1a(0, ended_by_zero(["foobar"])), 0x3453_1ca7_168b_8f38);
    }

    #[test]
    fn draws_fill_their_range_evenly_and_never_reach_its_end() {
        let limit = Duration::from_nanos(10);
        let mut counts = [0_u32; 10];
        for n in 0..10_000 {
            let drawn = jitter(1, "flow", &format!("flow{n}"), limit).as_nanos();
            counts[drawn as usize] += 1;
        }
        // 1000 each, with a deviation of 30.
        assert!(counts.iter().all(|c| (880..1120).contains(c)), "{counts:?}");
        assert_eq!(jitter(1, "flow", "x", Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_draw_is_of_seed_kind_and_name() {
        let second = Duration::from_secs(1);
        let drawn = jitter(7, "link", "a-b", second);
        // A recorded seed must give the same run in a later version.
        assert_eq!(drawn.as_nanos(), 770_819_672);
        for other in [
            jitter(8, "link", "a-b", second),
            jitter(7, "flow", "a-b", second),
            jitter(7, "link", "a-c", second),
        ] {
            assert_ne!(other, drawn);
        }
    }
}
