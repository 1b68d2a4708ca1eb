// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of a site: its own, that of its origin, and the one that the origin knows.

use protocol::{Authority, AuthorityError, Host, OriginError, OriginUrl, Scheme};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A DNS name, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SiteName(String);

/// Scheme, host and port of an origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SiteOrigin(OriginUrl);

/// A value of `Host`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SiteHost(String);

/// Why a text is not a valid part of a site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Not a DNS name.
    #[error("\"{0}\" is not a DNS name: a site has one and no port, as in data.example.org")]
    Name(String),
    /// Not `host[:port]`.
    #[error(transparent)]
    Host(#[from] AuthorityError),
    /// Not a URL.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// A URL with a path.
    #[error("\"{0}\" has a path: a site is a whole origin, as in http://origin.example.org:8080")]
    Path(String),
}

impl TryFrom<String> for SiteName {
    type Error = SiteError;
    fn try_from(text: String) -> Result<Self, SiteError> {
        match text.parse() {
            Ok(Host::Name(name)) => Ok(Self(name)),
            _ => Err(SiteError::Name(text)),
        }
    }
}

impl TryFrom<String> for SiteOrigin {
    type Error = SiteError;
    fn try_from(text: String) -> Result<Self, SiteError> {
        let url: OriginUrl = text.parse()?;
        if url.target() == "/" { Ok(Self(url)) } else { Err(SiteError::Path(text)) }
    }
}

impl TryFrom<String> for SiteHost {
    type Error = SiteError;
    fn try_from(text: String) -> Result<Self, SiteError> {
        Authority::parse(&text, Some(1))?;
        Ok(Self(text))
    }
}

impl From<SiteName> for String {
    fn from(name: SiteName) -> Self {
        name.0
    }
}

impl From<SiteOrigin> for String {
    fn from(SiteOrigin(url): SiteOrigin) -> Self {
        format!("{}://{}", url.scheme(), url.host_field())
    }
}

impl From<SiteHost> for String {
    fn from(host: SiteHost) -> Self {
        host.0
    }
}

impl fmt::Display for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SiteName {
    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl SiteHost {
    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl SiteOrigin {
    /// The URL of a path at the origin.
    pub(crate) fn url(&self, target: &str) -> Result<OriginUrl, OriginError> {
        OriginUrl::new(self.0.scheme(), self.0.authority().clone(), target)
    }

    pub(super) fn authority(&self) -> &Authority {
        self.0.authority()
    }

    pub(super) fn scheme(&self) -> Scheme {
        self.0.scheme()
    }
}
