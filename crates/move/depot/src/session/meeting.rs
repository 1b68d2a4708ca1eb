// SPDX-License-Identifier: GPL-2.0-or-later
//! Meetings: two connections of one session, of the initiator and of the acceptor, that this depot joins. The first
//! one waits for the other (ANSWER 100).

use crate::{
    admission::allowance::Allowance,
    client::Client,
    config::DepotsAround,
    http::refused::stopping,
    observe::Entry,
    session::{
        early::{self, AtEnd},
        hop::NoSession,
        meetings::{Arrival, Joining, Place},
        relay::{Side, Times, move_bytes},
        serve::{refuse, tell, tell_open},
    },
    state::RequestContext,
};
use http::StatusCode;
use protocol::{
    Authority, Host,
    http::{Fault, ProxyError},
    session::{Answer, Role, SessionId},
};
use relay::rates::TransferLimits;
use std::time::Duration;
use tokio::{sync::oneshot, time::sleep};

/// The connection of the end that came second.
#[derive(Debug)]
struct Joined {
    client: Client,
    allowance: Allowance,
    /// Dropped when the session is over.
    over: oneshot::Sender<()>,
}

/// Joins the connection that waits for this one, or waits for it.
pub(super) async fn meet(
    mut client: Client,
    entry: Entry,
    of: (SessionId, Role),
    allowance: Allowance,
    context: RequestContext<'_>,
) {
    let most = context.config().session.meetings;
    loop {
        let arrival = match context.transfers.meetings.arrive(of, client.asker().client, most) {
            Ok(arrival) => arrival,
            Err(fault) => return refuse(client, entry, fault.into(), context).await,
        };
        match arrival {
            Arrival::Waits(place) => return wait(client, entry, place, (allowance, context)).await,
            Arrival::Joins(join) => {
                let (over, is_over) = oneshot::channel();
                match join.send(Box::new(Joined { client, allowance: allowance.clone(), over })) {
                    Ok(()) => {
                        // Its sender is dropped, never used. The session's line is the other connection's.
                        let _ = is_over.await;
                        return entry.answered();
                    }
                    // It has gone away in this moment.
                    Err(joined) => client = unpacked(joined).client,
                }
            }
        }
    }
}

/// Only [`meet`] puts connections into the table.
fn unpacked(joined: Joining) -> Joined {
    *joined.downcast().expect("a connection to join")
}

/// Waits for the other end, and moves the session's bytes.
async fn wait(
    mut client: Client,
    entry: Entry,
    mut place: Place<'_>,
    (allowance, context): (Allowance, RequestContext<'_>),
) {
    let time = context.config().session.meeting_time;
    let waits = Answer::of(StatusCode::CONTINUE, context.id.clone()).to_bytes();
    let waits = waits.expect("a short header");
    if let Err(end) = tell(&mut client, &waits, context).await {
        return entry.session_ended(end);
    }
    let why = {
        let (mut source, _) = client.stream.split();
        tokio::select! {
            biased;
            joined = &mut place.joined => match joined {
                Ok(joined) => Ok(joined),
                Err(_) => Err(Fault::internal("the meeting's table is gone").into()),
            },
            error = early::until_gone(&mut source, &mut client.ahead, AtEnd::Gone) => {
                Err(NoSession::Gone(error))
            }
            () = sleep(Duration::from(time)) => {
                let reason = format!("the other end of the session did not come within {time}");
                let (status, error) = (StatusCode::GATEWAY_TIMEOUT, ProxyError::ConnectionTimeout);
                Err(Fault::new(status, error, reason).into())
            }
            () = context.lifecycle.leaving() => Err(stopping().into()),
        }
    };
    let why = why.or_else(|why| {
        // It may have come in this moment.
        place.joined.close();
        place.joined.try_recv().map_err(|_| why)
    });
    drop(place);
    match why {
        Ok(joined) => join(client, unpacked(joined), entry, (allowance, context)).await,
        Err(why) => refuse(client, entry, why, context).await,
    }
}

/// Tells both that the session is open, and moves its bytes.
async fn join(
    mut near: Client,
    joined: Joined,
    mut entry: Entry,
    (own, context): (Allowance, RequestContext<'_>),
) {
    let Joined { client: mut far, allowance: other, over } = joined;
    // Of two tickets the stricter one.
    let rate = own.rate.into_iter().chain(other.rate).min();
    let most = own.bytes.into_iter().chain(other.bytes).min();
    let limits = TransferLimits { granted: rate, ..own.limits() };
    let config = context.config();
    let name = Authority { host: Host::Name("meeting".to_owned()), port: 0 };
    entry.fetching(&name, &near.stream);
    let live = entry.opened();
    live.reached(&name, &far.stream);
    context.share_memory(near.asker().client, [&near.stream, &far.stream]);
    live.meets(far.stream.peer().ip());
    live.keep_receipt(near.asker().client, &context.observer.receipts);
    let pacing = context.admission.rates.begin(live.number, near.stream.peer().ip(), limits);
    let held = pacing.hold(&near.stream, &far.stream, |peer| config.hop_options(peer));
    if let Err(error) = held {
        tracing::warn!(%error, "cannot hold a session to its rate");
    }
    let (open, shown) = (Answer::of(StatusCode::OK, context.id.clone()), (&live, &pacing));
    let told = match tell_open(&mut near, open.clone(), shown, context).await {
        Ok(()) => tell_open(&mut far, open, shown, context).await,
        failed => failed,
    };
    let idle = config.session.idle.into();
    let depots = DepotsAround { before: near.depots_before, after: far.depots_before };
    let times = Times { timeouts: &config.timeouts, depots, idle, most };
    let minimum = |of: &Client| config.minimum_read(of.stream.peer().ip(), of.depots_before);
    let (of_near, of_far) = (minimum(&near), minimum(&far));
    let end = match told {
        Ok(()) => {
            let (one, other) = (
                Side { stream: &mut near.stream, ahead: &mut near.ahead, minimum: of_near },
                Side { stream: &mut far.stream, ahead: &mut far.ahead, minimum: of_far },
            );
            Box::pin(move_bytes(one, other, &live, &context.transfers.resources, times)).await
        }
        Err(end) => end,
    };
    entry.session_ended(end);
    drop(over);
}
