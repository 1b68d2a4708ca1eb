// SPDX-License-Identifier: GPL-2.0-or-later
//! The owner's requests to a depot's store.

use super::{owner_key::OwnerKey, refused::refused};
use crate::Error;
use protocol::session::{
    SessionId,
    request::{Request, SigningKey, StoredSession},
};
use session::{Options, Route, Session};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// The longest answer in bytes: some 300 000 sessions.
const MAX_ANSWER: usize = 64 << 20;
/// How long a depot may take to close a session that is over.
const END_TIME: Duration = Duration::from_secs(2);

/// A depot's store, and how it is asked.
#[derive(Debug, Clone)]
pub struct StoreClient {
    /// How to get there: the first route that works.
    pub routes: Vec<Route>,
    /// How.
    pub options: Options,
}

/// Options of a session that asks a depot's store. The depot is the other end: it reads no other note, and shares no secret.
pub(super) fn asking(request: Request, key: Arc<SigningKey>, options: Options) -> Options {
    Options { request: Some((request, key)), note: Vec::new(), secret: Vec::new(), ..options }
}

impl StoreClient {
    /// The sessions of an owner, in the order of their names.
    ///
    /// # Errors
    /// The depot cannot be reached, or refuses.
    pub async fn list(&self, owner: &OwnerKey) -> Result<Vec<StoredSession>, Error> {
        self.ask(Request::List { after: None }, owner).await
    }

    /// Keeps a session until this long from now.
    ///
    /// # Errors
    /// The depot cannot be reached, or refuses.
    pub async fn extend(
        &self,
        session: SessionId,
        life: Duration,
        owner: &OwnerKey,
    ) -> Result<StoredSession, Error> {
        let life_s = life.as_secs().max(1);
        self.ask_about(session, Request::Extend { session, life_s }, owner).await
    }

    /// Removes a session.
    ///
    /// # Errors
    /// The depot cannot be reached, or refuses.
    pub async fn drop_session(
        &self,
        session: SessionId,
        owner: &OwnerKey,
    ) -> Result<StoredSession, Error> {
        self.ask_about(session, Request::Drop { session }, owner).await
    }

    async fn ask_about(
        &self,
        session: SessionId,
        request: Request,
        owner: &OwnerKey,
    ) -> Result<StoredSession, Error> {
        let mut lines = self.ask(request, owner).await?;
        match lines.pop() {
            Some(line) if lines.is_empty() && line.session == session => Ok(line),
            _ => Err(Error::Answer("the depot's line is about another session".to_owned())),
        }
    }

    /// The lines that the depot answers.
    async fn ask(&self, request: Request, owner: &OwnerKey) -> Result<Vec<StoredSession>, Error> {
        let options = asking(request, owner.signing_key(), self.options.clone());
        let session = Session::connect(self.routes.clone(), options);
        session.end();
        let mut answer = Vec::new();
        while let Some(chunk) = session.chunk().await.map_err(refused)? {
            if answer.len() + chunk.len() > MAX_ANSWER {
                return Err(Error::Answer("the depot's answer is too long".to_owned()));
            }
            answer.extend_from_slice(&chunk);
        }
        let _ = timeout(END_TIME, session.closed()).await;
        let lines = answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines: Result<Vec<_>, _> = lines.map(StoredSession::parse).collect();
        lines.map_err(|error| Error::Answer(error.to_string()))
    }
}
