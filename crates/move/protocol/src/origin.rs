// SPDX-License-Identifier: GPL-2.0-or-later
//! The URL that the client asked for in the first place.

use crate::authority::{Authority, AuthorityError};
use std::{fmt, str::FromStr};

/// The parameter by which a URL's query asks a site for the response itself, and for no redirect to depots.
const DIRECT: &str = "lh-direct=1";

/// How a depot talks to the next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP, port 80 unless named.
    Http,
    /// HTTP over TLS, port 443 unless named.
    Https,
}

impl Scheme {
    /// The scheme's own port.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// An origin's URL: scheme, authority and request target. No user, no fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginUrl {
    scheme: Scheme,
    authority: Authority,
    target: String,
}

/// Why a text is not an origin's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Not a scheme that a depot can fetch.
    #[error("{0:?} does not begin with http: or https:")]
    Scheme(String),
    /// The host or port is wrong.
    #[error("the origin's address: {0}")]
    Authority(#[from] AuthorityError),
    /// The path does not begin with a slash, or holds what no request line may.
    #[error("the origin's path holds a space, a control character, a '#' or no leading '/'")]
    Target,
    /// Clients take `.` and `..` out of a path before they ask, which would eat the route.
    #[error("the origin's path has a segment \".\" or \"..\"")]
    DotSegment,
}

impl OriginUrl {
    /// Puts a URL together. `target` is the path with the query, as on a request line; bytes
    /// outside ASCII are percent-encoded, all else stays as it is.
    ///
    /// # Errors
    /// The target does not begin with a slash, has dot segments, or holds what no request line may.
    pub fn new(scheme: Scheme, authority: Authority, target: &str) -> Result<Self, OriginError> {
        let path = target.split('?').next().unwrap_or_default();
        if path.split('/').any(is_dot_segment) {
            return Err(OriginError::DotSegment);
        }
        Self::with_any_path(scheme, authority, target)
    }

    /// Reads a URL that a client sends to a proxy. It may have dot segments, as apt's have, because no route
    /// precedes them.
    ///
    /// # Errors
    /// As for other URLs, except that dot segments are accepted.
    pub fn of_proxy(text: &str) -> Result<Self, OriginError> {
        let (scheme, authority, target) = split(text)?;
        Self::with_any_path(scheme, authority, &target)
    }

    fn with_any_path(
        scheme: Scheme,
        authority: Authority,
        target: &str,
    ) -> Result<Self, OriginError> {
        let visible = |b: u8| b > b' ' && b != 0x7f && b != b'#';
        if !target.starts_with('/') || !target.bytes().all(visible) {
            return Err(OriginError::Target);
        }
        let target =
            percent_encoding::utf8_percent_encode(target, &percent_encoding::AsciiSet::EMPTY);
        Ok(Self { scheme, authority, target: target.to_string() })
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Host and port.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Path and query as the origin is to see them; begins with `/`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The same URL for the site to answer without depots: with `lh-direct=1` as the last parameter of its query.
    #[must_use]
    pub fn direct(&self) -> Self {
        let separator = match self.target.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some(_) => "&",
        };
        Self { target: format!("{}{separator}{DIRECT}", self.target), ..self.clone() }
    }

    /// Whether it is for the site to answer without depots.
    pub fn is_direct(&self) -> bool {
        asks_directly(&self.target)
    }

    /// The value of the `Host` field for this origin.
    pub fn host_field(&self) -> String {
        self.authority.without_port(self.scheme.default_port())
    }

    /// `Location` values are references (RFC 9110, section 10.2.2): the same one, made absolute
    /// against this URL. An unusable reference is returned unchanged.
    pub fn absolute(&self, reference: &str) -> String {
        let path = self.path();
        if let Some((scheme, rest)) = reference.split_once(':').filter(|(s, _)| is_scheme(s)) {
            return match split_scheme(reference) {
                // Browsers take what has no host for a path at the host that they ask: a depot.
                Ok((own, _)) if !rest.starts_with("//") && own == self.scheme => {
                    self.absolute(rest)
                }
                Ok(_) => format!("{scheme}://{}", rest.trim_start_matches(['/', '\\'])),
                Err(_) => reference.to_owned(),
            };
        }
        let resolved = if let Some(rest) = reference.strip_prefix("//") {
            return format!("{}://{rest}", self.scheme);
        } else if reference.starts_with('/') {
            reference.to_owned()
        } else if reference.starts_with('?') {
            format!("{path}{reference}")
        } else if reference.starts_with('#') || reference.is_empty() {
            format!("{}{reference}", self.target)
        } else {
            let folder = &path[..=path.rfind('/').unwrap_or(0)];
            format!("{folder}{reference}")
        };
        // Dot segments may stay: the client removes them when it follows the reference.
        format!("{}://{}{resolved}", self.scheme, self.host_field())
    }
}

/// Whether a request target asks the site for the response itself, and for no redirect to depots.
pub fn asks_directly(target: &str) -> bool {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|parameter| parameter == DIRECT)
}

/// The part before the first colon is a scheme (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// `.` and `..`, also written with `%2e`, which browsers treat alike.
pub(crate) fn is_dot_segment(segment: &str) -> bool {
    segment.len() <= 6
        && matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

impl FromStr for OriginUrl {
    type Err = OriginError;
    /// Reads `http://host[:port][/path][?query]`.
    fn from_str(text: &str) -> Result<Self, OriginError> {
        let (scheme, authority, target) = split(text)?;
        Self::new(scheme, authority, &target)
    }
}

/// The parts of a URL; the path is at least a slash.
fn split(text: &str) -> Result<(Scheme, Authority, String), OriginError> {
    let (scheme, rest) = split_scheme(text)?;
    let rest = rest.strip_prefix("//").ok_or_else(|| OriginError::Scheme(text.to_owned()))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    let authority = Authority::parse(authority, Some(scheme.default_port()))?;
    let slash = if target.starts_with('/') { "" } else { "/" };
    Ok((scheme, authority, format!("{slash}{target}")))
}

/// Splits `http:` or `https:` off, without regard to case.
pub(crate) fn split_scheme(text: &str) -> Result<(Scheme, &str), OriginError> {
    let bad = || OriginError::Scheme(text.to_owned());
    let (scheme, rest) = text.split_once(':').ok_or_else(bad)?;
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok((Scheme::Http, rest)),
        "https" => Ok((Scheme::Https, rest)),
        _ => Err(bad()),
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host_field(), self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_printed() {
        for (text, printed) in [
            ("http://o.example/a?b=c", "http://o.example/a?b=c"),
            ("HTTP://o.example:80/", "http://o.example/"),
            ("http://o.example", "http://o.example/"),
            ("http://o.example?q", "http://o.example/?q"),
            ("https://[::1]:8443//x//", "https://[::1]:8443//x//"),
            ("http://o/caf\u{e9}", "http://o/caf%C3%A9"),
            ("http://o/a..b/...?../..", "http://o/a..b/...?../.."),
        ] {
            assert_eq!(text.parse::<OriginUrl>().unwrap().to_string(), printed, "{text}");
        }
        let of_proxy = OriginUrl::of_proxy("http://o.example/a/./../b?c").unwrap();
        assert_eq!(of_proxy.target(), "/a/./../b?c", "it is the server's to read");
        assert!(OriginUrl::of_proxy("http://o/a b").is_err());
        for text in [
            "ftp://o/",
            "http:/o/",
            "o/",
            "http://",
            "http://u@o/",
            "http://o/a b",
            "http://o/#f",
            "http://o/../x",
            "http://o/a/.",
            "http://o/%2E%2e/x",
            "http://o/a\r\nb",
        ] {
            assert!(text.parse::<OriginUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn direct_url_differs_by_one_parameter() {
        for (url, direct) in [
            ("http://o/f", "http://o/f?lh-direct=1"),
            ("http://o/f?", "http://o/f?lh-direct=1"),
            ("https://o:81/f?a=b", "https://o:81/f?a=b&lh-direct=1"),
        ] {
            let url: OriginUrl = url.parse().unwrap();
            assert!(!url.is_direct(), "{url}");
            assert_eq!(url.direct().to_string(), direct);
            assert!(url.direct().is_direct(), "{url}");
        }
        for (target, is_direct) in [
            ("/f?lh-direct=1&a=b", true),
            ("/f?a=b?&lh-direct=1", true),
            ("/f?lh-direct=10", false),
            ("/f?xlh-direct=1", false),
            ("/f&lh-direct=1", false),
            ("/lh-direct=1", false),
        ] {
            assert_eq!(asks_directly(target), is_direct, "{target}");
        }
    }

    #[test]
    fn references_become_absolute() {
        let base: OriginUrl = "http://o.example:81/dir/file?q=1".parse().unwrap();
        for (reference, absolute) in [
            ("http://else/x", "http://else/x"),
            ("mailto:x", "mailto:x"),
            ("//else/x", "http://else/x"),
            ("/x?y", "http://o.example:81/x?y"),
            ("x", "http://o.example:81/dir/x"),
            ("x:y/z", "x:y/z"),
            ("./x:y", "http://o.example:81/dir/./x:y"),
            ("../x", "http://o.example:81/dir/../x"),
            ("?z", "http://o.example:81/dir/file?z"),
            ("", "http://o.example:81/dir/file?q=1"),
            ("#f", "http://o.example:81/dir/file?q=1#f"),
        ] {
            assert_eq!(base.absolute(reference), absolute, "{reference}");
        }
    }
}
