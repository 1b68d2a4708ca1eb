// SPDX-License-Identifier: GPL-2.0-or-later
//! The target of a ticket: URLs, or a session.

use super::TicketError;
use crate::{
    authority::{Authority, AuthorityError},
    origin::{OriginError, OriginUrl},
    session::{Hop, Open, Target},
};
use std::{fmt, str::FromStr};

/// The target of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opens {
    /// `lh.url`: requests for a URL. If its path ends in `/` and it has no query, it is a prefix.
    Url(OriginUrl),
    /// `lh.session`: sessions with a target.
    Session(SessionTarget),
}

/// Where a ticket's sessions lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionTarget {
    /// To an acceptor.
    End(Authority),
    /// To a server that knows nothing of sessions.
    Tcp(Authority),
    /// To another connection at the last depot.
    Meet,
    /// To the sessions that the last depot keeps.
    Store,
}

/// Why a text is not what a ticket opens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpensError {
    /// A URL that a depot cannot fetch.
    #[error(transparent)]
    Url(#[from] OriginError),
    /// A session's end without host and port.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// No target of sessions.
    #[error(
        "{0:?} is not a target of sessions: expected end:HOST:PORT, tcp:HOST:PORT, meet or store"
    )]
    Target(String),
}

impl SessionTarget {
    /// Sees whether an OPEN, received by one of the ticket's depots, has this target and the hops `rest`, which are
    /// those of the ticket behind that depot (docs/lsl.md, rule 2.7).
    pub(super) fn check<'a>(
        &self,
        open: &Open,
        rest: impl ExactSizeIterator<Item = &'a crate::DepotAddress>,
    ) -> Result<(), TicketError> {
        let (depots, same): (&[Hop], bool) = match (self, &open.target) {
            (Self::Meet, Target::Meeting(_)) | (Self::Store, Target::Store) => (&open.hops, true),
            (Self::Tcp(granted), Target::Tcp { server, .. }) => (&open.hops, granted == server),
            (Self::End(granted), Target::End) => match open.hops.split_last() {
                Some((end, depots)) => (depots, end.address.authority == *granted),
                None => return Err(TicketError::Session("the route has no acceptor")),
            },
            _ => return Err(TicketError::Session("it is for another kind of target")),
        };
        if !same {
            return Err(TicketError::Session("it is for another target"));
        }
        if depots.len() != rest.len()
            || !depots.iter().zip(rest).all(|(hop, via)| hop.address == *via)
        {
            return Err(TicketError::Session("its depots are others than the route's"));
        }
        Ok(())
    }
}

impl FromStr for SessionTarget {
    type Err = OpensError;
    fn from_str(text: &str) -> Result<Self, OpensError> {
        match text.split_once(':') {
            None if text == "meet" => Ok(Self::Meet),
            None if text == "store" => Ok(Self::Store),
            Some(("end", end)) => Ok(Self::End(end.parse()?)),
            Some(("tcp", server)) => Ok(Self::Tcp(server.parse()?)),
            _ => Err(OpensError::Target(text.to_owned())),
        }
    }
}

impl FromStr for Opens {
    type Err = OpensError;
    /// Reads a URL, or a target of sessions.
    fn from_str(text: &str) -> Result<Self, OpensError> {
        match text.parse() {
            Ok(target) => Ok(Self::Session(target)),
            Err(OpensError::Target(_)) => Ok(Self::Url(text.parse()?)),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for SessionTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End(end) => write!(f, "end:{end}"),
            Self::Tcp(server) => write!(f, "tcp:{server}"),
            Self::Meet => f.write_str("meet"),
            Self::Store => f.write_str("store"),
        }
    }
}

impl fmt::Display for Opens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Session(target) => write!(f, "session {target}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DepotAddress,
        session::{Role, SessionId},
    };

    #[test]
    fn targets_are_read_and_printed() {
        for text in ["end:a.example:9", "tcp:[2001:db8::1]:5432", "meet", "store"] {
            let target: SessionTarget = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
            assert_eq!(text.parse(), Ok(Opens::Session(target)));
        }
        assert!(matches!("http://o/f".parse(), Ok(Opens::Url(_))));
        for text in ["", "end:", "tcp:h", "meet:", "Meet", "store:", "udp:h:1"] {
            assert!(text.parse::<SessionTarget>().is_err(), "{text}");
            assert!(text.parse::<Opens>().is_err(), "{text}");
        }
    }

    #[test]
    fn ticket_opens_only_its_own_target_and_route() {
        let [d2, d3, end] =
            ["d2:1", "https:d3:1", "e:9"].map(|at| at.parse::<DepotAddress>().unwrap());
        let hops = |all: &[&DepotAddress]| -> Vec<Hop> {
            all.iter().map(|at| Hop::from((*at).clone())).collect()
        };
        let server = || "s:5432".parse().unwrap();
        let tcp = Target::Tcp { server: server(), proxy_protocol: false };
        let meet = Target::Meeting(Role::Initiator);
        let check = |target: &str, all: &[&DepotAddress], of: &Target| {
            let open = Open::new(SessionId([0; 16]), hops(all), of.clone());
            target.parse::<SessionTarget>().unwrap().check(&open, [&d2, &d3].into_iter()).is_ok()
        };
        assert!(check("tcp:s:5432", &[&d2, &d3], &tcp));
        assert!(check("meet", &[&d2, &d3], &meet));
        assert!(check("store", &[&d2, &d3], &Target::Store));
        assert!(check("end:e:9", &[&d2, &d3, &end], &Target::End));
        for (target, all, of) in [
            ("tcp:s:5433", &[&d2, &d3][..], &tcp),
            ("tcp:s:5432", &[&d3, &d2], &tcp),
            ("tcp:s:5432", &[&d2], &tcp),
            ("tcp:s:5432", &[&d2, &d3, &end], &tcp),
            ("tcp:s:5432", &[&d2, &d3], &meet),
            ("meet", &[&d2, &d3], &tcp),
            ("meet", &[&d2, &d3], &Target::Store),
            ("store", &[&d2, &d3], &meet),
            ("store", &[&d2], &Target::Store),
            ("meet", &[], &meet),
            ("end:e:9", &[&d2, &d3], &Target::End),
            ("end:e:9", &[&d2, &d3, &d3], &Target::End),
            ("end:e:9", &[&d3, &end], &Target::End),
            ("end:e:9", &[], &Target::End),
            ("end:s:5432", &[&d2, &d3], &tcp),
        ] {
            assert!(!check(target, all, of), "{target} {all:?}");
        }
    }
}
