// SPDX-License-Identifier: GPL-2.0-or-later
//! What commands do.

use super::{Answer, Command, Denial, Limit, Limited, Shunned, Which, draining};
use crate::{
    admission::denied::{self, LONGEST, LONGEST_WHY},
    observe::{Live, Withdrawal},
    state::Shared,
};
use relay::rates::Sharer;
use session::ticket::MAX_ID_LEN;
use units::Rate;

/// Maximum number of transfers in one answer.
const MOST_LISTED: usize = 10_000;

/// Does what a command says, and has the depots before this one do it.
pub(super) fn carry_out(command: Command, shared: &Shared) -> Answer {
    let others = match &command {
        // Numbers are each depot's own.
        Command::End(Which { transfer: Some(_), .. })
        | Command::Limit { whose: Limited::Transfer(_), .. }
        | Command::Denied
        | Command::Limits
        | Command::Draining => Vec::new(),
        command => draining::pass_on(command, shared),
    };
    let own = carry_out_here(command, shared);
    others.into_iter().fold(own, both)
}

/// What two depots answer together.
fn both(one: Answer, other: Answer) -> Answer {
    match (one, other) {
        (
            Answer::Transfers { mut transfers, more },
            Answer::Transfers { transfers: others, more: further },
        ) => {
            transfers.extend(others);
            Answer::Transfers { transfers, more: more + further }
        }
        (Answer::Ended(one), Answer::Ended(other)) => Answer::Ended(one + other),
        (one, _) => one,
    }
}

fn carry_out_here(command: Command, shared: &Shared) -> Answer {
    match command {
        Command::Transfers(which) => transfers(&which, shared),
        Command::End(which) if which.is_all() => {
            Answer::Error("say which transfers: by number, client, ticket or file".to_owned())
        }
        Command::End(which) => {
            let ended = end(|live| matches(live, &which), Withdrawal::Operator, shared);
            tracing::info!(?which, ended, "transfers ended by the operator");
            Answer::Ended(ended)
        }
        Command::Deny { who, seconds, why } => deny(&who, seconds, why, shared),
        Command::Allow { who } => match shared.denied.allow(&who) {
            Ok(was_denied) => {
                tracing::info!(?who, was_denied, "allowed again by the operator");
                Answer::Allowed { was_denied }
            }
            Err(error) => Answer::Error(error),
        },
        Command::Denied => Answer::Denied(shared.denied.all()),
        Command::Limit { whose, rate_bps } => limit(&whose, rate_bps, shared),
        Command::Limits => Answer::Limits(limits(shared)),
        Command::Draining => Answer::Draining(draining::own(shared)),
    }
}

fn transfers(which: &Which, shared: &Shared) -> Answer {
    let all = shared.observer.transfers(|live| matches(live, which));
    let more = all.len().saturating_sub(MOST_LISTED);
    let transfers = all.iter().take(MOST_LISTED).map(|live| live.transfer(live.sockets()));
    Answer::Transfers { transfers: transfers.collect(), more }
}

fn deny(who: &Shunned, seconds: u64, why: String, shared: &Shared) -> Answer {
    if !(1..=LONGEST.as_secs()).contains(&seconds) {
        let days = LONGEST.as_secs() / 86_400;
        return Answer::Error(format!("the time is from 1 s to {days} days"));
    }
    if why.len() > LONGEST_WHY || why.contains(char::is_control) {
        return Answer::Error(format!("the reason is one line of at most {LONGEST_WHY} bytes"));
    }
    if let Shunned::Ticket(id) = who
        && (id.is_empty() || id.len() > MAX_ID_LEN || !id.bytes().all(|b| b.is_ascii_graphic()))
    {
        return Answer::Error("that is not a ticket name (jti)".to_owned());
    }
    let until_unix_s = denied::now().saturating_add(seconds);
    let denial = Denial { who: who.clone(), until_unix_s, why };
    if let Err(error) = shared.denied.deny(denial) {
        return Answer::Error(error);
    }
    // Those that begin in this moment end within a second, when all are looked at.
    let is_denied = |live: &Live| match who {
        Shunned::Client(net) => live.is_of(|client| net.contains(&client.to_canonical())),
        Shunned::Ticket(id) => live.has_ticket(id),
    };
    let ended = end(is_denied, Withdrawal::Denied, shared);
    tracing::info!(?who, seconds, ended, "denied by the operator");
    Answer::Ended(ended)
}

/// The lowest rate that may be set, in bit/s: with less a transfer stands still.
const LEAST: u64 = 8_000;

fn limit(whose: &Limited, rate_bps: Option<u64>, shared: &Shared) -> Answer {
    if rate_bps.is_some_and(|bps| bps < LEAST) {
        return Answer::Error(format!("the lowest rate is {LEAST} bit/s. To stop it, end it"));
    }
    let rate = rate_bps.map(Rate::bits_per_second);
    let sharer = match whose {
        Limited::Client(address) => Sharer::client(*address),
        Limited::Ticket(id) if id.is_empty() || id.len() > MAX_ID_LEN => {
            return Answer::Error("that is not a ticket name (jti)".to_owned());
        }
        Limited::Ticket(id) => Sharer::Ticket(id.as_str().into()),
        Limited::Transfer(number) => {
            let is_there = shared.rates.set_transfer(*number, rate);
            tracing::info!(number, rate_bps, is_there, "rate of a transfer set by the operator");
            return Answer::Limited { is_there };
        }
    };
    match shared.rates.set(&sharer, rate) {
        Ok(()) => {
            tracing::info!(?whose, rate_bps, "rate set by the operator");
            Answer::Limited { is_there: true }
        }
        Err(error) => Answer::Error(error.to_string()),
    }
}

fn limits(shared: &Shared) -> Vec<Limit> {
    let all = shared.rates.all_set().into_iter().map(|(sharer, rate)| {
        let whose = match sharer {
            Sharer::Client(address) => Limited::Client(address),
            Sharer::Ticket(id) => Limited::Ticket(id.to_string()),
        };
        Limit { whose, rate_bps: rate.bps() }
    });
    all.collect()
}

fn end(are: impl Fn(&Live) -> bool, why: Withdrawal, shared: &Shared) -> usize {
    shared.observer.transfers(are).iter().filter(|live| live.withdraw(why)).count()
}

fn matches(live: &Live, which: &Which) -> bool {
    let Which { transfer, client, ticket, file } = which;
    transfer.is_none_or(|number| live.number == number)
        && client.is_none_or(|net| live.is_of(|client| net.contains(&client.to_canonical())))
        && ticket.as_ref().is_none_or(|id| live.has_ticket(id))
        && file.as_ref().is_none_or(|text| live.asks_for(text))
}
