// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers under way, summed by client and by ticket.

use super::{
    Live,
    status::{MOST_SUMS, Sum},
};
use std::{cmp::Reverse, collections::HashMap, sync::Arc};

/// The sums of those for which there is a name, the fastest first.
pub(super) fn by(transfers: &[Arc<Live>], name: impl Fn(&Live) -> Option<String>) -> Vec<Sum> {
    let mut sums: HashMap<String, Sum> = HashMap::new();
    for live in transfers {
        let Some(of) = name(live) else { continue };
        let none =
            |of| Sum { of, transfers: 0, up_bytes: 0, down_bytes: 0, up_bps: 0, down_bps: 0 };
        let sum = sums.entry(of).or_insert_with_key(|of| none(of.clone()));
        let (moved, rates) = (live.moved(), live.rates_now());
        sum.transfers += 1;
        sum.up_bytes += moved.up_bytes;
        sum.down_bytes += moved.down_bytes;
        sum.up_bps += rates.up_bps;
        sum.down_bps += rates.down_bps;
    }
    let mut sums: Vec<_> = sums.into_values().collect();
    sort(&mut sums);
    sums
}

/// Adds the sums of another process.
pub(super) fn add(to: &mut Vec<Sum>, others: &[Sum]) {
    for other in others {
        let Some(own) = to.iter_mut().find(|own| own.of == other.of) else {
            to.push(other.clone());
            continue;
        };
        own.transfers = own.transfers.saturating_add(other.transfers);
        for (own, n) in [
            (&mut own.up_bytes, other.up_bytes),
            (&mut own.down_bytes, other.down_bytes),
            (&mut own.up_bps, other.up_bps),
            (&mut own.down_bps, other.down_bps),
        ] {
            *own = own.saturating_add(n);
        }
    }
    sort(to);
}

/// The fastest first, and no more than a document has.
fn sort(sums: &mut Vec<Sum>) {
    let bps = |sum: &Sum| sum.up_bps.saturating_add(sum.down_bps);
    sums.sort_by(|a, b| {
        let order = |sum: &Sum| (Reverse(bps(sum)), Reverse(sum.transfers));
        order(a).cmp(&order(b)).then_with(|| a.of.cmp(&b.of))
    });
    sums.truncate(MOST_SUMS);
}

/// The client of a transfer: the one for which a depot asks, if there is one.
pub(super) fn client(live: &Live) -> String {
    live.asked.owner().to_string()
}

/// The ticket of a transfer.
pub(super) fn ticket(live: &Live) -> Option<String> {
    live.asked.ticket.as_ref().map(|ticket| ticket.id.clone())
}
