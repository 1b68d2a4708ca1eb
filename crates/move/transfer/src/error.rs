// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a transfer failed, and whether to try again.

use crate::text::printable;
use http::StatusCode;
use protocol::{digest::Digest, session::parcel::ParcelError};
use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};
use units::{Bytes, ClassifyFailure, FailureClass};

/// Why a file was not transferred. Text that servers sent is made printable before it gets in here.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A URL, name, list or configuration is wrong. The fault is the user's.
    #[error("{0}")]
    Usage(String),
    /// The file is there already, and not known to be the same.
    #[error("{} exists{why}. To replace it: --overwrite", shown(file))]
    Exists {
        /// The file.
        file: PathBuf,
        /// Details, empty or beginning with a space.
        why: String,
    },
    /// Another process transfers the same file.
    #[error("{} is in use by another transfer. Wait for it, or choose another name with -o", shown(.0))]
    Locked(PathBuf),
    /// A file of this machine cannot be used.
    #[error("cannot {doing} {}: {error}", shown(path))]
    File {
        /// The operation that failed: completes "cannot".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The disk is too small.
    #[error("{}: not enough free space: {needed} bytes needed, {free} free", shown(path))]
    NoSpace {
        /// A file on that disk.
        path: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes that ordinary users may write.
        free: u64,
    },
    /// The server refused.
    #[error("the server answered {}{detail}", status_text(*status))]
    Status {
        /// With this status.
        status: StatusCode,
        /// The start of its text, empty or beginning with `: `.
        detail: String,
    },
    /// The server answered what makes no sense.
    #[error("the server's answer cannot be used: {0}")]
    Answer(String),
    /// The body is encoded, and so is not the file.
    #[error(
        "the server encoded the file ({0}) although it was asked not to. To save it as it was sent: --save-encoded"
    )]
    Encoded(String),
    /// Nothing shows that the body is whole.
    #[error(
        "{0} bytes came, and nothing shows whether that is all: no length, no digest. To accept it: \
         --allow-unknown-length"
    )]
    UnknownLength(u64),
    /// The file is larger than allowed.
    #[error("the file is larger than --max-size {0}")]
    TooLarge(Bytes),
    /// A whole file has no room in memory.
    #[error(
        "the file is larger than {0}, the most that is read into memory: read ranges of it, or copy it to a file"
    )]
    TooLargeForMemory(Bytes),
    /// A range of a version cannot be had any more.
    #[error("a range of the file cannot be read: {0}. If the file has changed, open it again")]
    Range(String),
    /// The bytes are not those that were promised.
    #[error("{whose} is {expected}, but what came has {found}: it is not the file")]
    Digest {
        /// Source of the expected digest: `--digest` or `the server's digest`.
        whose: &'static str,
        /// The expected digest.
        expected: Digest,
        /// The digest of the received bytes.
        found: Digest,
    },
    /// The server says at once that it has something else.
    #[error("--digest is {expected}, but the server says that its file has {found}")]
    OtherDigest {
        /// As asked for.
        expected: Digest,
        /// As the server says.
        found: Digest,
    },
    /// The server's file changes all the time.
    #[error("the file at the server kept changing ({0}); the transfer began again {1} times")]
    Changing(String, u32),
    /// A redirect leads where it must not.
    #[error("{0}")]
    Redirect(String),
    /// Connection, name or TLS; or the body ended early.
    #[error("{0}")]
    Connection(String),
    /// Too little came for too long.
    #[error("stalled: {0}")]
    Stalled(String),
    /// Standard output already has bytes that would have to be taken back.
    #[error("{0}; what was written to standard output cannot be taken back: discard it")]
    Written(String),
    /// The file that is sent has changed meanwhile.
    #[error("{} changed while it was sent: {why}", shown(file))]
    SourceChanged {
        /// The file.
        file: PathBuf,
        /// How.
        why: String,
    },
    /// Some files of a folder were not sent.
    #[error("{files} files were not sent{first}")]
    NotSent {
        /// How many.
        files: usize,
        /// The first of them, empty or beginning with a comma.
        first: String,
    },
    /// A session failed.
    #[error("{0}")]
    Session(Box<session::Error>),
    /// A depot's store refused what was asked of it.
    #[error("{error}. {remedy}")]
    Store {
        /// The depot's reason.
        error: Box<session::Error>,
        /// What to do.
        remedy: &'static str,
    },
    /// A stored session is not what its sender has left.
    #[error("the stored session cannot be used: {0}")]
    Parcel(ParcelError),
    /// A stored session is not encrypted, so anyone who can write to the depot's disk could have made it.
    #[error(
        "the stored session is not encrypted, so its depot could have changed it. To take it nevertheless: --no-encryption"
    )]
    NotEncrypted,
    /// A signal.
    #[error("stopped")]
    Stopped,
}

/// What is wrong with a certificate, where the TLS library only names it.
fn plain_certificate_error(text: &str) -> String {
    const OPAQUE: &str = "Other(OtherError(";
    let advice = [
        (
            "CaUsedAsEndEntity",
            "it is that of a certificate authority (CA:TRUE), which no server may use. Make one for the server, with \
             basicConstraints=CA:FALSE, signed by the authority or by itself",
        ),
        ("UnknownIssuer", "no trusted authority has signed it. To trust its authority: --ca FILE"),
    ];
    for (name, plain) in advice {
        if text.contains(name) {
            return format!("the server's certificate is not accepted: {plain}");
        }
    }
    match text.split_once(OPAQUE) {
        Some((before, name)) => format!("{before}{}", name.strip_suffix("))").unwrap_or(name)),
        None => text.to_owned(),
    }
}

/// A path as it may be shown.
fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy(), 500)
}

fn status_text(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

impl Error {
    /// A file operation failed. A full disk is named as such.
    pub(crate) fn file(doing: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::File { doing, path: path.to_owned(), error: error.into() }
    }

    /// A connection failed, with all causes that are not said already.
    pub(crate) fn connection(doing: &str, error: &dyn std::error::Error) -> Self {
        // The outermost say no more than that a request failed. Those about certificates have causes of their own,
        // which say less.
        let mut cause = error;
        while let Some(next) = cause.source() {
            if cause.to_string().contains("certificate") {
                break;
            }
            cause = next;
        }
        let text = plain_certificate_error(&cause.to_string());
        // The TLS library ends some texts with a link to its documentation.
        let text = text.split_once(": https://docs.rs/").map_or(&*text, |(said, _)| said);
        Self::Connection(format!("{doing}: {}", printable(text, 300)))
    }
}

impl ClassifyFailure for Error {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Usage(_) | Self::Parcel(ParcelError::Encrypted) => FailureClass::Usage,
            Self::Digest { .. }
            | Self::OtherDigest { .. }
            | Self::Parcel(ParcelError::Chunk(_) | ParcelError::Cut | ParcelError::Hash)
            | Self::NotEncrypted => FailureClass::Unverified,
            Self::Session(error) if error.is_about_data() => FailureClass::Unverified,
            _ => FailureClass::Failed,
        }
    }
}

impl From<session::Error> for Error {
    fn from(error: session::Error) -> Self {
        Self::Session(Box::new(error))
    }
}

impl From<ParcelError> for Error {
    fn from(error: ParcelError) -> Self {
        Self::Parcel(error)
    }
}

/// How an attempt failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Another attempt may do, after this time if the server named one.
    Retry(Error, Option<Duration>),
    /// The held bytes are of another version than the server's: begin again from zero.
    Restart(String),
    /// A part of what was missing has come; ask for the next.
    Continue,
    /// The same would happen again by the same route, and need not by another.
    OtherWay(Error),
    /// It goes on by another route for now.
    Slow(Error),
    /// The same would happen again.
    Final(Error),
}

impl Trouble {
    pub(crate) fn retry(error: Error) -> Self {
        Self::Retry(error, None)
    }

    /// As the error of a transfer that is not tried again.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Retry(error, _)
            | Self::OtherWay(error)
            | Self::Slow(error)
            | Self::Final(error) => error,
            other => Error::Answer(other.to_string()),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(error, _)
            | Self::OtherWay(error)
            | Self::Slow(error)
            | Self::Final(error) => error.fmt(f),
            Self::Restart(why) => f.write_str(why),
            Self::Continue => f.write_str("more is missing"),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

#[cfg(test)]
mod tests {
    use super::plain_certificate_error;

    #[test]
    fn certificate_errors_say_what_to_do() {
        let plain =
            |name: &str| plain_certificate_error(&format!("invalid peer certificate: {name}"));
        let own = plain("Other(OtherError(CaUsedAsEndEntity))");
        assert!(own.contains("CA:FALSE") && !own.contains("Other"), "{own}");
        assert!(plain("UnknownIssuer").contains("--ca FILE"));
        assert_eq!(plain("Other(OtherError(X(1)))"), "invalid peer certificate: X(1)");
        assert_eq!(plain("certificate expired"), "invalid peer certificate: certificate expired");
    }
}
