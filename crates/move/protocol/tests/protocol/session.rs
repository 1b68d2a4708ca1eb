// SPDX-License-Identifier: GPL-2.0-or-later
//! Both ends of a session over connections that break and bytes that change: what arrives is what was sent.

mod ends;
mod handshakes;
mod headers;
mod parcel;
mod sealed;

use ends::{Network, Pair};
use longhaul_protocol::session::{ReceiveError, record::EndCode};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How many sessions CI plays; `LONGHAUL_SESSIONS` overrides it.
const SESSIONS: u64 = 300;

#[test]
fn broken_connections_lose_and_change_nothing() {
    let number = |name, default| {
        std::env::var(name).map_or(default, |text: String| text.parse().expect("a number"))
    };
    let seed = number("LONGHAUL_SEED", 1);
    println!("LONGHAUL_SEED={seed}");
    for session in 0..number("LONGHAUL_SESSIONS", SESSIONS) {
        let mut random = Pcg64Mcg::seed_from_u64(seed << 32 | session);
        let network = Network::any(&mut random);
        let context = format!("LONGHAUL_SEED={seed}, session {session}, {network:?}");
        let mut pair = Pair::new(&mut random);
        pair.run(network, &mut random, &context);
        for (sent, end) in pair.sent().into_iter().zip(pair.received()) {
            assert_eq!(sent.len(), end.received.len(), "{context}");
            assert!(sent == end.received, "{context}: other bytes have arrived");
            let again = (pair.damaged + 1) * 256 * 1024;
            assert!(end.twice <= again, "{context}: {} bytes came twice", end.twice);
            if pair.damaged == 0 {
                assert_eq!(end.twice, 0, "{context}: positions are exact");
            }
        }
    }
}

#[test]
fn permanently_damaged_data_ends_the_session() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut pair = Pair::new(&mut random);
    let error = pair.run_with_group_always_damaged(&mut random);
    assert!(error.to_string().contains("keep arriving damaged"), "{error}");
}

#[test]
fn wrong_or_missing_digest_is_not_confirmed() {
    let mut random = Pcg64Mcg::seed_from_u64(8);
    let content = bytes(1000, &mut random);
    for digest in [&[0; 32][..], &[0; 16], &[]] {
        let error = Pair::new(&mut random).fin_with_digest(&content, digest);
        assert_eq!(error, ReceiveError::WholeDiffers, "{} bytes", digest.len());
        assert_eq!(error.code(), EndCode::WholeDiffers);
    }
}

/// Bytes that depend on the seed.
fn bytes(length: usize, random: &mut impl Rng) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    bytes
}

/// A number below `limit`.
fn below(limit: u64, random: &mut impl Rng) -> u64 {
    random.next_u64() % limit.max(1)
}
