// SPDX-License-Identifier: GPL-2.0-or-later
//! What hashing costs an end of a session: prints CPU seconds per gigabyte (10^9 bytes), as a sender and as a receiver do
//! it, group by group. `bench/session` calls it.

use longhaul_protocol::session::{Direction, GROUP, Prefix, Receiving, Sending};
use std::time::Instant;

/// How many groups: 2 GB.
const GROUPS: u64 = 8192;

fn main() {
    // Incompressible, and larger than the processor's second cache.
    let bytes: Vec<u8> =
        (0..16 * GROUP).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let groups: Vec<_> = bytes.chunks(GROUP as usize).map(bytes::Bytes::copy_from_slice).collect();
    let mut sending = Sending::new(Direction::FromInitiator, u64::MAX);
    let mut receiving = Receiving::new(Direction::FromInitiator, Prefix::default(), 1 << 30);
    let (mut sent, mut received) = (0.0, 0.0);
    for group in groups.iter().cycle().take(GROUPS as usize) {
        let begun = Instant::now();
        let head = sending.seal(group);
        sent += begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        receiving.data(&head, group.clone()).expect("it is what was sent");
        receiving.deliver(GROUP);
        received += begun.elapsed().as_secs_f64();
    }
    assert_eq!(receiving.received(), GROUPS * GROUP);
    let gigabytes = (GROUPS * GROUP) as f64 / 1e9;
    println!("{:.4} {:.4}", sent / gigabytes, received / gigabytes);
}
