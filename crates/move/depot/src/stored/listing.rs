// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions of an owner are listed, extended and dropped (docs/lsl.md, rule 13.7).

use super::{collect::takes_nothing, job::Job, outcome::Stop};
use ::session::Session;
use protocol::{
    session::{
        SessionId,
        request::{Request, StoredSession},
    },
    ticket::UnixTime,
};
use std::time::{Duration, SystemTime};
use store::{SessionInfo, Status, StoreError};

/// Sessions that are listed at a time.
const PAGE: usize = 500;

/// What is asked.
#[derive(Debug)]
pub(super) struct Listing(Request);

impl Listing {
    /// One of list, extend and drop.
    pub(super) fn new(request: Request) -> Self {
        Self(request)
    }

    /// Does it for an initiator that has proved itself.
    pub(super) async fn serve(self, job: &Job, session: &Session) -> Result<(), Stop> {
        tokio::select! {
            answered = answer(job, session, self.0) => answered?,
            refused = takes_nothing(session) => return Err(refused),
        }
        job.done();
        Ok(())
    }
}

async fn answer(job: &Job, session: &Session, request: Request) -> Result<(), Stop> {
    match request {
        Request::List { after } => list(job, session, after).await?,
        Request::Extend { session: id, life_s } => {
            let now = SystemTime::now();
            let until = now
                .checked_add(Duration::from_secs(life_s))
                .ok_or_else(|| StoreError::TooLong { longest: job.stored.limits().longest_life })?;
            job.store.extend(id, &job.signer, until, now).await?;
            let info = job.store.own(id, &job.signer)?;
            session.write(&line(&info).to_line()).await?;
        }
        Request::Drop { session: id } => {
            let info = job.store.own(id, &job.signer)?;
            job.store.remove(id, &job.signer).await?;
            job.stored.prefixes.forget(id);
            let now = SystemTime::now();
            let gone =
                SessionInfo { status: Status::Gone, length: 0, reserved: 0, expires: now, ..info };
            session.write(&line(&gone).to_line()).await?;
        }
        // These move bytes.
        Request::Leave { .. } | Request::Collect { .. } => {}
    }
    session.end();
    Ok(session.sent().await?)
}

async fn list(job: &Job, session: &Session, mut after: Option<SessionId>) -> Result<(), Stop> {
    loop {
        let page = job.store.list(&job.signer, after, PAGE);
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id);
        let lines: Vec<u8> = page.iter().flat_map(|info| line(info).to_line()).collect();
        session.write(&lines).await?;
        job.served.sent(lines.len());
    }
}

/// What an owner learns of a session.
fn line(info: &SessionInfo) -> StoredSession {
    let failed =
        (info.status == Status::Failed).then_some("the depot's disk could not store more of it");
    StoredSession {
        session: info.id,
        bytes: info.length,
        reserved: info.reserved,
        complete: info.status == Status::Complete,
        created_s: UnixTime::from(info.created).seconds(),
        expires_s: UnixTime::from(info.expires).seconds(),
        damage: info.damage.or(failed).map(str::to_owned),
    }
}
