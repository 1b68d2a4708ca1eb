// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot has in common with the ones before it that still drain: limits, and statistics.
//!
//! ```text
//! depot that serves                              each depot that drains
//!   Share { what all others have } ────────────▶  counts it in its own limits
//!   counts it in its own limits   ◀───────────── what it has, and what it has counted
//! ```
//! So connections and rates of all processes together stay within the limits, and no counter falls. The depot that
//! serves asks at [`PERIOD`]; one that drains says so when it is over, and its counters are added for good. Those of
//! one that was killed are added as they were last told.
//! Limits: between two exchanges a client's new transfer has its share of a rate already, while those elsewhere
//! have not given theirs up yet.

use super::{
    Answer, Command, ControlError, Elsewhere, Limited, Share, draining,
    processes::{Known, OfOthers},
};
use crate::{admission::Admission, lifecycle::Phase, observe::Observer, state::Shared};
use relay::rates::Sharer;
use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often depots that drain are asked.
const PERIOD: Duration = Duration::from_millis(50);
/// How often the depot looks whether there are any.
const LOOK: Duration = Duration::from_secs(1);
/// How often they are asked for their statistics too.
const IN_FULL: Duration = Duration::from_secs(1);
/// For how long the numbers of a depot apply that does not ask any more.
const FORGOTTEN: Duration = Duration::from_secs(5);
/// Room for transfers that begin while depots exchange their numbers.
const NUMBERS_BETWEEN: u64 = 1000;

/// Asks the depots that drain, before this one accepts any connection.
pub(crate) fn begin(shared: &Shared) {
    exchange(true, shared);
    // Each is told of the clients that it has said it has.
    exchange(false, shared);
    let last = shared.lifecycle.sharing.known().last_number();
    if let Some(last) = last {
        number_after(last, 0, &shared.observer);
    }
}

/// Gives transfers numbers that those of a depot which drains do not have: it may begin one more for each connection.
pub(crate) fn number_after(last: u64, connections: usize, observer: &Observer) {
    let next = last.saturating_add(connections as u64).saturating_add(NUMBERS_BETWEEN);
    observer.number_from(next.max(observer.last_number()));
}

/// Asks them for as long as this depot serves.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut in_full: Option<Instant> = None;
    loop {
        let pause = if shared.lifecycle.sharing.has_others() { PERIOD } else { LOOK };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.lifecycle.leaving() => return,
        }
        let is_due = in_full.is_none_or(|last| last.elapsed() >= IN_FULL);
        if is_due {
            in_full = Some(Instant::now());
        }
        let begun = Instant::now();
        let asking = Arc::clone(&shared);
        let _ = tokio::task::spawn_blocking(move || exchange(is_due, &asking)).await;
        // Large exchanges are rarer, so that they cost a tenth of a processor at most.
        tokio::time::sleep(9 * begun.elapsed()).await;
    }
}

/// Tells all depots that drain what the others have, and hears what they have. Waits for them.
fn exchange(in_full: bool, shared: &Shared) {
    let Some(place) = draining::place(&shared.started) else { return };
    let mut known = shared.lifecycle.sharing.known();
    // While a successor asks, this depot does not.
    if shared.lifecycle.phase() != Phase::Serving {
        return;
    }
    let mut sockets = draining::sockets(place);
    known.over.retain(|instance| sockets.iter().any(|(other, _)| other == instance));
    sockets.retain(|(instance, _)| !known.over.contains(instance));
    if sockets.is_empty() && known.draining.is_empty() {
        return;
    }
    let own = own(false, shared);
    for (instance, path) in &sockets {
        let elsewhere = known.elsewhere_of(*instance, &own, in_full);
        match ask(path, elsewhere) {
            Some(share) => known.heard(*instance, share),
            None => drop(known.draining.entry(*instance).or_default()),
        }
    }
    let there: HashSet<_> = draining::sockets(place).into_iter().map(|(it, _)| it).collect();
    let gone: Vec<_> = known.draining.keys().filter(|it| !there.contains(it)).copied().collect();
    for instance in gone {
        known.end(instance);
    }
    let shares: Vec<_> = known.draining.values().map(|peer| peer.share.clone()).collect();
    shared.lifecycle.sharing.set_others(!shares.is_empty());
    count(&shares, &shared.admission);
}

/// What one of them has; nothing if it does not answer now.
fn ask(path: &Path, elsewhere: Elsewhere) -> Option<Share> {
    match draining::ask(path, &Command::Share(Box::new(elsewhere))) {
        Ok(Answer::Share(share)) => Some(*share),
        // One of an earlier version.
        Err(ControlError::Refused(_)) => match draining::ask(path, &Command::Draining) {
            Ok(Answer::Draining(draining)) => Some(Share::of_earlier_version(draining)),
            _ => None,
        },
        _ => None,
    }
}

/// What a successor has to know of earlier processes and of this one.
pub(crate) fn to_inherit(shared: &Shared) -> Known {
    let mut known = shared.lifecycle.sharing.known().clone();
    known.hear_of(shared.lifecycle.sharing.instance(), own(true, shared));
    known
}

/// What other processes do and did, asked now.
pub(crate) fn elsewhere(shared: &Shared) -> OfOthers {
    exchange(true, shared);
    shared.lifecycle.sharing.known().told()
}

/// Forgets what a successor has said that does not ask any more.
pub(crate) fn tidy(shared: &Shared) {
    let mut asked = shared.lifecycle.sharing.asked();
    if asked.is_some_and(|asked| asked.elapsed() >= FORGOTTEN) {
        *asked = None;
        count(&[], &shared.admission);
    }
}

/// A successor has failed: what it has said does not apply. Waits for depots that drain.
pub(crate) fn is_alone_again(shared: &Shared) {
    *shared.lifecycle.sharing.inherited() = false;
    *shared.lifecycle.sharing.asked() = None;
    count(&[], &shared.admission);
    exchange(false, shared);
}

/// Counts what other processes have.
fn count(shares: &[Share], admission: &Admission) {
    admission.gate.set_elsewhere(shares.iter().map(|share| &share.connections));
    let mut numbers = HashMap::new();
    for (whose, n) in shares.iter().flat_map(|share| &share.transfers) {
        let Some(sharer) = sharer(whose) else { continue };
        let sum: &mut usize = numbers.entry(sharer).or_default();
        *sum = sum.saturating_add(*n);
    }
    admission.rates.set_elsewhere(numbers);
}

/// What this process has.
fn own(in_full: bool, shared: &Shared) -> Share {
    let transfers = shared.admission.rates.numbers().into_iter().map(|(of, n)| (limited(of), n));
    Share {
        connections: shared.admission.gate.own(),
        transfers: transfers.collect(),
        last_number: shared.observer.last_number(),
        is_over: shared.lifecycle.sharing.is_over(),
        told: in_full.then(|| (draining::own(shared), shared.observer.read().counters)),
    }
}

/// The answer of a depot that drains.
pub(super) fn share(elsewhere: &Elsewhere, shared: &Shared) -> Share {
    *shared.lifecycle.sharing.asked() = Some(Instant::now());
    let mut others = Share {
        connections: elsewhere.connections.clone(),
        transfers: elsewhere.transfers.clone(),
        ..Share::default()
    };
    others.bound();
    count(&[others], &shared.admission);
    let is_over = shared.lifecycle.sharing.is_over();
    own(elsewhere.in_full || is_over, shared)
}

/// The client or ticket, as rates name it.
pub(super) fn sharer(whose: &Limited) -> Option<Sharer> {
    match whose {
        Limited::Client(address) => Some(Sharer::client(*address)),
        Limited::Ticket(id) => Some(Sharer::Ticket(id.as_str().into())),
        Limited::Key(id) => Some(Sharer::Key(id.as_str().into())),
        Limited::Depot => Some(Sharer::Depot),
        Limited::Transfer(_) | Limited::Session(_) => None,
    }
}

/// The same, as commands name it.
pub(super) fn limited(of: Sharer) -> Limited {
    match of {
        Sharer::Client(address) => Limited::Client(address),
        Sharer::Ticket(id) => Limited::Ticket(id.to_string()),
        Sharer::Key(id) => Limited::Key(id.to_string()),
        Sharer::Depot => Limited::Depot,
    }
}
