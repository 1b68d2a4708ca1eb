// SPDX-License-Identifier: GPL-2.0-or-later
//! Address of a depot as written in routes and tickets.

use crate::{
    authority::{Authority, AuthorityError},
    origin::Scheme,
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Default port of a depot without TLS.
pub const DEPOT_PORT: u16 = 3880;
/// Prefix of the address of a depot that is reached over TLS.
const OVER_TLS: &str = "https:";

/// Where, and how, a depot is asked: `host[:port]`, or `https:host[:port]` over TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DepotAddress {
    /// With TLS or without.
    pub scheme: Scheme,
    /// Where.
    pub authority: Authority,
}

impl DepotAddress {
    /// The URL with which the depot is asked for a target.
    pub fn url(&self, target: &str) -> String {
        format!("{}://{}{target}", self.scheme, self.authority)
    }
}

impl FromStr for DepotAddress {
    type Err = AuthorityError;
    /// Reads an address; without a port, 3880 is meant, and 443 over TLS.
    fn from_str(text: &str) -> Result<Self, AuthorityError> {
        let (scheme, rest, port) = match text.strip_prefix(OVER_TLS) {
            Some(rest) => (Scheme::Https, rest, Scheme::Https.default_port()),
            None => (Scheme::Http, text, DEPOT_PORT),
        };
        match Authority::parse(rest, Some(port)) {
            Ok(authority) => Ok(Self { scheme, authority }),
            Err(error) => Err(meant_instead(text).map_or(error, |meant| AuthorityError::Url {
                text: text.to_owned(),
                meant: meant.to_string(),
            })),
        }
    }
}

/// The depot that a URL is about.
fn meant_instead(text: &str) -> Option<DepotAddress> {
    let (over_tls, rest) = match text.strip_prefix(OVER_TLS) {
        Some(rest) => (OVER_TLS, rest),
        None => ("", text.strip_prefix("http:").unwrap_or(text)),
    };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let host = rest.split('/').next()?;
    let meant = format!("{over_tls}{host}");
    if meant == text { None } else { meant.parse().ok() }
}

impl TryFrom<String> for DepotAddress {
    type Error = AuthorityError;
    fn try_from(text: String) -> Result<Self, AuthorityError> {
        text.parse()
    }
}

impl From<DepotAddress> for String {
    fn from(address: DepotAddress) -> Self {
        address.to_string()
    }
}

impl From<Authority> for DepotAddress {
    /// A depot without TLS.
    fn from(authority: Authority) -> Self {
        Self { scheme: Scheme::Http, authority }
    }
}

impl fmt::Display for DepotAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme == Scheme::Https {
            f.write_str(OVER_TLS)?;
        }
        self.authority.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for (text, printed) in [
            ("d1.example", "d1.example:3880"),
            ("D1.example:80", "d1.example:80"),
            ("https:d1.example", "https:d1.example:443"),
            ("https:[2001:db8::1]:8443", "https:[2001:db8::1]:8443"),
        ] {
            assert_eq!(text.parse::<DepotAddress>().unwrap().to_string(), printed, "{text}");
        }
        for (text, meant) in [
            ("http://d2:3880/", "d2:3880"),
            ("http://d2", "d2:3880"),
            ("http:d1", "d1:3880"),
            ("https://d1/lh1", "https:d1:443"),
            ("https:d1/", "https:d1:443"),
            ("d1:80/", "d1:80"),
        ] {
            let error = text.parse::<DepotAddress>().unwrap_err();
            let AuthorityError::Url { meant: found, .. } = error else { panic!("{error}") };
            assert_eq!(found, meant, "{text}");
        }
        for text in ["", "https:", "https:443", "http:d1", "tls:d1", "https://d1", "d1:0"] {
            assert!(text.parse::<DepotAddress>().is_err(), "{text}");
        }
    }
}
