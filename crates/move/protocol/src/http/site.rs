// SPDX-License-Identifier: GPL-2.0-or-later
//! Between depots: that a request is for a site, and how its client asked for that.
//!
//! ```text
//! Longhaul-Site: "data.example.org";proto=https;for="192.0.2.7"      with a request
//! Longhaul-Site: ?1                                                  with its answer
//! ```
//! A site is one origin under a name of its own, so what a depot's shared name would drop of heads can pass. A depot
//! believes this of depots that it trusts, and says in its answer that it does: the depot that has the name then knows
//! that nothing was dropped. The last depot tells the origin as reverse proxies do.

use super::Fields;
use crate::{authority::Authority, origin::Scheme};
use http::{HeaderName, HeaderValue, header};
use sfv::{BareItem, Item, Parser};
use std::net::IpAddr;

static SITE: HeaderName = HeaderName::from_static("longhaul-site");
static FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// How a client asked for a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRequest {
    /// The value of the client's `Host`.
    pub asked: String,
    /// By what it asked.
    pub scheme: Scheme,
    /// Its address.
    pub client: IpAddr,
    /// The value of `Host` for the origin, where it is not the client's.
    pub host: Option<String>,
}

impl SiteRequest {
    /// Reads the previous depot's field. `None` if it is missing or malformed.
    pub fn read(fields: &Fields) -> Option<Self> {
        let mut values = fields.get_all(&SITE);
        let value = values.next().filter(|_| values.next().is_none())?;
        let item: Item = Parser::new(value.as_bytes()).parse().ok()?;
        let BareItem::String(asked) = &item.bare_item else { return None };
        let text = |key: &str| match item.params.get(key) {
            Some(BareItem::String(text)) => Some(text.as_str()),
            Some(BareItem::Token(token)) => Some(token.as_str()),
            _ => None,
        };
        let scheme = match text("proto")? {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let client = text("for")?.parse().ok()?;
        let (asked, host) = (asked.as_str().to_owned(), text("host").map(str::to_owned));
        // It is copied into fields in which quotes and commas have a meaning.
        let is_host = |text: &String| Authority::parse(text, Some(80)).is_ok();
        let all_are = is_host(&asked) && host.as_ref().is_none_or(is_host);
        all_are.then_some(Self { asked, scheme, client, host })
    }

    /// The value of `Host` for the origin.
    pub fn host(&self) -> &str {
        self.host.as_deref().unwrap_or(&self.asked)
    }

    /// The field for the next depot.
    pub(super) fn field(&self) -> (HeaderName, HeaderValue) {
        let Self { asked, scheme, client, host } = self;
        let client = client.to_canonical();
        let mut text = format!("\"{asked}\";proto={scheme};for=\"{client}\"");
        if let Some(host) = host {
            text.push_str(&format!(";host=\"{host}\""));
        }
        (SITE.clone(), visible(text))
    }

    /// The fields for the origin.
    pub(super) fn for_origin(&self) -> [(HeaderName, HeaderValue); 4] {
        let Self { asked, scheme, client, .. } = self;
        let client = client.to_canonical();
        let node = if client.is_ipv6() { format!("\"[{client}]\"") } else { client.to_string() };
        let forwarded = format!("for={node};host=\"{asked}\";proto={scheme}");
        [
            (header::FORWARDED, visible(forwarded)),
            (FOR.clone(), visible(client.to_string())),
            (HOST.clone(), visible(asked.clone())),
            (PROTO.clone(), visible(scheme.to_string())),
        ]
    }
}

/// By this a depot says that it has taken a request as one for a site.
pub(super) fn taken() -> (HeaderName, HeaderValue) {
    (SITE.clone(), HeaderValue::from_static("?1"))
}

/// Whether a depot says so.
pub fn is_taken(fields: &Fields) -> bool {
    let mut values = fields.get_all(&SITE);
    values.next().is_some_and(|value| value == "?1") && values.next().is_none()
}

/// A value made of a host, an address and words; what a host cannot have in it makes it none.
fn visible(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(values: &[&str]) -> Fields {
        values.iter().map(|value| (SITE.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn depot_field_round_trips() {
        for (client, host) in [("192.0.2.7", None), ("2001:db8::7", Some("origin.example.org"))] {
            let site = SiteRequest {
                asked: "data.example.org:8443".to_owned(),
                scheme: Scheme::Https,
                client: client.parse().unwrap(),
                host: host.map(str::to_owned),
            };
            let (_, value) = site.field();
            assert_eq!(SiteRequest::read(&fields(&[value.to_str().unwrap()])), Some(site));
        }
    }

    #[test]
    fn malformed_site_fields_are_refused() {
        let good = "\"d.example\";proto=http;for=\"192.0.2.7\"";
        assert!(SiteRequest::read(&fields(&[good])).is_some());
        for values in [
            &[][..],
            &[""],
            &[good, good],
            &["?1"],
            &["d.example;proto=http;for=\"192.0.2.7\""],
            &["\"d.example\";for=\"192.0.2.7\""],
            &["\"d.example\";proto=ftp;for=\"192.0.2.7\""],
            &["\"d.example\";proto=http"],
            &["\"d.example, e.example\";proto=http;for=\"192.0.2.7\""],
            &["\"d.example\\\";x=\\\"\";proto=http;for=\"192.0.2.7\""],
            &["\"d.example\";proto=http;for=\"192.0.2.7\";host=\"\""],
            &["\"d.example\";proto=http;for=\"client\""],
            &["\"d.example\";proto=http;for=\"192.0.2.7\", \"x\""],
        ] {
            assert_eq!(SiteRequest::read(&fields(values)), None, "{values:?}");
        }
        assert!(is_taken(&fields(&["?1"])));
        for values in [&[][..], &["?0"], &["?1", "?1"], &["\"d.example\""]] {
            assert!(!is_taken(&fields(values)), "{values:?}");
        }
    }
}
