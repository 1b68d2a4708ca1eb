// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot does once a second: it gives back what has lain unused, reads again what may have changed, and ends
//! transfers that would be refused now.

use crate::{
    control::{self, sharing},
    idle_pool,
    lifecycle::Phase,
    memory::{self, PeakDrop, Work},
    observe::{Live, Withdrawal},
    settings::Settings,
    state::Shared,
};
use std::{sync::Arc, time::Duration};

/// How often transfers are looked at for their receipts.
const NOTE: Duration = Duration::from_millis(100);

/// Gives back what has lain unused for long, for as long as the depot runs.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let (mut connections, mut transfers) = (PeakDrop::default(), PeakDrop::default());
    let mut work = Work::default();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        shared.transfers.resources.pipes.tidy();
        let settings = shared.settings();
        shared.next_hops.pool.tidy(idle_pool::limits_of(&settings.config.idle_connections));
        settings.refresh();
        shared.next_hops.paced.refresh();
        shared.observer.look();
        withdraw_what_is_refused(&shared, &settings);
        shared.lifecycle.spare.refill();
        sharing::tidy(&shared);
        if shared.lifecycle.kept.owes() && shared.lifecycle.phase() == Phase::Serving {
            let depot = Arc::clone(&shared);
            drop(tokio::task::spawn_blocking(move || {
                let _ = depot.lifecycle.kept.save(|| control::decided(&depot.admission));
            }));
        }
        let (begun, crest) = shared.observer.crest();
        // All three are to know.
        let fewer = [
            connections.has_fallen(shared.admission.gate.crest()),
            transfers.has_fallen(crest),
            work.is_over(begun, crest.1),
        ];
        if fewer.contains(&true) {
            // No task waits for it, and it needs no second try.
            drop(tokio::task::spawn_blocking(memory::give_back));
        }
    }
}

/// Looks at the transfers' sockets for their receipts, for as long as the depot runs.
pub(crate) async fn note_limits(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(NOTE).await;
        shared.observer.note_limits();
    }
}

/// Ends the transfers that would be refused now, unless the configuration lets them end by themselves.
fn withdraw_what_is_refused(shared: &Shared, settings: &Settings) {
    let is_withdrawn = |live: &Live| refusal_of(live, shared, settings).is_some();
    for live in shared.observer.transfers(is_withdrawn) {
        if let Some(why) = refusal_of(&live, shared, settings) {
            live.withdraw(why);
        }
    }
}

/// Why a transfer under way would be refused, if it was asked for now.
fn refusal_of(live: &Live, shared: &Shared, settings: &Settings) -> Option<Withdrawal> {
    let ticket = live.asked.ticket.as_deref();
    let denied = ticket.and_then(|ticket| shared.admission.denied.ticket(&ticket.id));
    if let Some(why) =
        denied.or_else(|| live.find_client(|client| shared.admission.denied.client(client)))
    {
        return Some(Withdrawal::Denied(why));
    }
    if !settings.config.control.withdraw {
        return None;
    }
    if let Some(ticket) = ticket {
        let takes = settings.trust.still_takes(&ticket.id, &ticket.key);
        return (!takes).then_some(Withdrawal::Ticket);
    }
    let login = live.asked.login.as_deref();
    if login.is_some_and(|login| !settings.logins.still_takes(login)) {
        return Some(Withdrawal::Login);
    }
    let lets_in = settings.config.lets_in(live.asked.client.ip());
    (!lets_in).then_some(Withdrawal::Client)
}
