// SPDX-License-Identifier: GPL-2.0-or-later
//! How a session with the store ended: what its initiator is told, and what the log and counters say.

use http::StatusCode;
use protocol::{
    http::{Fault, ProxyError},
    session::{record::EndCode, request::RequestError},
};
use relay::{copy::Progress, rates::TransferRate};
use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};
use store::StoreError;
use tokio::{sync::watch, time::timeout};
use units::Rate;

/// How long a session may take to learn that its connection has ended as it should.
const MOMENT: Duration = Duration::from_secs(2);

/// Why something is not done: the code and the text in END, and a status of HTTP for the log.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    pub code: EndCode,
    pub text: String,
    status: StatusCode,
}

/// Why a session ends before its request is done.
#[derive(Debug)]
pub(super) enum Stop {
    /// Its initiator is told why.
    Refused(Refused),
    /// Its connection is closed without a word: the initiator connects again, and finds another process or another session.
    Silent,
    /// The session has failed by itself.
    Lost(::session::Error),
}

/// How it ended.
#[derive(Debug)]
pub(super) enum Fate {
    Done,
    Refused(Fault),
}

/// What a session has to know of the connection that it uses.
#[derive(Debug, Clone)]
pub(super) struct InUse {
    /// Where its bytes are counted: from the client, and to it.
    pub counted: [Arc<Progress>; 2],
    /// How fast it may be, while it is open.
    pub rate: Weak<TransferRate>,
}

/// What a session and its connections, one at a time, know of each other.
#[derive(Debug)]
pub(super) struct Served {
    connection: Mutex<InUse>,
    fate: OnceLock<Fate>,
    /// Whether there is a fate, or will be none.
    settled: watch::Sender<bool>,
}

impl Refused {
    /// With the code for everything that is not about space.
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { code: EndCode::Application, text: text.into(), status }
    }

    /// There is no space, or the session has more bytes than it announced.
    pub(super) fn no_space(text: impl Into<String>) -> Self {
        let status = StatusCode::INSUFFICIENT_STORAGE;
        Self { code: EndCode::NoSpace, text: text.into(), status }
    }

    /// As an answer of the depot's own.
    pub(super) fn fault(&self) -> Fault {
        let error = if self.status.is_server_error() {
            ProxyError::ProxyInternalError
        } else {
            ProxyError::HttpRequestDenied
        };
        Fault::new(self.status, error, &self.text)
    }
}

impl From<&StoreError> for Refused {
    fn from(error: &StoreError) -> Self {
        let status = match error {
            StoreError::Refused(_) | StoreError::OverReservation { .. } => {
                return Self::no_space(error.to_string());
            }
            StoreError::Unknown => StatusCode::NOT_FOUND,
            StoreError::Gone(_) => StatusCode::GONE,
            StoreError::Exists | StoreError::Busy | StoreError::Ended => StatusCode::CONFLICT,
            StoreError::TooLong { .. } | StoreError::Invalid(_) => StatusCode::BAD_REQUEST,
            StoreError::JournalInDoubt | StoreError::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<&RequestError> for Refused {
    fn from(error: &RequestError) -> Self {
        match error {
            RequestError::Unsigned | RequestError::Signature => {
                let refused = Self::new(StatusCode::FORBIDDEN, error.to_string());
                Self { code: EndCode::WrongProof, ..refused }
            }
            RequestError::TooLong | RequestError::Malformed(_) => {
                Self::new(StatusCode::BAD_REQUEST, error.to_string())
            }
        }
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            // Another process has the store, or will have it.
            StoreError::Closed => Self::Silent,
            error => Self::Refused((&error).into()),
        }
    }
}

impl From<::session::Error> for Stop {
    fn from(error: ::session::Error) -> Self {
        Self::Lost(error)
    }
}

impl Served {
    /// By this connection.
    pub(super) fn new(connection: InUse) -> Self {
        let settled = watch::Sender::new(false);
        Self { connection: Mutex::new(connection), fate: OnceLock::new(), settled }
    }

    /// Another connection is in use.
    pub(super) fn continues(&self, connection: InUse) {
        *self.connection() = connection;
    }

    /// So many bytes have come from the client.
    pub(super) fn received(&self, bytes: usize) {
        self.connection().counted[0].count(bytes as u64);
    }

    /// So many bytes go to the client.
    pub(super) fn sent(&self, bytes: usize) {
        self.connection().counted[1].count(bytes as u64);
    }

    /// How fast the client may send now, if that is limited.
    pub(super) fn rate_from_client(&self) -> Option<Rate> {
        self.rate()?.from_client()
    }

    /// How fast the client is sent to now, if that is limited.
    pub(super) fn rate_to_client(&self) -> Option<Rate> {
        self.rate()?.to_client()
    }

    fn rate(&self) -> Option<Arc<TransferRate>> {
        self.connection().rate.upgrade()
    }

    fn connection(&self) -> MutexGuard<'_, InUse> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has ended in this way; the first one counts.
    pub(super) fn ended(&self, fate: Fate) {
        let _ = self.fate.set(fate);
        self.settle();
    }

    /// Whatever has not been said of it by now is not.
    pub(super) fn settle(&self) {
        self.settled.send_replace(true);
    }

    /// How it has ended, as seen by a connection that is over. A session that only waits for another one has no end yet, so this
    /// waits for a moment.
    pub(super) async fn fate(&self) -> Option<&Fate> {
        let mut settled = self.settled.subscribe();
        let _ = timeout(MOMENT, settled.wait_for(|settled| *settled)).await;
        self.fate.get()
    }
}
