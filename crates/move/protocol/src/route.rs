// SPDX-License-Identifier: GPL-2.0-or-later
//! The route, as it travels in the path of a request to a depot.
//!
//! ```text
//! /lh1/lead/<ahead>/<chain>/<scheme>:<authority>/<path>?<query>
//! /lh1/fetch/<chain>/<scheme>:<authority>/<path>?<query>
//! ```
//! `ahead`: the depots that the client is still to be led to, in that order. `chain`: depots that
//! the bytes come through, the one nearest the client first; in `lead` it begins with the depot
//! that is asked, in `fetch` it is what remains beyond it. Depots are `host:port`, separated by
//! commas, with `https:` before those that are asked over TLS; `-` stands for none. `lh1` is the version of this grammar.
//!
//! The origin's path is the tail, unchanged, so that `curl -O` names the file rightly and
//! relative links of a page lead back through the same chain.

use crate::{
    authority::{Authority, AuthorityError},
    depot_address::DepotAddress,
    origin::{OriginError, OriginUrl, Scheme, split_scheme},
};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use std::{fmt, str::FromStr};

/// Prefix of every route.
pub const PREFIX: &str = "/lh1/";
/// The largest number of depots on a route. curl, wget and browsers follow 20
/// redirects and more.
pub const MAX_DEPOTS: usize = 16;
/// The longest route, in bytes: what RFC 9110 asks every party to take at least.
pub const MAX_ROUTE_LEN: usize = 8000;
/// A parsed route of at most this length prints within [`MAX_ROUTE_LEN`]: a byte becomes three at
/// most, and each depot gains its port.
const ALWAYS_FITS: usize = 2000;

/// Characters of a depot list or an origin's authority that a path segment may not hold.
const SEGMENT: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b'[').add(b']');

/// A route, as one depot sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The long form (figure 6 of the paper): the client is led from depot to depot.
    Lead {
        /// Depots the client is still to be led to, in order.
        ahead: Vec<DepotAddress>,
        /// Depots passed so far, the one that is asked first; never empty.
        chain: Vec<DepotAddress>,
        /// What is wanted.
        origin: OriginUrl,
    },
    /// The short form: the depot that is asked fetches at once.
    Fetch {
        /// Depots between this one and the origin, the nearest to this one first.
        chain: Vec<DepotAddress>,
        /// What is wanted.
        origin: OriginUrl,
    },
}

/// The two forms of signalling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// One redirect for each depot, from the origin's side to the client's.
    Lead,
    /// One redirect, straight to the depot nearest the client.
    Fetch,
}

/// Why a path is not a route. A depot answers 400 with this text. The URL is wrong:
/// the origin's redirect built it, or a user typed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The path does not begin as routes do.
    #[error("not a route: expected /lh1/lead/... or /lh1/fetch/...")]
    Prefix,
    /// A part is missing.
    #[error("the route ends early: {0} is missing")]
    Missing(&'static str),
    /// One of the depots is no `host:port`.
    #[error("a depot of the route: {0}")]
    Depot(#[from] AuthorityError),
    /// The origin's part is wrong.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The origin is written as in a browser's address bar.
    #[error(
        "the origin is written without slashes before its name: {0}:HOST/..., not {0}://HOST/..."
    )]
    Slashes(Scheme),
    /// A percent-encoded part does not decode to text.
    #[error("the route holds percent-encoded bytes that are not text")]
    Encoding,
    /// The chain of the long form must begin with the depot that is asked.
    #[error("the chain of a lead route is empty; it begins with the depot that is asked")]
    EmptyChain,
    /// There is nothing to redirect to.
    #[error("a route needs at least one depot")]
    NoDepot,
    /// More than [`MAX_DEPOTS`].
    #[error("the route names {0} depots; at most 16 are allowed")]
    TooManyDepots(usize),
    /// A depot occurs in the route twice: a loop.
    #[error("the route passes {0} twice")]
    Twice(DepotAddress),
    /// Longer than [`MAX_ROUTE_LEN`].
    #[error("the route is {0} bytes long; at most 8000 are allowed")]
    TooLong(usize),
}

/// Where an origin sends a client: the `Location` is printed by `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The depot that the client is to ask.
    pub depot: DepotAddress,
    /// The route to request from it.
    pub route: Route,
}

impl Redirect {
    /// The redirect with which `origin` hands a client over to `depots`, the one nearest the client first.
    ///
    /// # Errors
    /// There is no depot, a depot occurs twice, or the route would exceed a limit.
    pub fn new(depots: &[DepotAddress], form: Form, origin: OriginUrl) -> Result<Self, RouteError> {
        check_depots(depots)?;
        let (nearest, beyond) = depots.split_first().ok_or(RouteError::NoDepot)?;
        let (depot, route) = match (form, beyond.split_last()) {
            (Form::Lead, Some((last, between))) => {
                let ahead = between.iter().rev().chain([nearest]).cloned().collect();
                (last, Route::Lead { ahead, chain: vec![last.clone()], origin })
            }
            (Form::Lead, None) => {
                let chain = vec![nearest.clone()];
                (nearest, Route::Lead { ahead: Vec::new(), chain, origin })
            }
            (Form::Fetch, _) => (nearest, Route::Fetch { chain: beyond.to_vec(), origin }),
        };
        route.check()?;
        Ok(Self { depot: depot.clone(), route })
    }
}

impl Route {
    /// What is wanted.
    pub fn origin(&self) -> &OriginUrl {
        match self {
            Self::Lead { origin, .. } | Self::Fetch { origin, .. } => origin,
        }
    }

    /// The same way to something else.
    ///
    /// # Errors
    /// The route would be too long.
    pub fn to_origin(&self, origin: OriginUrl) -> Result<Self, RouteError> {
        let mut route = self.clone();
        match &mut route {
            Self::Lead { origin: old, .. } | Self::Fetch { origin: old, .. } => *old = origin,
        }
        route.check()?;
        Ok(route)
    }

    /// Holds the route to the limits.
    fn check(&self) -> Result<(), RouteError> {
        self.check_depots()?;
        let len = self.to_string().len();
        if len > MAX_ROUTE_LEN { Err(RouteError::TooLong(len)) } else { Ok(()) }
    }
}

impl Route {
    fn check_depots(&self) -> Result<(), RouteError> {
        match self {
            Self::Lead { ahead, chain, .. } => check_depots(ahead.iter().chain(chain)),
            Self::Fetch { chain, .. } => check_depots(chain),
        }
    }
}

impl FromStr for Route {
    type Err = RouteError;
    /// Reads the target of a request line.
    fn from_str(target: &str) -> Result<Self, RouteError> {
        if target.len() > MAX_ROUTE_LEN {
            return Err(RouteError::TooLong(target.len()));
        }
        let rest = target.strip_prefix(PREFIX).ok_or(RouteError::Prefix)?;
        let (form, rest) = rest.split_once('/').ok_or(RouteError::Prefix)?;
        let route = match form {
            "lead" => {
                let (ahead, rest) = cut(rest, "the list of depots ahead")?;
                let (chain, rest) = cut(rest, "the chain of depots")?;
                let chain = depots(chain)?;
                if chain.is_empty() {
                    return Err(RouteError::EmptyChain);
                }
                Self::Lead { ahead: depots(ahead)?, chain, origin: origin(rest)? }
            }
            "fetch" => {
                let (chain, rest) = cut(rest, "the chain of depots")?;
                Self::Fetch { chain: depots(chain)?, origin: origin(rest)? }
            }
            _ => return Err(RouteError::Prefix),
        };
        if target.len() > ALWAYS_FITS {
            route.check()?;
        } else {
            route.check_depots()?;
        }
        Ok(route)
    }
}

/// Not too many, and none twice.
///
/// # Errors
/// There are more than [`MAX_DEPOTS`], or one is there twice.
pub fn check_depots<'a>(
    depots: impl IntoIterator<Item = &'a DepotAddress>,
) -> Result<(), RouteError> {
    let depots: Vec<_> = depots.into_iter().collect();
    if depots.len() > MAX_DEPOTS {
        return Err(RouteError::TooManyDepots(depots.len()));
    }
    let twice = (1..depots.len()).find(|n| depots[..*n].contains(&depots[*n]));
    match twice {
        Some(twice) => Err(RouteError::Twice(depots[twice].clone())),
        None => Ok(()),
    }
}

/// Splits the next segment off.
fn cut<'a>(rest: &'a str, what: &'static str) -> Result<(&'a str, &'a str), RouteError> {
    rest.split_once('/').ok_or(RouteError::Missing(what))
}

/// Clients differ in what they percent-encode in a path (wget: brackets), so segments are decoded.
fn decoded(segment: &str) -> Result<String, RouteError> {
    let text = percent_decode_str(segment).decode_utf8().map_err(|_| RouteError::Encoding)?;
    Ok(text.into_owned())
}

/// Reads a list of depots.
fn depots(segment: &str) -> Result<Vec<DepotAddress>, RouteError> {
    let text = decoded(segment)?;
    if text == "-" {
        return Ok(Vec::new());
    }
    let list: Result<_, _> = text.split(',').map(str::parse).collect();
    Ok(list?)
}

/// Reads `<scheme>:<authority>/<path>?<query>`.
fn origin(rest: &str) -> Result<OriginUrl, RouteError> {
    let at = rest.find('/').ok_or(RouteError::Missing("the origin's path"))?;
    let (segment, target) = rest.split_at(at);
    let segment = decoded(segment)?;
    let (scheme, authority) = split_scheme(&segment)?;
    if authority.is_empty() && target.starts_with("//") {
        return Err(RouteError::Slashes(scheme));
    }
    let authority =
        Authority::parse(authority, Some(scheme.default_port())).map_err(OriginError::Authority)?;
    Ok(OriginUrl::new(scheme, authority, target)?)
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lead { ahead, chain, .. } => {
                write!(f, "{PREFIX}lead/{}/{}", list(ahead), list(chain))?;
            }
            Self::Fetch { chain, .. } => write!(f, "{PREFIX}fetch/{}", list(chain))?,
        }
        let origin = self.origin();
        let authority = origin.host_field();
        let authority = utf8_percent_encode(&authority, SEGMENT);
        write!(f, "/{}:{authority}{}", origin.scheme(), origin.target())
    }
}

/// Prints a list of depots.
fn list(depots: &[DepotAddress]) -> String {
    if depots.is_empty() {
        return "-".to_owned();
    }
    let texts: Vec<String> = depots.iter().map(DepotAddress::to_string).collect();
    utf8_percent_encode(&texts.join(","), SEGMENT).to_string()
}

impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.depot.url(&self.route.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmeasured_parts_of_a_route_fit_in_the_limit() {
        // Each byte of the path becomes three, each depot gains a port.
        let depots: Vec<String> = (0..MAX_DEPOTS).map(|n| format!("d{n}")).collect();
        let start = format!("/lh1/fetch/{}/http:o/", depots.join(","));
        let of_length = |length: usize| {
            let path = "\u{e9}".repeat((length - start.len()) / 2);
            format!("{start}{path}").parse::<Route>()
        };
        assert!(of_length(ALWAYS_FITS).unwrap().to_string().len() <= MAX_ROUTE_LEN);
        assert!(matches!(of_length(MAX_ROUTE_LEN / 2), Err(RouteError::TooLong(_))));
    }
}
