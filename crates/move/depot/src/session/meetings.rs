// SPDX-License-Identifier: GPL-2.0-or-later
//! The table of connections that wait for the other end of their session.
//!
//! Waiting connections are bounded, in all and for each client. A place is free again as soon as its connection
//! is gone.

use http::StatusCode;
use protocol::{
    http::{Fault, ProxyError},
    session::{Role, SessionId},
};
use relay::client_key::host_key;
use std::{
    any::Any,
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// The connection of the end that came second. What it is made of matters to the two ends alone, not to the table.
pub(super) type Joining = Box<dyn Any + Send>;

/// How many connections of one client may wait.
const PER_CLIENT: usize = 16;

/// Connections that wait for the other end of their session.
#[derive(Debug, Default)]
pub(crate) struct Meetings(Mutex<HashMap<SessionId, Waiting>>);

#[derive(Debug)]
struct Waiting {
    role: Role,
    client: IpAddr,
    /// Takes the other end's connection.
    join: oneshot::Sender<Joining>,
}

/// A place in the table; it is given back when dropped.
pub(super) struct Place<'m> {
    meetings: &'m Meetings,
    session: SessionId,
    pub joined: oneshot::Receiver<Joining>,
}

/// What a connection is to do.
pub(super) enum Arrival<'m> {
    Waits(Place<'m>),
    Joins(oneshot::Sender<Joining>),
}

impl Meetings {
    pub(super) fn arrive(
        &self,
        (session, role): (SessionId, Role),
        client: IpAddr,
        most: usize,
    ) -> Result<Arrival<'_>, Fault> {
        let client = host_key(client);
        let mut table = self.table();
        // Its connection may be gone, and its task not have run since.
        if table.get(&session).is_some_and(|waiting| waiting.join.is_closed()) {
            table.remove(&session);
        }
        if let Some(waiting) = table.get(&session) {
            if waiting.role == role {
                let reason = "another connection waits for this session in the same role";
                let (status, error) = (StatusCode::CONFLICT, ProxyError::HttpRequestDenied);
                return Err(Fault::new(status, error, reason));
            }
            let waiting = table.remove(&session).expect("it was there");
            return Ok(Arrival::Joins(waiting.join));
        }
        let own = table.values().filter(|waiting| waiting.client == client).count();
        if table.len() >= most || own >= PER_CLIENT {
            let reason = format!(
                "{} connections wait for a meeting, {own} of them from {client}: no more are taken",
                table.len()
            );
            let (status, error) =
                (StatusCode::SERVICE_UNAVAILABLE, ProxyError::ConnectionLimitReached);
            return Err(Fault::new(status, error, reason));
        }
        let (join, joined) = oneshot::channel();
        table.insert(session, Waiting { role, client, join });
        Ok(Arrival::Waits(Place { meetings: self, session, joined }))
    }

    /// How many connections wait.
    pub(crate) fn waiting(&self) -> usize {
        self.table().values().filter(|waiting| !waiting.join.is_closed()).count()
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn table(&self) -> MutexGuard<'_, HashMap<SessionId, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.joined.close();
        let mut table = self.meetings.table();
        // By now the place may be another's, whose connection is there.
        if table.get(&self.session).is_some_and(|waiting| waiting.join.is_closed()) {
            table.remove(&self.session);
        }
    }
}
