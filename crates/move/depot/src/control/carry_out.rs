// SPDX-License-Identifier: GPL-2.0-or-later
//! What commands do.

use super::{
    Answer, Command, Denial, Limit, Limited, Origin, Policy, Shunned, Which, draining,
    kept::{Decisions, LEAST_BPS},
    sharing,
};
use crate::{
    admission::{Admission, denied},
    lifecycle::Phase,
    observe::{Live, Observer, Withdrawal},
    state::Shared,
};
use protocol::session::SessionId;
use relay::rates::{self, Rates};
use units::Rate;

/// Maximum number of transfers in one answer.
const MOST_LISTED: usize = 10_000;

/// Does what a command says, and has the depots before this one do it.
pub(super) fn carry_out(command: Command, origin: Origin, shared: &Shared) -> Answer {
    let decides =
        matches!(command, Command::Deny { .. } | Command::Allow { .. } | Command::Limit { .. });
    // Held until it is carried out, so that a successor inherits it or the operator repeats it there.
    let inherited = decides.then(|| shared.lifecycle.sharing.inherited());
    if origin == Origin::Operator && inherited.as_ref().is_some_and(|inherited| **inherited) {
        return Answer::Error("another depot is taking over. Repeat the command".to_owned());
    }
    let others = match &command {
        Command::Denied | Command::Limits | Command::Draining | Command::Share(_) => Vec::new(),
        command => draining::pass_on(command, shared),
    };
    let own = carry_out_here(command, origin, shared);
    let answer = others.into_iter().fold(own, both);
    if decides
        && !matches!(answer, Answer::Error(_))
        && shared.lifecycle.phase() == Phase::Serving
        && let Err(error) = shared.lifecycle.kept.save(|| decided(&shared.admission))
    {
        tracing::error!(error, "a decision of the operator applies, and cannot be kept");
        return Answer::Error(format!(
            "it applies until the depot ends, and cannot be kept: {error}"
        ));
    }
    answer
}

/// What the operator has decided so far.
pub(crate) fn decided(admission: &Admission) -> Decisions {
    Decisions { denied: admission.denied.all(), limits: limits(admission) }
}

/// Lets these decisions apply, and no others.
pub(crate) fn decide(Decisions { denied, limits }: Decisions, admission: &Admission) {
    admission.denied.replace(denied);
    for Limit { whose, rate_bps } in limits {
        let Some(sharer) = sharing::sharer(&whose) else { continue };
        if admission.rates.set(&sharer, Some(Rate::bits_per_second(rate_bps))).is_err() {
            tracing::error!(?whose, "too many rates are set: this one does not apply");
        }
    }
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
        (Answer::Limited { is_there: one }, Answer::Limited { is_there: other }) => {
            Answer::Limited { is_there: one || other }
        }
        (
            Answer::Policy { transfers, sharing },
            Answer::Policy { transfers: others, sharing: others_sharing },
        ) => Answer::Policy {
            transfers: transfers.saturating_add(others),
            sharing: sharing.saturating_add(others_sharing),
        },
        (one, _) => one,
    }
}

fn carry_out_here(command: Command, origin: Origin, shared: &Shared) -> Answer {
    match command {
        Command::Transfers(which) => transfers(&which, shared),
        Command::End(which) if which.is_all() => {
            Answer::Error("say which transfers: by number, client, ticket or file".to_owned())
        }
        Command::End(which) => {
            let ended = end(|live| matches(live, &which), &Withdrawal::Operator, &shared.observer);
            tracing::info!(?which, ended, "transfers ended by the operator");
            Answer::Ended(ended)
        }
        Command::Deny { who, seconds, why } => deny(&who, seconds, why, shared),
        Command::Allow { who } => match shared.admission.denied.allow(&who) {
            Ok(was_denied) => {
                tracing::info!(?who, was_denied, "allowed again by the operator");
                Answer::Allowed { was_denied }
            }
            Err(error) => Answer::Error(error),
        },
        Command::Denied => Answer::Denied(shared.admission.denied.all()),
        Command::Limit {
            whose: whose @ (Limited::Transfer(_) | Limited::Session(_)),
            rate_bps,
        } => limit_running(&whose, rate_bps, shared),
        Command::Limit { whose, rate_bps } => limit(&whose, rate_bps, &shared.admission.rates),
        Command::Policy { whose, policy, rate_bps } => set_policy(&whose, policy, rate_bps, shared),
        Command::Limits => Answer::Limits(limits(&shared.admission)),
        Command::Draining => Answer::Draining(draining::own(shared)),
        Command::Share(elsewhere) if origin == Origin::Successor => {
            Answer::Share(Box::new(sharing::share(&elsewhere, shared)))
        }
        Command::Share(_) => Answer::Error("this depot does not drain".to_owned()),
    }
}

fn transfers(which: &Which, shared: &Shared) -> Answer {
    let all = shared.observer.transfers(|live| matches(live, which));
    let more = all.len().saturating_sub(MOST_LISTED);
    let transfers = draining::listed(&all, MOST_LISTED, shared);
    Answer::Transfers { transfers, more }
}

fn deny(who: &Shunned, seconds: u64, why: String, shared: &Shared) -> Answer {
    if seconds == 0 {
        return Answer::Error("the shortest time is 1 s".to_owned());
    }
    let until_unix_s = denied::now().saturating_add(seconds);
    let denial = Denial { who: who.clone(), until_unix_s, why };
    let why = denial.why.clone();
    if let Err(error) = denial.check().and_then(|()| shared.admission.denied.deny(denial)) {
        return Answer::Error(error);
    }
    // Those that begin in this moment end within a second, when all are looked at.
    let is_denied = |live: &Live| match who {
        Shunned::Client(net) => live.is_of(|client| net.contains(&client.to_canonical())),
        Shunned::Ticket(id) => live.has_ticket(id),
    };
    let ended = end(is_denied, &Withdrawal::Denied(why.as_str().into()), &shared.observer);
    tracing::info!(?who, seconds, why, ended, "denied by the operator");
    Answer::Ended(ended)
}

/// The numbers of a transfer, or of a session's transfers.
fn running(whose: &Limited, shared: &Shared) -> Result<Vec<u64>, String> {
    match whose {
        Limited::Transfer(number) => Ok(vec![*number]),
        Limited::Session(id) => {
            let id: SessionId =
                id.parse().map_err(|_| "that is not a session's name".to_owned())?;
            let its = shared.observer.transfers(|live| live.is_of_session(id));
            Ok(its.iter().map(|live| live.number).collect())
        }
        _ => Err("a policy is that of a transfer or session: name its number or name".to_owned()),
    }
}

fn check_rate(rate_bps: Option<u64>) -> Result<Option<Rate>, String> {
    match rate_bps {
        Some(bps) if bps < LEAST_BPS => {
            Err(format!("the lowest rate is {LEAST_BPS} bit/s. To stop it, end it"))
        }
        rate => Ok(rate.map(Rate::bits_per_second)),
    }
}

/// Limits what is under way, and nothing that begins later.
fn limit_running(whose: &Limited, rate_bps: Option<u64>, shared: &Shared) -> Answer {
    let found = check_rate(rate_bps).and_then(|rate| Ok((rate, running(whose, shared)?)));
    let (rate, numbers) = match found {
        Ok(found) => found,
        Err(error) => return Answer::Error(error),
    };
    let rates = &shared.admission.rates;
    let is_there = numbers.iter().filter(|number| rates.set_transfer(**number, rate)).count() > 0;
    tracing::info!(?whose, rate_bps, is_there, "rate of a transfer set by the operator");
    Answer::Limited { is_there }
}

fn set_policy(whose: &Limited, policy: Policy, rate_bps: Option<u64>, shared: &Shared) -> Answer {
    let set = || -> Result<Vec<bool>, String> {
        let target = check_rate(rate_bps)?;
        let by = match policy {
            Policy::Fixed => {
                return Err("a fixed rate needs a transport that does not give way to congestion, and depots relay TCP. Take \
                     high, fair or low"
                    .to_owned());
            }
            Policy::High => rates::Policy::High,
            Policy::Fair => rates::Policy::Fair,
            Policy::Low { minimum_bps } => {
                check_rate(Some(minimum_bps))?;
                let minimum = Rate::bits_per_second(minimum_bps);
                if target.is_some_and(|target| target < minimum) {
                    return Err("the minimum is more than the target rate".to_owned());
                }
                rates::Policy::Low { minimum }
            }
        };
        let numbers = running(whose, shared)?.into_iter();
        let set =
            numbers.filter_map(|number| shared.admission.rates.set_policy(number, by, target));
        Ok(set.collect())
    };
    match set() {
        Ok(set) => {
            let sharing = set.iter().filter(|shares| **shares).count();
            tracing::info!(
                ?whose,
                ?policy,
                rate_bps,
                transfers = set.len(),
                "policy set by the operator"
            );
            Answer::Policy { transfers: set.len(), sharing }
        }
        Err(error) => Answer::Error(error),
    }
}

fn limit(whose: &Limited, rate_bps: Option<u64>, rates: &Rates) -> Answer {
    let rate = rate_bps.map(Rate::bits_per_second);
    let checked = Limit { whose: whose.clone(), rate_bps: rate_bps.unwrap_or(LEAST_BPS) }.check();
    let set = checked.and_then(|()| {
        let sharer = sharing::sharer(whose).ok_or_else(|| "it begins no transfers".to_owned())?;
        rates.set(&sharer, rate).map_err(|error| error.to_string())
    });
    match set {
        Ok(()) => {
            tracing::info!(?whose, rate_bps, "rate set by the operator");
            Answer::Limited { is_there: true }
        }
        Err(error) => Answer::Error(error),
    }
}

fn limits(admission: &Admission) -> Vec<Limit> {
    let all = admission.rates.all_set().into_iter();
    let all = all.map(|(of, rate)| Limit { whose: sharing::limited(of), rate_bps: rate.bps() });
    all.collect()
}

fn end(are: impl Fn(&Live) -> bool, why: &Withdrawal, observer: &Observer) -> usize {
    observer.transfers(are).iter().filter(|live| live.withdraw(why.clone())).count()
}

fn matches(live: &Live, which: &Which) -> bool {
    let Which { transfer, client, ticket, file } = which;
    transfer.is_none_or(|number| live.number == number)
        && client.is_none_or(|net| live.is_of(|client| net.contains(&client.to_canonical())))
        && ticket.as_ref().is_none_or(|id| live.has_ticket(id))
        && file.as_ref().is_none_or(|text| live.asks_for(text))
}
