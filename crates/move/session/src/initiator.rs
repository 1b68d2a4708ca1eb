// SPDX-License-Identifier: GPL-2.0-or-later
//! The initiator's side: connects, and connects again; by several connections at once, if the options say so and the acceptor
//! agrees.

use crate::{
    connection::{SessionDialer, open, read_answer},
    core::{Core, Figures},
    drive::{Opening, SILENCE, drive},
    error::{Error, Loss},
    options::Options,
    random::random,
    rounds::{Rounds, end_of},
    route::Route,
    slow::too_slow,
    wire::{GRACE, Wire},
};
use ::route::{AsWritten, Attempt, AttemptEnd};
use protocol::session::{
    KeyPair, Position, SessionId,
    handshake::{AttachPurpose, Attaching, EARLY_LIMIT, Greeting, Terms},
    record::{RecordKind, record},
    sealed::{PreSharedKey, SealedStart},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use units::{BackOff, Bytes};

/// How long a route is tried last after its first depot could not be reached.
const AVOID: Duration = Duration::from_secs(30);

/// How long to wait before the first attempt to connect again. Then twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// How often the first sealed record is sent to an acceptor that cannot open it. A wrong secret and a changed byte look the
/// same from here, and the answer has no proof (rule 12.6).
const UNOPENED: u32 = 5;

/// A connection that lasts longer than this was a good one.
const LASTING: Duration = Duration::from_secs(5);

/// Keeps a session going, by the first of these routes that works.
pub(crate) async fn keep(core: Arc<Core>, routes: Vec<Route>) {
    keep_going(&core, routes).await;
    core.settled.send_replace(true);
}

async fn keep_going(core: &Arc<Core>, routes: Vec<Route>) {
    let calling = Arc::new(Calling { dialer: SessionDialer::new(core.options()), routes });
    let routes = &calling.routes;
    let (chooser, expected) = (core.options().chooser.clone(), core.options().expected);
    let chooser = chooser.unwrap_or_else(|| Arc::new(AsWritten::new(Arc::default(), AVOID)));
    let (mut rounds, mut failures) = (Rounds::new(routes, expected, chooser).await, 0);
    // Attempts since then: every route is tried, even with a short timeout.
    let (mut last_good, mut tried) = (Instant::now(), 0);
    let mut unopened = 0;
    loop {
        core.send_by(rounds.send_options());
        let (before, begun) = (core.figures(), Instant::now());
        // Several connections over several routes leave a slow one by themselves, and a limited rate says nothing of a route.
        let is_watched = core.options().connections <= 1 && core.options().limit_rate.is_none();
        let floor = rounds.floor().filter(|_| is_watched);
        let ended = tokio::select! {
            ended = converse(core, &calling, rounds.index()) => Some(ended),
            () = too_slow(core, floor) => None,
        };
        let after = core.figures();
        let moved = |figures: &Figures| figures.acknowledged + figures.received;
        let bytes = Bytes::new(moved(&after).saturating_sub(moved(&before)));
        let time = begun.elapsed();
        let attempt = |end| Attempt { end, time, bytes, send_options: after.send_options.clone() };
        let Some(ended) = ended else {
            rounds.ended(&attempt(AttemptEnd::Stalled));
            rounds.next();
            tracing::debug!(session = %core.session, "slow: goes on by another route");
            continue;
        };
        let end = match end_of(&ended) {
            AttemptEnd::Done if core.options().limit_rate.is_some() => AttemptEnd::LimitedByEnds,
            end => end,
        };
        rounds.ended(&attempt(end));
        if let Err(Loss::Unopened(error)) = &ended {
            unopened += 1;
            if unopened >= UNOPENED {
                return core.fail(unopened_again(error));
            }
        }
        let (last, class) = match ended.map_err(Loss::reason) {
            Ok(()) => return,
            Err(Err(error)) => return core.fail(error),
            Err(Ok(reason)) => reason,
        };
        if core.is_abandoned() {
            return core.fail(Error::Abandoned);
        }
        tried += 1;
        if after.opened > before.opened {
            (last_good, tried) = (Instant::now(), 0);
            // A route by which the other end was reached is worth another try at once, unless it breaks each time.
            if bytes.get() > 0 || begun.elapsed() > LASTING {
                failures = 0;
            }
        } else {
            rounds.next();
        }
        let time = last_good.elapsed();
        if time >= core.options().patience && tried >= routes.len() {
            return core.fail(Error::NoConnection { time, last, class });
        }
        tracing::debug!(session = %core.session, reason = last, "the connection is lost");
        failures += 1;
        sleep(BackOff::new(FIRST_WAIT, core.options().longest_wait).after(failures)).await;
    }
}

/// The error of an initiator whose first record no acceptor could open.
fn unopened_again(error: &Error) -> Error {
    let Error::Ended { code, text } = error else { return error.clone() };
    let text = format!(
        "{text}. If the code is right, something on the path changes the first message ({UNOPENED} attempts)"
    );
    Error::Ended { code: *code, text }
}

/// What connections are made from.
#[derive(Debug)]
struct Calling {
    dialer: SessionDialer,
    routes: Vec<Route>,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To begin the session, or to continue it.
    Continue,
    /// To be used at the same time as others.
    Join,
}

/// Keeps the session going on a connection by this route, and on others at the same time if that is agreed on, until all are
/// lost or the session is over.
async fn converse(core: &Arc<Core>, calling: &Arc<Calling>, first: usize) -> Result<(), Loss> {
    let (send_options, most) = core.send_options();
    // As the chooser wants it all use the same route.
    let (connections, step) = match send_options.connections {
        Some(connections) => (connections.min(most), 0),
        None => (core.options().connections, 1),
    };
    if connections <= 1 {
        return call(core, calling, first, Purpose::Continue).await;
    }
    let mut main = Box::pin(call(core, calling, first, Purpose::Continue));
    tokio::select! {
        ended = &mut main => return ended,
        () = core.spread() => {}
    }
    let mut lanes = JoinSet::new();
    for other in 1..usize::from(connections) {
        let route = (first + step * other) % calling.routes.len();
        lanes.spawn(keep_lane(Arc::clone(core), Arc::clone(calling), route));
    }
    let mut ended = main.await;
    if matches!(ended, Err(Loss::Connection(_) | Loss::Dial(_))) {
        // The others go on, and this route is tried as they are.
        lanes.spawn(keep_lane(Arc::clone(core), Arc::clone(calling), first));
        ended = core.no_connection().await;
    }
    if matches!(ended, Err(Loss::Connection(_) | Loss::Dial(_))) {
        lanes.shutdown().await;
    } else {
        // Each says goodbye.
        let _ = timeout(GRACE, async { while lanes.join_next().await.is_some() {} }).await;
    }
    ended
}

/// Keeps one of several connections going.
async fn keep_lane(core: Arc<Core>, calling: Arc<Calling>, route: usize) {
    let mut failures = 0;
    while core.is_spread() && !core.is_over() {
        let begun = Instant::now();
        match call(&core, &calling, route, Purpose::Join).await {
            Ok(()) | Err(Loss::Fatal(_)) => return,
            Err(loss) => {
                let session = core.session;
                tracing::debug!(%session, route, reason = %loss, "one of several connections is lost");
            }
        }
        failures = if begun.elapsed() > LASTING { 1 } else { failures + 1 };
        sleep(BackOff::new(FIRST_WAIT, core.options().longest_wait).after(failures)).await;
    }
}

/// One connection.
async fn call(core: &Core, calling: &Calling, route: usize, purpose: Purpose) -> Result<(), Loss> {
    let reached = reach(core, calling, route, purpose).await;
    let (mut wire, first, opening) = reached.map_err(|loss| match purpose {
        Purpose::Continue => loss,
        Purpose::Join => loss.of_one_connection(),
    })?;
    drive(core, &mut wire, first, opening, route).await
}

/// Connects; with the first bytes to send, and the handshake that follows.
async fn reach(
    core: &Core,
    calling: &Calling,
    route: usize,
    purpose: Purpose,
) -> Result<(Wire, Vec<u8>, Opening), Loss> {
    let route = &calling.routes[route];
    let (send_options, connections) = core.send_options();
    let mut wire = Wire::new(calling.dialer.connect(route, &send_options, connections).await?);
    let mut header = open(route, core.session);
    let Options { secret, note, request, digest, encrypt, .. } = core.options();
    let (first, opening, sealed) = if let Some((key, limit, position)) = core.terms() {
        let attach = |purpose, position: &Position| {
            Attaching::to(purpose, &key, core.session, random(), limit, position)
        };
        let opening = match purpose {
            Purpose::Join => Opening::Join(attach(AttachPurpose::Join, &Position::default())),
            Purpose::Continue => {
                Opening::Attach(attach(AttachPurpose::Continue(connections), &position))
            }
        };
        let (Opening::Join(attaching) | Opening::Attach(attaching)) = &opening else {
            unreachable!("it was made so")
        };
        let first = record(RecordKind::Attach, attaching.attach());
        (first, opening, (SealedStart::Attach, PreSharedKey::of_key(&key)))
    } else {
        let own = random();
        let note = match request {
            // Signed for this HELLO alone.
            Some((request, signer)) => {
                request.note(signer, core.session, &KeyPair::from_random(own).public)
            }
            None => note.clone(),
        };
        let terms = Terms { limit: EARLY_LIMIT, note };
        let greeting =
            Greeting::new(core.session, own, secret, &terms, *digest).with_connections(connections);
        let first = record(RecordKind::Hello, greeting.hello());
        let opening = Opening::Greet(Box::new(greeting));
        (first, opening, (SealedStart::Hello, PreSharedKey::of_secret(secret)))
    };
    if *encrypt && !secret.is_empty() {
        seal(core, &mut wire, sealed, header, &first).await?;
        return Ok((wire, Vec::new(), opening));
    }
    header.extend(first);
    Ok((wire, header, opening))
}

/// Sends the first record so that only the other end can read it, and reads the answer.
async fn seal(
    core: &Core,
    wire: &mut Wire,
    (start, key): (SealedStart, PreSharedKey),
    header: Vec<u8>,
    first: &[u8],
) -> Result<(), Loss> {
    let sealing = wire.begin_sealed(core.session, (start, &key), header, first).await?;
    let answered = async {
        core.set_hops(read_answer(&mut wire.split().0, |_| ()).await?.hops);
        let silent = |_| Err(Loss::Connection("the acceptor does not answer".to_owned()));
        timeout(SILENCE, wire.sealed_answer(start, sealing)).await.unwrap_or_else(silent)
    };
    let abandoned = async {
        while !core.is_abandoned() {
            core.to_send.notified().await;
        }
    };
    tokio::select! {
        answered = answered => answered,
        () = abandoned => Err(Loss::Fatal(Error::Abandoned)),
    }
}

/// A name for a new session.
pub(crate) fn new_session() -> SessionId {
    SessionId(random())
}
