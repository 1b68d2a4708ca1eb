// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a ticket does not open a depot.

use super::{LEEWAY_S, UnixTime};
use crate::{
    DepotAddress,
    http::{Fault, Method, ProxyError},
};
use http::StatusCode;
use std::net::IpAddr;

/// Why a ticket is refused. Nothing of what a ticket claims is told before its signature has
/// proved good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The path is not a ticket's route.
    #[error("not a ticket's route: {0}; expected /lh2/<hop>/<ticket>/<name>")]
    Route(&'static str),
    /// Longer than [`crate::MAX_ROUTE_LEN`].
    #[error("the ticket's route is {0} bytes long; at most 8000 are allowed")]
    TooLong(usize),
    /// No signed token.
    #[error("the ticket is malformed: {0}")]
    Malformed(String),
    /// Signed in another way than tickets are, or not at all.
    #[error("the ticket's algorithm is {0:?}, not \"EdDSA\"")]
    Algorithm(String),
    /// There are no keys.
    #[error("this depot takes no tickets: no key is trusted here (trust.keys)")]
    NoKeys,
    /// The token names no key, and there is not exactly one.
    #[error("the ticket names no key (kid), and this depot trusts several, or none")]
    NoKeyNamed,
    /// The key is none of those that are trusted.
    #[error("the ticket is signed with the key {0:?}, which this depot does not trust")]
    UnknownKey(String),
    /// The signature is not that of the key.
    #[error("the ticket's signature is not of the key {0:?}: it was altered, or forged")]
    Altered(String),
    /// The claims are not those of a ticket. The fault is with who made it.
    #[error("the ticket {id} is signed but unusable: {reason}")]
    Claims {
        /// Its `jti`, as far as it is known.
        id: String,
        /// What is wrong.
        reason: String,
    },
    /// Too late.
    #[error(
        "the ticket {id} has expired at {at}: it is {now}, and the leeway is {LEEWAY_S} s; get a new one"
    )]
    Expired {
        /// Its `jti`.
        id: String,
        /// Its `exp`.
        at: UnixTime,
        /// The time by this host's clock.
        now: UnixTime,
    },
    /// Too early.
    #[error(
        "the ticket {id} is valid from {from}: it is {now}, and the leeway is {LEEWAY_S} s; wait, or set the clocks right"
    )]
    NotYet {
        /// Its `jti`.
        id: String,
        /// Its `nbf`.
        from: UnixTime,
        /// The time by this host's clock.
        now: UnixTime,
    },
    /// The hop is beyond the ticket's last depot.
    #[error("the ticket leads through {depots} depots; there is no hop {hop}")]
    Hop {
        /// The hop asked for.
        hop: usize,
        /// The number of depots.
        depots: usize,
    },
    /// The ticket is for something else.
    #[error("the ticket is not for this path: {0}")]
    Tail(&'static str),
    /// The ticket is for another session, or not for sessions.
    #[error("the ticket does not open this session: {0}")]
    Session(&'static str),
    /// The ticket is for other methods.
    #[error("the ticket is not for {0}")]
    Method(Method),
    /// The ticket is for other clients.
    #[error("the ticket is not for clients at {0}")]
    Client(IpAddr),
    /// The ticket has been revoked.
    #[error("the ticket {0} has been revoked: get a new one")]
    RevocationList(String),
    /// A depot brings the request, and the ticket has none ask for this hop.
    #[error(
        "the ticket is for certain clients, and the depot at {0} asks for one whom nobody vouches for: \
         the client has to ask this depot itself"
    )]
    Relayed(IpAddr),
    /// The depot that was asked is not the one that the ticket names.
    #[error(
        "the ticket is for {depot}, and that is no name of this depot: ask that depot (the operator: \
         list the names of this depot in `names`)"
    )]
    Elsewhere {
        /// The one that it names.
        depot: DepotAddress,
    },
    /// It has been used as often as it may.
    #[error("the ticket {id} has been used {uses} times, as often as it may")]
    UsedUp {
        /// Its `jti`.
        id: String,
        /// How often it may.
        uses: u32,
    },
    /// It had expired, and its uses may be forgotten.
    #[error(
        "the ticket {id} expires at {at}, and that had passed here before the clock was set back to \
         {now}: how often it was used is not known; get a new one"
    )]
    ClockSetBack {
        /// Its `jti`.
        id: String,
        /// Its `exp`.
        at: UnixTime,
        /// The time by this host's clock.
        now: UnixTime,
    },
    /// There is no room to count its uses.
    #[error("this depot counts the uses of {0} tickets already and can take no more: try later")]
    NoRoom(usize),
}

impl From<TicketError> for Fault {
    /// 400 for text that is not a ticket, 403 for a ticket that does not apply, 503 for a full depot.
    fn from(error: TicketError) -> Self {
        use TicketError::{Malformed, NoRoom, Route, TooLong};
        let (status, kind) = match error {
            Route(_) | TooLong(_) | Malformed(_) => {
                (StatusCode::BAD_REQUEST, ProxyError::HttpRequestError)
            }
            NoRoom(_) => (StatusCode::SERVICE_UNAVAILABLE, ProxyError::ConnectionLimitReached),
            _ => (StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied),
        };
        Self::new(status, kind, error.to_string())
    }
}
