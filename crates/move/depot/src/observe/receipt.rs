// SPDX-License-Identifier: GPL-2.0-or-later
//! Receipts: what limited each transfer, second by second ([`limits`]), and which of them may be asked for.
//!
//! A transfer's sockets are looked at up to ten times a second, and all of them together at most a thousand times. A receipt
//! can be asked for by the token that its request named, or by its session's name, until some minutes after its end. It tells
//! nothing of addresses. Bounds: [`MOST`] receipts, of which [`MOST_OF_CLIENT`] are one client's; the oldest go first.

use crate::admission::verdict::Grant;
use limits::{DepotReceipt, Limited, Receipt, RelayClock, RelaySample, Row};
use protocol::{DepotId, Fetch, http::stripes::Token};
use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Maximum number of receipts that can be asked for.
const MOST: usize = 256;
/// Of these, the most of one client.
const MOST_OF_CLIENT: usize = 32;
/// How long a receipt can be asked for after the end of its transfer.
const KEPT: Duration = Duration::from_secs(120);
/// How often one can be asked for: each time depots behind this one are asked, too.
const MOST_ASKED: u32 = 16;

/// The receipt of one transfer.
#[derive(Debug)]
pub(crate) struct TransferReceipt {
    since: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clock: RelayClock,
    receipt: Receipt,
    client_rtt_us: Option<u32>,
    upstream_rtt_us: Option<u32>,
    /// The next hop, if it is a depot.
    next: Option<(Fetch, Grant)>,
    ended: Option<Instant>,
}

impl TransferReceipt {
    /// Of a transfer that began then.
    pub(crate) fn new(since: Instant) -> Self {
        Self { since, state: Mutex::default() }
    }

    /// Adds the time since the last look. Round trips are those of both connections, in microseconds.
    pub(crate) fn look(&self, sample: &RelaySample, [client, upstream]: [Option<u32>; 2]) {
        let mut state = self.state();
        let from = state.clock.until();
        let row = state.clock.look(sample);
        state.receipt.add(from, sample.at, &row);
        state.client_rtt_us = client.or(state.client_rtt_us);
        state.upstream_rtt_us = upstream.or(state.upstream_rtt_us);
    }

    /// The next hop is this depot.
    pub(crate) fn leads_to(&self, fetch: &Fetch, grant: Grant) {
        self.state().next = Some((fetch.clone(), grant));
    }

    /// The next hop, if it is a depot.
    pub(crate) fn next(&self) -> Option<(Fetch, Grant)> {
        self.state().next.clone()
    }

    /// The transfer is over.
    pub(crate) fn end(&self) {
        self.state().ended = Some(Instant::now());
    }

    /// The strongest cause so far, and the sums of all.
    pub(crate) fn summary(&self) -> Option<(Limited, Row)> {
        let state = self.state();
        state.receipt.limited_by().map(|limited| (limited, state.receipt.total()))
    }

    /// What is told of it.
    pub(crate) fn told(&self, id: &DepotId) -> DepotReceipt {
        let state = self.state();
        DepotReceipt {
            depot: id.as_str().to_owned(),
            flow: state.clock.flow(),
            began_s_ago: self.since.elapsed().as_secs_f64(),
            next_is_depot: state.next.is_some(),
            client_rtt_us: state.client_rtt_us,
            upstream_rtt_us: state.upstream_rtt_us,
            receipt: state.receipt.clone(),
        }
    }

    fn is_over_for(&self, time: Duration) -> bool {
        self.state().ended.is_some_and(|ended| ended.elapsed() >= time)
    }

    /// No change is left half made, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receipts that can be asked for.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    /// The oldest first.
    kept: Mutex<VecDeque<Kept>>,
}

#[derive(Debug)]
struct Kept {
    token: Token,
    client: IpAddr,
    receipt: Arc<TransferReceipt>,
    asked: u32,
}

impl Receipts {
    /// Keeps the receipt of a client's transfer under its token. A token that is used again is that of its latest transfer.
    pub(crate) fn keep(&self, token: Token, client: IpAddr, receipt: Arc<TransferReceipt>) {
        let mut kept = self.kept();
        kept.retain(|other| (other.token, other.client) != (token, client));
        if kept.iter().filter(|other| other.client == client).count() >= MOST_OF_CLIENT
            && let Some(oldest) = kept.iter().position(|other| other.client == client)
        {
            kept.remove(oldest);
        }
        if kept.len() >= MOST {
            kept.pop_front();
        }
        kept.push_back(Kept { token, client, receipt, asked: 0 });
    }

    /// The receipt of this token, if it has not been asked for too often.
    pub(crate) fn find(&self, token: Token) -> Option<Arc<TransferReceipt>> {
        let mut all = self.kept();
        let kept = all.iter_mut().rev().find(|kept| kept.token == token)?;
        kept.asked = kept.asked.saturating_add(1);
        (kept.asked <= MOST_ASKED).then(|| Arc::clone(&kept.receipt))
    }

    /// Forgets the receipts whose time is over. To be called every second or so.
    pub(crate) fn tidy(&self) {
        self.kept().retain(|kept| !kept.receipt.is_over_for(KEPT));
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(n: u32) -> Token {
        Token(u128::from(n).to_be_bytes())
    }

    fn client(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    fn receipt() -> Arc<TransferReceipt> {
        Arc::new(TransferReceipt::new(Instant::now()))
    }

    #[test]
    fn one_client_cannot_displace_the_receipts_of_others() {
        let receipts = Receipts::default();
        receipts.keep(token(0), client(1), receipt());
        for n in 1..1000 {
            receipts.keep(token(n), client(2), receipt());
        }
        assert!(receipts.find(token(0)).is_some());
        assert!(receipts.find(token(999)).is_some() && receipts.find(token(900)).is_none());
        for n in 0..1000 {
            receipts.keep(token(5000 + n), client(100 + n), receipt());
        }
        assert_eq!(receipts.kept().len(), MOST);
    }

    #[test]
    fn receipt_is_told_a_few_times_only_and_of_the_latest_transfer() {
        let (receipts, latest) = (Receipts::default(), receipt());
        receipts.keep(token(7), client(1), receipt());
        receipts.keep(token(7), client(1), Arc::clone(&latest));
        for _ in 0..MOST_ASKED {
            assert!(Arc::ptr_eq(&receipts.find(token(7)).unwrap(), &latest));
        }
        assert!(receipts.find(token(7)).is_none());
        assert!(receipts.find(token(8)).is_none());
    }

    #[test]
    fn ended_receipts_are_forgotten_after_their_time() {
        let (receipts, one) = (Receipts::default(), receipt());
        receipts.keep(token(1), client(1), Arc::clone(&one));
        receipts.tidy();
        assert_eq!(receipts.kept().len(), 1);
        one.state().ended = Instant::now().checked_sub(KEPT);
        receipts.tidy();
        assert_eq!(receipts.kept().len(), 0);
    }
}
