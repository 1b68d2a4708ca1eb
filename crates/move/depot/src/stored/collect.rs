// SPDX-License-Identifier: GPL-2.0-or-later
//! A stored stream is sent, also while it still arrives (docs/lsl.md, rule 13.6).

use super::{
    job::{Job, blocking},
    outcome::{Refused, Stop},
};
use ::session::Session;
use http::StatusCode;
use protocol::{
    session::{SessionId, request::Kept},
    ticket::UnixTime,
};
use relay::copy::minimum_rate::Meter;
use std::{
    future::{pending, poll_fn},
    sync::Arc,
    time::SystemTime,
};
use store::{Gone, Read, Reader, SessionInfo, Status, StoreError};
use tokio::time::sleep;

/// Bytes that are read at a time.
const BATCH: usize = 1 << 20;

/// A stored stream that is to be sent.
#[derive(Debug)]
pub(super) struct Collect {
    session: SessionId,
    from: u64,
    kept: Kept,
}

/// What is there at an offset.
enum Found {
    Bytes(Vec<u8>),
    NotYet,
    End,
}

impl Collect {
    /// Finds the session, if it is one of the signer's.
    pub(super) fn prepare(job: &Job, session: SessionId, from: u64) -> Result<Self, Stop> {
        let info = job.store.info(session, &job.signer)?;
        if info.expires <= SystemTime::now() {
            return Err(StoreError::Gone(Gone::Expired).into());
        }
        let SessionInfo { status, length, expires, .. } = info;
        let bytes = (status == Status::Complete).then_some(length);
        if let Some(bytes) = bytes
            && from > bytes
        {
            let text = format!("the session has {bytes} bytes, and is asked for from byte {from}");
            return Err(Refused::new(StatusCode::RANGE_NOT_SATISFIABLE, text).into());
        }
        let kept = Kept { bytes, expires_s: UnixTime::from(expires).seconds() };
        Ok(Self { session, from, kept })
    }

    /// What the receiver learns in WELCOME.
    pub(super) fn kept(&self) -> Kept {
        self.kept
    }

    /// Sends the stream to an initiator that has proved itself.
    pub(super) async fn serve(self, job: &Job, session: &Session) -> Result<(), Stop> {
        let (store, signer, id) = (Arc::clone(&job.store), job.signer, self.session);
        let reader = blocking(move || store.reader(id, &signer, SystemTime::now())).await?;
        tokio::select! {
            sent = send(job, session, reader, self.from) => sent?,
            refused = takes_nothing(session) => return Err(refused),
            slow = too_slow(job, session) => return Err(slow.into()),
        }
        job.done();
        Ok(())
    }
}

async fn send(job: &Job, session: &Session, mut reader: Reader, from: u64) -> Result<(), Stop> {
    let mut offset = from;
    loop {
        let at = offset;
        let (returned, found) = blocking(move || {
            let found = read(&mut reader, at);
            Ok((reader, found))
        })
        .await?;
        reader = returned;
        match found? {
            Found::Bytes(bytes) => {
                let most = job.grants.most.unwrap_or(u64::MAX);
                if offset - from + bytes.len() as u64 > most {
                    let text = format!("the ticket is for at most {most} bytes");
                    return Err(Refused::new(StatusCode::FORBIDDEN, text).into());
                }
                session.write(&bytes).await?;
                job.served.sent(bytes.len());
                offset += bytes.len() as u64;
            }
            Found::NotYet => poll_fn(|cx| reader.poll_past(offset, cx)).await,
            Found::End => break,
        }
    }
    session.end();
    Ok(session.sent().await?)
}

fn read(reader: &mut Reader, from: u64) -> Result<Found, StoreError> {
    let mut bytes = Vec::new();
    while bytes.len() < BATCH {
        match reader.read(from + bytes.len() as u64) {
            Ok(Read::Bytes(more)) => bytes.extend_from_slice(more),
            Ok(Read::NotYet) if bytes.is_empty() => return Ok(Found::NotYet),
            Ok(Read::End) if bytes.is_empty() => return Ok(Found::End),
            Ok(Read::NotYet | Read::End) => break,
            // What is good is sent; the error comes again.
            Err(_) if !bytes.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Found::Bytes(bytes))
}

/// Reads the initiator's stream, which is empty; resolves if it is not, or the session fails.
pub(super) async fn takes_nothing(session: &Session) -> Stop {
    match session.chunk().await {
        Ok(None) => match session.closed().await {
            Err(error) => error.into(),
            // Then all was sent, and heard.
            Ok(()) => pending().await,
        },
        Ok(Some(_)) => {
            let text = "only `leave` takes bytes";
            Refused::new(StatusCode::BAD_REQUEST, text).into()
        }
        Err(error) => error.into(),
    }
}

/// Resolves once a receiver has taken too little for too long while bytes wait for it.
async fn too_slow(job: &Job, session: &Session) -> Refused {
    let Some(minimum) = job.grants.minimum else { return pending().await };
    let mut meter = Meter::new([0, 0]);
    loop {
        sleep(minimum.pause()).await;
        let now = session.statistics();
        // A session without a connection has its own time.
        let waits = now.is_connected && now.sent_bytes > now.acknowledged_bytes;
        let minimum = minimum.of_held(job.served.rate_to_client());
        if meter.look(minimum, waits, [now.acknowledged_bytes, now.acknowledged_bytes]) {
            let text = "the session was read slower than the depot's `limits.least_rate`";
            return Refused::new(StatusCode::REQUEST_TIMEOUT, text);
        }
    }
}
