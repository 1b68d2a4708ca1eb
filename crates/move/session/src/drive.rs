// SPDX-License-Identifier: GPL-2.0-or-later
//! A session's connection: a handshake, then records in both directions at the same time, until it breaks or the
//! session is over.

use crate::{
    connection::read_answer,
    core::{Core, Lane},
    error::{Error, Loss},
    wire::{GRACE, Reader, Wire, Writer},
};
use bytes::Bytes;
use protocol::session::{
    Direction,
    handshake::{Attaching, Greeting, Welcoming, granted_connections},
    record::{End, EndCode, RecordKind, record},
};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// An end that has sent nothing for so long sends PING (rule 10.1).
const PING_AFTER: Duration = Duration::from_secs(10);
/// How often one of several connections looks whether what it carries arrives.
const LOOK_FOR_STUCK: Duration = Duration::from_secs(1);
/// How often it looks whether it is to send what another one carries.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A connection on which nothing arrives for so long is given up (rule 7.1).
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// How long an initiator that needs a secret may take to prove that it has it, and how long a session waits for one
/// that has gone before.
pub(crate) const PROOF_TIME: Duration = Duration::from_secs(30);
/// How long an initiator may take to prove itself behind the data that it may send before, over a slow path.
const EARLY_PROOF_TIME: Duration = Duration::from_secs(300);

/// The handshake on a connection before records are exchanged.
pub(crate) enum Opening {
    /// An initiator begins a session.
    Greet(Box<Greeting>),
    /// An initiator continues it.
    Attach(Attaching),
    /// An initiator uses a further connection at the same time.
    Join(Attaching),
    /// An acceptor has answered HELLO, and awaits the initiator's proof.
    Welcome {
        welcoming: Box<Welcoming>,
        /// Whether data may come before it.
        takes_early: bool,
    },
    /// An acceptor continues a session with an initiator that has proved itself, over this many connections at once.
    Attached {
        /// At least one.
        connections: u8,
    },
    /// An acceptor takes a further connection at the same time.
    Joined,
}

/// Sends `first`, and keeps the session going on this connection, which is by the initiator's `route`.
///
/// # Errors
/// Why the connection is over before the session is.
pub(crate) async fn drive(
    core: &Core,
    wire: &mut Wire,
    first: Vec<u8>,
    opening: Opening,
    route: usize,
) -> Result<(), Loss> {
    core.connected(wire.is_sealed());
    let lane = core.begin_lane(route);
    match opening {
        Opening::Attached { connections } => core.opened(&lane, connections),
        Opening::Joined => core.join(&lane, None)?,
        _ => {}
    }
    let first = wire.answer_sealed(first).await?;
    let (mut reader, mut writer) = wire.split();
    let mut is_silent = false;
    let ended = {
        let read = read(core, &lane, &mut reader, opening);
        let write = write(core, &lane, &mut writer, first);
        tokio::select! {
            lost = read => lost.map(|never| match never {}),
            over = write => over,
        }
    };
    let ended = match ended {
        // The last of both ends may have been read with the close.
        Err(Loss::Connection(_)) if core.is_over() => Ok(()),
        // The other end may be told why.
        Err(Loss::Fatal(error)) => {
            core.fail(error.clone());
            is_silent = timeout(GRACE, write_rest(core, &lane, &mut writer)).await.is_err();
            Err(Loss::Fatal(error))
        }
        ended => ended,
    };
    drop(lane);
    let is_orderly = !is_silent && !matches!(ended, Err(Loss::Connection(_)));
    wire.reset_on_close(!is_orderly);
    if is_orderly {
        wire.close().await;
    }
    if ended.is_ok() {
        core.close();
    }
    ended
}

/// Nothing: reading goes on until the connection is over.
enum Never {}

async fn read(
    core: &Core,
    lane: &Lane<'_>,
    reader: &mut Reader<'_>,
    opening: Opening,
) -> Result<Never, Loss> {
    match opening {
        Opening::Greet(greeting) => {
            let welcome = answered(core, reader, RecordKind::Welcome).await?;
            let (agreed, confirm) = greeting.welcomed(&welcome).map_err(|error| {
                // Without a secret it is a byte that was changed on the way, more likely than not.
                let may_differ = core.options().secret.is_empty();
                if may_differ {
                    Loss::Connection(error.to_string())
                } else {
                    Error::from(error).into()
                }
            })?;
            let confirm = record(RecordKind::Confirm, &confirm);
            core.welcomed(lane, agreed, confirm).await?;
        }
        Opening::Attach(attaching) => {
            let attached = answered(core, reader, RecordKind::Attached).await?;
            let answer = attaching.attached(&attached);
            let (limit, position, confirm) = answer
                .map_err(|error| Loss::Connection(format!("the session goes not on: {error}")))?;
            let confirm = record(RecordKind::Confirm, &confirm);
            core.reattached(limit, position, Some(confirm)).await?;
            let granted = granted_connections(&attached);
            core.opened(lane, granted.min(core.send_options().1));
        }
        Opening::Join(attaching) => {
            let joined = async {
                let attached = answered(core, reader, RecordKind::Attached).await?;
                let (_, _, confirm) = attaching.attached(&attached).map_err(Error::from)?;
                core.join(lane, Some(record(RecordKind::Confirm, &confirm)))
            };
            joined.await.map_err(Loss::of_one_connection)?;
        }
        Opening::Welcome { welcoming, takes_early } => {
            let time = if takes_early { EARLY_PROOF_TIME } else { PROOF_TIME };
            let proof = await_proof(core, lane, reader, &welcoming, takes_early);
            let late = |_| Err(Loss::Connection("there was no proof in time".to_owned()));
            timeout(time, proof).await.unwrap_or_else(late)?;
        }
        Opening::Attached { .. } | Opening::Joined => {}
    }
    loop {
        while let Some((kind, payload)) = reader.record()? {
            core.receive(lane, kind, payload).await?;
            tokio::task::consume_budget().await;
        }
        if core.is_spread() {
            heard_of_several(core, lane, reader).await?;
        } else {
            heard(reader).await?;
        }
    }
}

/// Reads something, as [`heard`] does, unless what this connection carries does not arrive.
async fn heard_of_several(
    core: &Core,
    lane: &Lane<'_>,
    reader: &mut Reader<'_>,
) -> Result<(), Loss> {
    let begun = Instant::now();
    loop {
        if core.is_stuck(lane) {
            return Err(Loss::Connection("what it carries does not arrive".to_owned()));
        }
        match timeout(LOOK_FOR_STUCK, reader.read_more()).await {
            Ok(read) => return read,
            Err(_) if begun.elapsed() >= SILENCE => {
                return Err(Loss::Connection(format!(
                    "nothing has come for {} s",
                    SILENCE.as_secs()
                )));
            }
            Err(_) => {}
        }
    }
}

/// Reads something before the other end has been silent for too long.
async fn heard(reader: &mut Reader<'_>) -> Result<(), Loss> {
    let silent = |_| Err(Loss::Connection(format!("nothing has come for {} s", SILENCE.as_secs())));
    timeout(SILENCE, reader.read_more()).await.unwrap_or_else(silent)
}

/// Reads a whole record.
async fn next_record(reader: &mut Reader<'_>) -> Result<(Option<RecordKind>, Bytes), Loss> {
    loop {
        if let Some(record) = reader.record()? {
            return Ok(record);
        }
        heard(reader).await?;
    }
}

/// Reads ANSWER, which precedes sealed records, and the acceptor's first record.
async fn answered(
    core: &Core,
    reader: &mut Reader<'_>,
    expected: RecordKind,
) -> Result<Bytes, Loss> {
    if !reader.has_answer() {
        core.set_hops(read_answer(reader, |_| ()).await?.hops);
    }
    loop {
        match next_record(reader).await? {
            (Some(kind), payload) if kind == expected => return Ok(payload),
            (Some(RecordKind::End), payload) => {
                // It cannot be proved yet. There is nothing to lose before WELCOME; afterwards only an acceptor that does not
                // know the session any more ends it (rule 10.2).
                let end = End::parse(&payload, Direction::FromAcceptor, None)?;
                let is_final = expected == RecordKind::Welcome
                    || EndCode::of(end.code) == Some(EndCode::UnknownSession);
                let error = Error::ended(&end);
                return Err(if is_final {
                    Loss::Fatal(error)
                } else {
                    Loss::Connection(error.to_string())
                });
            }
            (None, _) => {}
            _ => {
                return Err(Loss::Connection("the acceptor begins with another record".to_owned()));
            }
        }
    }
}

/// Reads until the initiator of a new session has proved itself.
async fn await_proof(
    core: &Core,
    lane: &Lane<'_>,
    reader: &mut Reader<'_>,
    welcoming: &Welcoming,
    takes_early: bool,
) -> Result<(), Loss> {
    loop {
        match next_record(reader).await? {
            (Some(RecordKind::Confirm), payload) => {
                welcoming.confirmed(&payload).map_err(Error::from)?;
                core.confirmed(lane, welcoming.connections);
                return Ok(());
            }
            (Some(RecordKind::Data), payload) if takes_early => {
                core.early_data(payload).await?;
            }
            (Some(RecordKind::End), payload) => {
                // Neither end has authenticated yet: the peer that began this session may end it.
                let end = End::parse(&payload, Direction::FromInitiator, Some(welcoming.key()))?;
                return Err(Loss::Fatal(Error::ended(&end)));
            }
            (None, _) => {}
            _ => return Err(Loss::Connection("a record came before CONFIRM".to_owned())),
        }
    }
}

/// Sends records until the session is over.
async fn write(
    core: &Core,
    lane: &Lane<'_>,
    writer: &mut Writer<'_>,
    first: Vec<u8>,
) -> Result<(), Loss> {
    let (mut pending, mut quiet_since) = (first, Instant::now());
    loop {
        while let Some(record) = core.next_record(lane).await? {
            if pending.is_empty() {
                pending = record;
            } else {
                pending.extend_from_slice(&record);
            }
            // Short records go together, and a handshake with the first data.
            if pending.len() >= 64 << 10 {
                writer.write_all(&pending).await?;
                core.recycle(std::mem::take(&mut pending));
            }
        }
        writer.say(&std::mem::take(&mut pending)).await?;
        if core.is_over_on(lane) {
            return Ok(());
        }
        if core.is_abandoned() {
            return Err(Loss::Fatal(Error::Abandoned));
        }
        let time = if core.waits() { LOOK_AGAIN } else { PING_AFTER };
        if timeout(time, lane.to_send.notified()).await.is_ok() {
            quiet_since = Instant::now();
        } else if quiet_since.elapsed() >= PING_AFTER {
            core.ping(lane);
            quiet_since = Instant::now();
        }
    }
}

async fn write_rest(core: &Core, lane: &Lane<'_>, writer: &mut Writer<'_>) -> Result<(), Loss> {
    // The last words come first, and nothing else matters any more.
    if let Some(record) = core.next_record(lane).await? {
        writer.say(&record).await?;
    }
    Ok(())
}
