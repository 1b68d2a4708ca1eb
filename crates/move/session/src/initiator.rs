// SPDX-License-Identifier: GPL-2.0-or-later
//! The initiator's side: connects, and connects again.

use crate::{
    connection::{SessionDialer, open, read_answer},
    core::{Core, Figures},
    drive::{Opening, SILENCE, drive},
    error::{Error, Loss},
    options::Options,
    random::random,
    rounds::{Rounds, end_of},
    route::Route,
    wire::Wire,
};
use ::route::{AsWritten, Attempt};
use protocol::session::{
    KeyPair, SessionId,
    handshake::{Attaching, EARLY_LIMIT, Greeting, Terms},
    record::{RecordKind, record},
    sealed::{PreSharedKey, SealedStart},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};
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
    let caller = SessionDialer::new(core.options());
    let chooser = AsWritten::new(Arc::default(), AVOID);
    let (mut rounds, mut failures) = (Rounds::new(&routes, chooser), 0);
    // Attempts since then: every route is tried, even with a short timeout.
    let (mut last_good, mut tried) = (Instant::now(), 0);
    let mut unopened = 0;
    loop {
        let (before, begun) = (core.figures(), Instant::now());
        let ended = call(&core, &caller, rounds.route()).await;
        let after = core.figures();
        let moved = |figures: &Figures| figures.acknowledged + figures.received;
        let bytes = Bytes::new(moved(&after).saturating_sub(moved(&before)));
        let (end, time) = (end_of(&ended), begun.elapsed());
        rounds.ended(&Attempt { end, time, bytes });
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

/// One connection.
async fn call(core: &Core, caller: &SessionDialer, route: &Route) -> Result<(), Loss> {
    let mut wire = Wire::new(caller.connect(route).await?);
    let mut header = open(route, core.session);
    let Options { secret, note, request, digest, encrypt, .. } = core.options();
    let (first, opening, sealed) = if let Some((key, limit, position)) = core.terms() {
        let attaching = Attaching::new(&key, core.session, random(), limit, &position);
        let first = record(RecordKind::Attach, attaching.attach());
        (first, Opening::Attach(attaching), (SealedStart::Attach, PreSharedKey::of_key(&key)))
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
        let greeting = Greeting::new(core.session, own, secret, &terms, *digest);
        let first = record(RecordKind::Hello, greeting.hello());
        let opening = Opening::Greet(Box::new(greeting));
        (first, opening, (SealedStart::Hello, PreSharedKey::of_secret(secret)))
    };
    if *encrypt && !secret.is_empty() {
        seal(core, &mut wire, sealed, header, &first).await?;
        return drive(core, &mut wire, Vec::new(), opening).await;
    }
    header.extend(first);
    drive(core, &mut wire, header, opening).await
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
