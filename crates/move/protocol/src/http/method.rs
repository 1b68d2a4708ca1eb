// SPDX-License-Identifier: GPL-2.0-or-later
//! The methods that are relayed.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A method that is relayed. TRACE and CONNECT are not: one would show a next hop's fields to
/// any client, the other is a tunnel to anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the names are those of RFC 9110 and RFC 5789")]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Patch,
    Delete,
    Options,
}

impl Method {
    /// All of them, as `Allow` lists them.
    pub const ALL: [Self; 7] =
        [Self::Get, Self::Head, Self::Put, Self::Post, Self::Patch, Self::Delete, Self::Options];

    /// As on a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }

    /// A list of methods, as the value of `Allow`.
    pub fn list(methods: &[Self]) -> String {
        methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Whether a request may carry a body. Those that need none are relayed without: a body that
    /// two readers delimit differently is how requests are smuggled.
    pub const fn may_have_body(self) -> bool {
        matches!(self, Self::Put | Self::Post | Self::Patch | Self::Delete)
    }

    /// Whether asking twice does what asking once does (RFC 9110, section 9.2.2): then a request
    /// whose connection broke before any answer may be sent again.
    pub const fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch)
    }

    /// Whether answers have a body: all but those to HEAD.
    pub const fn is_answered_with_body(self) -> bool {
        !matches!(self, Self::Head)
    }
}

/// The text is not a method that depots relay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not relayed; GET, HEAD, PUT, POST, PATCH, DELETE and OPTIONS are")]
pub struct MethodError(pub(super) String);

impl FromStr for Method {
    type Err = MethodError;
    fn from_str(text: &str) -> Result<Self, MethodError> {
        let known = Self::ALL.into_iter().find(|method| method.as_str() == text);
        known.ok_or_else(|| MethodError(text.to_owned()))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
