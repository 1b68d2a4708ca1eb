// SPDX-License-Identifier: GPL-2.0-or-later
//! The sessions that an acceptor has taken, by their names.
//!
//! Threats: anybody can name a session of others, or begin many. Sessions are bounded, and only a proof changes one. If each HELLO
//! is a session of its own, a HELLO whose note was not looked at never takes the place of one that was.

use crate::{
    acceptor::{Arrival, Arrivals},
    core::Core,
    options::ListenOptions,
};
use protocol::session::SessionId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::mpsc;

/// Sessions of one name at most, if each HELLO is one of its own: those that have not been proved yet, and one that was.
const MOST_OF_A_NAME: usize = 16;

/// The sessions of an acceptor.
#[derive(Debug)]
pub(crate) struct Registry {
    pub options: ListenOptions,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// One for each name, unless each HELLO is a session of its own; the latest last.
    sessions: HashMap<SessionId, Vec<Entry>>,
    entries: usize,
    last_number: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// Known once the application has taken the session.
    core: Option<Weak<Core>>,
    arrivals: mpsc::Sender<Arrival>,
}

impl Entry {
    fn core(&self) -> Option<Arc<Core>> {
        self.core.as_ref()?.upgrade()
    }

    fn is_proved(&self) -> bool {
        self.core().is_some_and(|core| core.is_proved())
    }
}

/// A session's place in its acceptor's registry.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Arc<Registry>,
    session: SessionId,
    number: u64,
}

/// A registry's entry for a session that begins.
pub(crate) enum Place {
    /// It is a new one.
    New(Arrivals),
    /// It was begun before, by an initiator that has not proved itself, and is begun again (rule 7.5).
    Again(mpsc::Sender<Arrival>),
    /// There is no room, or the session has begun.
    None,
}

impl Registry {
    pub(crate) fn new(options: ListenOptions) -> Arc<Self> {
        Arc::new(Self { options, table: Mutex::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session that the application has taken; of several, the first that is `wanted`.
    pub(crate) fn begun(
        &self,
        session: SessionId,
        wanted: impl Fn(&Core) -> bool,
    ) -> Option<(Arc<Core>, mpsc::Sender<Arrival>)> {
        let table = self.table();
        let mut entries = table.sessions.get(&session)?.iter();
        entries.find_map(|entry| {
            let core = entry.core().filter(|core| !core.is_gone() && wanted(core))?;
            Some((core, entry.arrivals.clone()))
        })
    }

    /// A place for a session.
    pub(crate) fn register(self: &Arc<Self>, session: SessionId) -> Place {
        let mut table = self.table();
        let entries = table.sessions.get(&session).map(Vec::as_slice).unwrap_or_default();
        if self.options.each_hello_begins {
            if entries.len() >= MOST_OF_A_NAME {
                return Place::None;
            }
        } else {
            match entries {
                [entry, ..] if entry.is_proved() => return Place::None,
                [entry, ..] => return Place::Again(entry.arrivals.clone()),
                [] => {}
            }
        }
        if table.entries >= self.options.sessions {
            return Place::None;
        }
        table.last_number += 1;
        table.entries += 1;
        let (sender, arrivals) = mpsc::channel(4);
        let number = table.last_number;
        let entry = Entry { number, core: None, arrivals: sender };
        table.sessions.entry(session).or_default().push(entry);
        let registration = Registration { registry: Arc::clone(self), session, number };
        Place::New(Arrivals::Listener(arrivals, registration))
    }
}

impl Registration {
    /// The application has taken the session.
    pub(crate) fn knows(&self, core: &Arc<Core>) {
        let mut table = self.registry.table();
        let entries = table.sessions.get_mut(&self.session).into_iter().flatten();
        for entry in entries.filter(|entry| entry.number == self.number) {
            entry.core = Some(Arc::downgrade(core));
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.registry.table();
        let Some(entries) = table.sessions.get_mut(&self.session) else { return };
        entries.retain(|entry| entry.number != self.number);
        if entries.is_empty() {
            table.sessions.remove(&self.session);
        }
        table.entries -= 1;
    }
}
