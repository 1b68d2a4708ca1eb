// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers in both directions at once, over a path whose rates differ.
//!
//! ```text
//! received data ──▶ queue of the receiving link ◀── acknowledgements of what is sent
//! sent data     ──▶ queue of the sending link   ◀── acknowledgements of what is received
//! ```
//! 1. Acknowledgements take their part of the link that they share: one for every second segment.
//! 2. They wait in its queue behind the data. A link that a transfer fills has a queue of one bandwidth-delay product, as
//!    everywhere in the model, so the other transfer's round trip is twice that of the path.
//!
//! Source: Kalampoukas, Varma and Ramakrishnan 1998, "Improving TCP throughput over two-way asymmetric links"; RFC 3449, section 2.
//! Limits: one queue a link, first in, first out; no acknowledgement is lost.

use crate::{Target, facts::Facts, finding::Direction, limits};
use model::transfer::{Transfer, mean_rate};
use serde::Serialize;
use units::Rate;

/// What both transfers carry, each while the other one runs, in bits of payload a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// What this host receives.
    pub receive_bps: u64,
    /// What it sends.
    pub send_bps: u64,
    /// Of its sending link, what acknowledgements of a full receiving link take.
    pub acknowledgements_sent_bps: u64,
    /// Of its receiving link, what acknowledgements of a full sending link take.
    pub acknowledgements_received_bps: u64,
}

/// A transfer that carries this part of its link fills it and the queue before it.
const FILLS: f64 = 0.7;

/// Acknowledgements leave something.
const LEAST_BPS: f64 = 1000.0;

/// The prediction.
///
/// # Errors
/// No closed form is for one of the transfers; the text says why.
pub fn both_at_once(facts: &Facts, target: &Target) -> Result<Shared, String> {
    let alone = |direction| -> Result<_, String> {
        let transfer = limits::transfer(facts, target, direction);
        let carried = mean_rate(&transfer)?;
        Ok((transfer, carried))
    };
    let (received, sent) = (alone(Direction::Receive)?, alone(Direction::Send)?);
    let share = |direction| limits::acknowledged_share(facts, direction);
    let of_received = on_link(&received) * share(Direction::Receive);
    let of_sent = on_link(&sent) * share(Direction::Send);
    let next_to =
        |(transfer, _): &(Transfer<'_>, Rate), other: &(Transfer<'_>, Rate), taken: f64| {
            let fills = on_link(other) >= FILLS * other.0.link.bps() as f64;
            let left = (transfer.link.bps() as f64 - taken).max(LEAST_BPS);
            mean_rate(&Transfer {
                link: Rate::bits_per_second(left as u64),
                round_trip: transfer.round_trip.saturating_mul(if fills { 2 } else { 1 }),
                ..transfer.clone()
            })
        };
    let full =
        |direction: Direction| (target.rate_of(direction).bps() as f64 * share(direction)) as u64;
    Ok(Shared {
        receive_bps: next_to(&received, &sent, of_sent)?.bps(),
        send_bps: next_to(&sent, &received, of_received)?.bps(),
        acknowledgements_sent_bps: full(Direction::Receive),
        acknowledgements_received_bps: full(Direction::Send),
    })
}

/// What a transfer takes of its link, headers included.
fn on_link((transfer, carried): &(Transfer<'_>, Rate)) -> f64 {
    carried.bps() as f64 * transfer.on_link.get() as f64 / transfer.payload.get() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::tuned;

    #[test]
    fn acknowledgements_take_their_part_of_the_narrow_direction() {
        let target: Target = "100mbit/10mbit@40ms".parse().unwrap();
        let shared = both_at_once(&tuned(), &target).unwrap();
        // 4167 acknowledgements of 52 bytes a second.
        assert_eq!(shared.acknowledgements_sent_bps / 1000, 1733);
        assert_eq!(shared.acknowledgements_received_bps / 1000, 173);
        let alone = limits::predict(&tuned(), &target, Direction::Send).unwrap().bps();
        let taken = alone.saturating_sub(shared.send_bps);
        assert!((1_000_000..2_500_000).contains(&taken), "{taken} of {alone}: {shared:?}");
        assert!(shared.receive_bps < 100_000_000 && shared.receive_bps > 50_000_000, "{shared:?}");
    }

    /// A window of 64 KB over twice the round trip carries half.
    #[test]
    fn queue_of_the_other_direction_halves_a_small_window() {
        let mut facts = tuned();
        crate::rules::tests::set(&mut facts, "net.ipv4.tcp_rmem", "4096 131072 98304");
        let target: Target = "100mbit/10mbit@40ms".parse().unwrap();
        let alone = limits::predict(&facts, &target, Direction::Receive).unwrap().bps() as f64;
        let shared = both_at_once(&facts, &target).unwrap();
        let ratio = shared.receive_bps as f64 / alone;
        assert!((0.45..0.55).contains(&ratio), "{ratio}");
    }

    #[test]
    fn control_without_a_form_is_named() {
        let mut facts = tuned();
        crate::rules::tests::set(&mut facts, "net.ipv4.tcp_congestion_control", "vegas");
        let target: Target = "100mbit/10mbit@40ms".parse().unwrap();
        assert!(both_at_once(&facts, &target).unwrap_err().contains("vegas"));
    }
}
