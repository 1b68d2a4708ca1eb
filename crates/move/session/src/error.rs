// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a session failed.

use ::protocol::{
    http::Fault,
    session::{
        Malformed, PositionError, ReceiveError,
        handshake::{HandshakeError, WholeDigest},
        record::{End, EndCode},
    },
};
use relay::dial::{Class, Refusal, Retry};
use std::{
    io::{self, ErrorKind},
    sync::Arc,
    time::Duration,
};

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
        /// The peer's text, or the meaning of the code.
        text: String,
    },
    /// This end has ended the session.
    #[error("{text}")]
    EndedHere {
        /// The code that the other end gets.
        code: EndCode,
        /// The text that it gets.
        text: String,
    },
    /// The beginning of the stream is not the same at both ends.
    #[error("{0}")]
    Position(#[from] PositionError),
    /// The received data is damaged.
    #[error("{0}")]
    Receive(#[from] ReceiveError),
    /// An earlier session has brought the beginning of the stream, and this end has not hashed it for the further digest that
    /// the session has.
    #[error(
        "the beginning of the stream is here, but not its {0}, which both ends are to compare: supply these bytes, or begin again"
    )]
    NoDigest(WholeDigest),
    /// There was no connection for too long.
    #[error("no connection for {} s, the last attempt: {last}", .time.as_secs())]
    NoConnection {
        /// For how long.
        time: Duration,
        /// Why the last attempt failed.
        last: String,
        /// Class of the failure, if the first hop could not be reached.
        class: Option<Class>,
    },
    /// The content to send cannot be read.
    #[error("cannot read the content to send: {0}")]
    Source(Arc<io::Error>),
    /// The initiator has begun the session again before it had proved itself, or the listener has gone.
    #[error("the session was begun again, or its listener has gone")]
    Replaced,
    /// The session was dropped before its end.
    #[error("the session was ended before its streams were")]
    Abandoned,
}

impl Error {
    /// The error for an END of the other end.
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
            Self::Source(_) | Self::Abandoned | Self::NoDigest(_) => Some(EndCode::Application),
            Self::EndedHere { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The kind of I/O error that programs know it as.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable(refusal) => kind_of(refusal.class),
            Self::NoConnection { class, .. } => class.map_or(ErrorKind::TimedOut, kind_of),
            Self::Refused(fault) => match fault.status.as_u16() {
                400 => ErrorKind::InvalidInput,
                409 => ErrorKind::AddrInUse,
                _ => ErrorKind::PermissionDenied,
            },
            Self::Handshake(HandshakeError::Proof | HandshakeError::NoSecret) => {
                ErrorKind::PermissionDenied
            }
            Self::Ended { code, .. } => match EndCode::of(*code) {
                Some(EndCode::WrongProof) => ErrorKind::PermissionDenied,
                Some(EndCode::NoRoom) => ErrorKind::ConnectionRefused,
                Some(EndCode::NoSpace) => ErrorKind::StorageFull,
                _ if self.is_about_data() => ErrorKind::InvalidData,
                _ => ErrorKind::ConnectionReset,
            },
            Self::Handshake(_) | Self::Position(_) | Self::Receive(_) => ErrorKind::InvalidData,
            Self::NoDigest(_) => ErrorKind::InvalidInput,
            Self::Source(error) => error.kind(),
            Self::Replaced | Self::Abandoned | Self::EndedHere { .. } => {
                ErrorKind::ConnectionAborted
            }
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

    /// A depot that is to keep the session has no space for it.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Ended { code, .. } => EndCode::of(*code) == Some(EndCode::NoSpace),
            Self::Refused(fault) => fault.status == http::StatusCode::INSUFFICIENT_STORAGE,
            _ => false,
        }
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

fn kind_of(class: Class) -> ErrorKind {
    match class {
        Class::Forbidden | Class::TlsCertificate => ErrorKind::PermissionDenied,
        Class::NameUnknown | Class::Unroutable => ErrorKind::HostUnreachable,
        Class::NameTimeout | Class::ConnectionTimeout => ErrorKind::TimedOut,
        Class::ConnectionRefused => ErrorKind::ConnectionRefused,
        Class::ConnectionFailed => ErrorKind::ConnectionReset,
        Class::TlsAlert | Class::TlsProtocol => ErrorKind::InvalidData,
        Class::Scarce => ErrorKind::OutOfMemory,
        Class::Internal => ErrorKind::Other,
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
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
        EndCode::NoSpace => "it has no space for the session",
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
    /// The other end could not open the first sealed record: it has another secret, or the record was changed on the way.
    /// The other end has not proved that it said so.
    #[error(transparent)]
    Unopened(Error),
    /// The first hop could not be connected to.
    #[error("{0}")]
    Dial(Refusal),
}

impl Loss {
    /// Of a connection that is to be used at the same time as others: they go on without it.
    pub(crate) fn of_one_connection(self) -> Self {
        match self {
            Self::Fatal(error) => Self::Connection(error.to_string()),
            other => other,
        }
    }

    /// Why the connection is over, and the kind of failure if there was none.
    ///
    /// # Errors
    /// The session has failed with it.
    pub(crate) fn reason(self) -> Result<(String, Option<Class>), Error> {
        match self {
            Self::Fatal(error) => Err(error),
            Self::Connection(reason) => Ok((reason, None)),
            Self::Unopened(error) => Ok((error.to_string(), None)),
            Self::Dial(refusal) => Ok((refusal.to_string(), Some(refusal.class))),
        }
    }
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
            _ => Self::Dial(refusal),
        }
    }
}
