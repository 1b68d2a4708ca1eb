// SPDX-License-Identifier: GPL-2.0-or-later
//! What all sessions with the store share: the store itself, while this process has it, and bounds.

use super::{leaving::Leaving, outcome::Served, places::Places, prefixes::Prefixes};
use crate::config;
use ::session::{Acceptor, ListenOptions};
use http::StatusCode;
use protocol::{
    http::{Fault, ProxyError},
    session::SessionId,
};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use store::{Limits, Store, Usage};
use tokio::{sync::watch, task::spawn_blocking};

/// Sessions that are known at a time. One that is over is remembered for a minute.
const SESSIONS: usize = 8192;

/// Sessions at rest at this depot.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Where the store is; `None` if the depot keeps no sessions.
    path: Option<PathBuf>,
    limits: Mutex<Limits>,
    state: RwLock<State>,
    closed: watch::Sender<bool>,
    served: Mutex<HashMap<SessionId, Weak<Served>>>,
    refused: AtomicU64,
    expired: AtomicU64,
    pub(super) acceptor: Acceptor,
    pub(super) leaving: Arc<Leaving>,
    pub(super) prefixes: Arc<Prefixes>,
    pub(super) places: Arc<Places>,
}

#[derive(Debug)]
enum State {
    /// Not open, and why.
    Not(String),
    Open(Arc<Store>),
    /// Another process has it, or will.
    HandedOver,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub is_open: bool,
    pub usage: Usage,
    /// `store.size`.
    pub size: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Sessions that were removed because their time was over.
    pub expired: u64,
}

impl Stored {
    /// A store that is not open yet; none if there is no configuration of one.
    pub(super) fn new(config: Option<&config::Store>) -> Self {
        let limits = config.map_or(Limits::of_size(units::Bytes::ZERO), config::Store::limits);
        let options = ListenOptions {
            each_hello_begins: true,
            sessions: SESSIONS,
            ..ListenOptions::default()
        };
        Self {
            path: config.map(|config| config.path.clone()),
            limits: Mutex::new(limits),
            state: RwLock::new(State::Not("it is being opened".to_owned())),
            closed: watch::Sender::new(false),
            served: Mutex::default(),
            refused: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            acceptor: Acceptor::new(options),
            leaving: Arc::default(),
            prefixes: Arc::default(),
            places: Arc::default(),
        }
    }

    /// Where the store is.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }

    pub(super) fn limits(&self) -> Limits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other limits from now on. Sessions that exceed them stay.
    pub(crate) fn set_limits(&self, config: Option<&config::Store>) {
        let Some(config) = config else { return };
        let limits = config.limits();
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
        if let Some(store) = self.opened() {
            store.set_limits(limits);
        }
    }

    /// It is open. Closed again at once if this process has handed it over meanwhile.
    pub(super) fn opens(&self, store: Store) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::HandedOver) {
            store.close();
        } else {
            *state = State::Open(Arc::new(store));
        }
    }

    /// It cannot be opened now; whether that is news.
    pub(super) fn does_not_open(&self, why: String) -> bool {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Not(known) if *known == why => false,
            State::Not(known) => {
                *known = why;
                true
            }
            State::Open(_) | State::HandedOver => false,
        }
    }

    /// The store, if it is open.
    pub(super) fn opened(&self) -> Option<Arc<Store>> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Open(store) => Some(Arc::clone(store)),
            State::Not(_) | State::HandedOver => None,
        }
    }

    /// The store, or what a client is answered.
    pub(super) fn store(&self) -> Result<Arc<Store>, Fault> {
        if self.path.is_none() {
            let (status, error) = (StatusCode::NOT_IMPLEMENTED, ProxyError::HttpRequestError);
            return Err(Fault::new(status, error, "this depot keeps no sessions (`[store]`)"));
        }
        let why = match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Open(store) => return Ok(Arc::clone(store)),
            State::Not(why) => why.clone(),
            State::HandedOver => "another process takes it over".to_owned(),
        };
        let (status, error) = (StatusCode::SERVICE_UNAVAILABLE, ProxyError::ProxyInternalError);
        let reason = "the depot's store is not open. Try again in a second";
        let mut fault = Fault::new(status, error, reason);
        fault.detail = Some(why);
        Err(fault)
    }

    /// Gives the store away: sessions that write it end without a word, those that read it go on with what was promised.
    pub(crate) async fn hand_over(&self) {
        let before = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::HandedOver)
        };
        self.closed.send_replace(true);
        self.prefixes.close();
        if let State::Open(store) = before {
            // Waits for promises under way.
            let _ = spawn_blocking(move || store.close()).await;
        }
    }

    /// Resolves once the store was given away.
    pub(super) async fn handed_over(&self) {
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Remembers a session for connections on which it continues.
    pub(super) fn remember(&self, session: SessionId, served: &Arc<Served>) {
        let mut all = self.served();
        if all.len() >= SESSIONS {
            all.retain(|_, served| served.strong_count() > 0);
        }
        all.insert(session, Arc::downgrade(served));
    }

    /// A session that continues.
    pub(super) fn find(&self, session: SessionId) -> Option<Arc<Served>> {
        self.served().get(&session)?.upgrade()
    }

    fn served(&self) -> MutexGuard<'_, HashMap<SessionId, Weak<Served>>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn count_expired(&self, sessions: usize) {
        self.expired.fetch_add(sessions as u64, Relaxed);
    }

    /// For the status page; `None` if the depot keeps no sessions.
    pub(crate) fn counted(&self) -> Option<Counted> {
        self.path.as_ref()?;
        let store = self.opened();
        Some(Counted {
            is_open: store.is_some(),
            usage: store.map(|store| store.usage()).unwrap_or_default(),
            size: self.limits().bytes.get(),
            refused: self.refused.load(Relaxed),
            expired: self.expired.load(Relaxed),
        })
    }
}
