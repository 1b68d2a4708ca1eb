// SPDX-License-Identifier: GPL-2.0-or-later
//! How a session with the store ended: what its initiator is told, and what the log and counters say.

use http::StatusCode;
use protocol::{
    http::{Fault, ProxyError},
    session::{record::EndCode, request::RequestError},
};
use relay::copy::Progress;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use store::StoreError;

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

/// What a session and its connections, one at a time, know of each other.
#[derive(Debug)]
pub(super) struct Served {
    /// Where bytes of the connection in use are counted: from the client, and to it.
    counted: Mutex<[Arc<Progress>; 2]>,
    fate: OnceLock<Fate>,
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
    /// By a connection whose bytes are counted there: from the client, and to it.
    pub(super) fn new(counted: [Arc<Progress>; 2]) -> Self {
        Self { counted: Mutex::new(counted), fate: OnceLock::new() }
    }

    /// Another connection is in use.
    pub(super) fn continues(&self, counted: [Arc<Progress>; 2]) {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = counted;
    }

    /// So many bytes have come from the client.
    pub(super) fn received(&self, bytes: usize) {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)[0].count(bytes as u64);
    }

    /// So many bytes go to the client.
    pub(super) fn sent(&self, bytes: usize) {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)[1].count(bytes as u64);
    }

    /// It has ended in this way; the first one counts. Called before its initiator learns of it.
    pub(super) fn ended(&self, fate: Fate) {
        let _ = self.fate.set(fate);
    }

    pub(super) fn fate(&self) -> Option<&Fate> {
        self.fate.get()
    }
}
