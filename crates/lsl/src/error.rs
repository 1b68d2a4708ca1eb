// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a session failed.

use ::session::{
    lsl::{
        Malformed, PositionError, ReceiveError,
        handshake::HandshakeError,
        record::{End, EndCode},
    },
    message::Fault,
};
use relay::dial::{Refusal, Retry};
use std::{io, sync::Arc, time::Duration};

/// Why a session failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The first hop cannot be reached.
    #[error("{0}")]
    Unreachable(Refusal),
    /// A depot of the route, or the acceptor, refused the session.
    #[error("{0}")]
    Refused(Fault),
    /// The other end is not the right one, or speaks another version.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// The other end has ended the session.
    #[error("the other end has ended the session: {text}")]
    Ended {
        /// Its code in END.
        code: u16,
        /// What it says, or what the code means.
        text: String,
    },
    /// The beginning of the stream is not the same at both ends.
    #[error("{0}")]
    Position(#[from] PositionError),
    /// What arrives is damaged.
    #[error("{0}")]
    Receive(#[from] ReceiveError),
    /// There was no connection for too long.
    #[error("no connection for {} s, the last attempt: {last}", .time.as_secs())]
    NoConnection {
        /// For how long.
        time: Duration,
        /// Why the last attempt failed.
        last: String,
    },
    /// What is to be sent cannot be read.
    #[error("cannot read what is to be sent: {0}")]
    Source(Arc<io::Error>),
    /// The initiator has begun the session again before it had proved itself, or the listener has gone.
    #[error("the session was begun again, or its listener has gone")]
    Replaced,
    /// The session was dropped before its end.
    #[error("the session was ended before its streams were")]
    Abandoned,
}

impl Error {
    /// What END of the other end means.
    pub(crate) fn ended(end: &End) -> Self {
        let known = EndCode::of(end.code);
        let text = if end.text.is_empty() {
            known.map_or_else(|| format!("code {}", end.code), |code| meaning(code).to_owned())
        } else {
            end.text.clone()
        };
        Self::Ended { code: end.code, text }
    }

    /// The code with which the other end is told; `None` if it is the one that has said so.
    pub(crate) fn code(&self) -> Option<EndCode> {
        match self {
            Self::Handshake(error) => Some(error.code()),
            Self::Position(error) => Some(error.code()),
            Self::Receive(error) => Some(error.code()),
            Self::Source(_) | Self::Abandoned => Some(EndCode::Application),
            _ => None,
        }
    }

    /// Whether what arrived is not what was sent, or cannot be continued.
    pub fn is_about_data(&self) -> bool {
        let code = match self {
            Self::Ended { code, .. } => EndCode::of(*code),
            Self::Position(error) => Some(error.code()),
            Self::Receive(error) => Some(error.code()),
            _ => None,
        };
        matches!(code, Some(EndCode::PrefixDiffers | EndCode::Damaged | EndCode::WholeDiffers))
    }

    /// The other end has another beginning of the stream than this one.
    pub fn is_other_prefix(&self) -> bool {
        match self {
            Self::Ended { code, .. } => EndCode::of(*code) == Some(EndCode::PrefixDiffers),
            Self::Position(error) => *error == PositionError::PrefixDiffers,
            _ => false,
        }
    }
}

fn meaning(code: EndCode) -> &'static str {
    match code {
        EndCode::UnknownSession => "it does not know this session, or no longer",
        EndCode::WrongProof => "the code is wrong, or required",
        EndCode::PrefixDiffers => "it has another beginning of this stream",
        EndCode::BytesGone => "it no longer has the bytes that are missing here",
        EndCode::NoRoom => "it has no room for another session, or has this one already",
        EndCode::Application => "its application has ended it",
        EndCode::Damaged => "data keep arriving damaged there",
        EndCode::WholeDiffers => "the whole differs from what was sent",
        EndCode::Malformed => "a record was malformed",
    }
}

/// Why a connection of a session is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Loss {
    /// The session has failed with it.
    #[error(transparent)]
    Fatal(#[from] Error),
    /// The session may continue on another connection.
    #[error("{0}")]
    Connection(String),
}

impl From<io::Error> for Loss {
    fn from(error: io::Error) -> Self {
        Self::Connection(format!("the connection failed: {error}"))
    }
}

impl From<Malformed> for Loss {
    fn from(error: Malformed) -> Self {
        Self::Connection(format!("what arrived is malformed: {error}"))
    }
}

impl From<ReceiveError> for Loss {
    fn from(error: ReceiveError) -> Self {
        match error {
            // What is malformed was damaged on the way: another connection may do better.
            ReceiveError::Malformed(error) => error.into(),
            error => Self::Fatal(error.into()),
        }
    }
}

impl From<PositionError> for Loss {
    fn from(error: PositionError) -> Self {
        Self::Fatal(error.into())
    }
}

impl From<Refusal> for Loss {
    fn from(refusal: Refusal) -> Self {
        match refusal.retry {
            Retry::Never => Self::Fatal(Error::Unreachable(refusal)),
            _ => Self::Connection(refusal.to_string()),
        }
    }
}
