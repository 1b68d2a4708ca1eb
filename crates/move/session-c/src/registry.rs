// SPDX-License-Identifier: GPL-2.0-or-later
//! The descriptors of this process.
//!
//! A descriptor's number is used again after `close`, and `dup` gives a socket another one. So a descriptor is found by
//! the cookie that the kernel gives its socket, once and for all. It leaves the registry when the program closes it.
//! If the session was over before, both directions are shut and the close cannot be seen: of these, the latest 1024
//! are remembered.

use crate::{failure::Failure, pump::Work, settings::Settings};
use ::protocol::session::SessionId;
use rustix::net::sockopt::socket_cookie;
use session::{Session, Statistics};
use std::{
    collections::{HashMap, VecDeque},
    net::{SocketAddr, TcpListener},
    os::fd::BorrowedFd,
    process,
    sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, oneshot},
};

/// Sessions that are over and whose descriptors may still be asked for.
const REMEMBERED: usize = 1024;

/// A descriptor of the program.
#[derive(Debug)]
pub(crate) struct Descriptor {
    cookie: u64,
    stage: Mutex<Stage>,
    /// Closed when the session is over.
    is_over: Semaphore,
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Options can be set.
    Fresh(Box<Fresh>),
    /// Sessions wait to be accepted.
    Listening(Arc<Listening>),
    /// There is a session.
    Connected(Connected),
    /// There was one, or a listener that failed.
    Over(Box<Over>),
}

#[derive(Debug)]
pub(crate) struct Fresh {
    pub settings: Settings,
    pub bound: Option<Bound>,
    /// Tells the descriptor's task what to do.
    pub begin: oneshot::Sender<Work>,
}

/// Where sessions are to come from.
#[derive(Debug)]
pub(crate) enum Bound {
    /// Connections to this address.
    Address(TcpListener),
    /// A meeting at the last depot.
    Meeting,
}

#[derive(Debug)]
pub(crate) struct Listening {
    /// `None` in a meeting.
    pub local: Option<SocketAddr>,
    pub settings: Settings,
    pub queue: Mutex<mpsc::Receiver<Waiting>>,
}

/// A session that waits to be accepted, or why there will be none.
pub(crate) type Waiting = Result<Accepted, Failure>;

/// A session that waits to be accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub session: Session,
    /// The initiator's note.
    pub note: Vec<u8>,
    /// Keeps the session's further connections coming. `None` after a meeting.
    pub listener: Option<Arc<session::Listener>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Connected {
    pub session: Arc<Session>,
    /// The other end's note. An initiator reads it from its session.
    pub note: Option<Vec<u8>>,
}

/// The remains of a session.
#[derive(Debug, Clone)]
pub(crate) struct Over {
    pub id: SessionId,
    pub note: Vec<u8>,
    pub statistics: Statistics,
    /// The further digests of what was sent and received; empty without one, and of a part.
    pub digests: [Vec<u8>; 2],
    pub result: Result<(), Failure>,
}

#[derive(Debug, Default)]
struct Registry {
    descriptors: HashMap<u64, Arc<Descriptor>>,
    over: VecDeque<u64>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The further digests of what was sent and received.
pub(crate) fn digests(session: &Session) -> [Vec<u8>; 2] {
    [session.sent_digest(), session.received_digest()].map(Option::unwrap_or_default)
}

/// The runtime of all sessions.
pub(crate) fn runtime() -> Result<&'static Handle, Failure> {
    static OWNER: OnceLock<u32> = OnceLock::new();
    if *OWNER.get_or_init(process::id) != process::id() {
        return Err(Failure::new(
            libc::ENOTSUP,
            "after fork only the parent can call these functions, or what the child executes",
        ));
    }
    // Signals are for the program's own threads. New threads have the mask of the one that starts them.
    Ok(crate::ffi::with_signals_blocked(session::blocking::runtime)?)
}

/// The program's descriptor.
pub(crate) fn find(fd: BorrowedFd<'_>) -> Result<Arc<Descriptor>, Failure> {
    let found = registry().descriptors.get(&socket_cookie(fd)?).cloned();
    found.ok_or_else(|| Failure::new(libc::ENOTSOCK, "the descriptor is not one of lsl_socket"))
}

impl Descriptor {
    /// Registers a new descriptor.
    pub(crate) fn register(fd: BorrowedFd<'_>, stage: Stage) -> Result<Arc<Self>, Failure> {
        let cookie = socket_cookie(fd)?;
        let descriptor =
            Arc::new(Self { cookie, stage: Mutex::new(stage), is_over: Semaphore::new(0) });
        registry().descriptors.insert(cookie, Arc::clone(&descriptor));
        Ok(descriptor)
    }

    pub(crate) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program has closed it.
    pub(crate) fn forget(&self) {
        registry().descriptors.remove(&self.cookie);
    }

    /// Waits until its session is over.
    pub(crate) async fn over(&self) {
        let _ = self.is_over.acquire().await;
    }

    /// Its session is over.
    pub(crate) async fn end(&self, session: &Session, result: Result<(), Failure>) {
        let (id, statistics) = (session.id(), session.statistics());
        let digests = digests(session);
        let note = session.greeted().await.unwrap_or_default();
        {
            let mut stage = self.stage();
            let note = match &mut *stage {
                Stage::Connected(Connected { note: Some(note), .. }) => std::mem::take(note),
                _ => note,
            };
            *stage = Stage::Over(Box::new(Over { id, note, statistics, digests, result }));
        }
        self.is_over.close();
        let mut registry = registry();
        registry.over.push_back(self.cookie);
        if registry.over.len() > REMEMBERED
            && let Some(oldest) = registry.over.pop_front()
        {
            registry.descriptors.remove(&oldest);
        }
    }
}
