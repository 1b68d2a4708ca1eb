// SPDX-License-Identifier: GPL-2.0-or-later
//! Through which depots a URL is asked for.
//!
//! ```toml
//! [[route]]
//! to = ["*.example.org", "data.example.net"]
//! via = ["d1.example.com:3880", "d2.example.org:3880"]
//! ```
//! The first route with a matching host is taken. `*.` stands for one or more labels; `*` for every host. Depots are
//! listed from the client to the origin.

use crate::Error;
use protocol::{DepotAddress, Form, OriginUrl, Redirect, Scheme};
use reqwest::Url;
use serde::Deserialize;
use std::path::Path;
use units::suggest;

/// Depots for all URLs, or by the URL's host.
#[derive(Debug, Clone, Default)]
pub struct Routes(Vec<ClientRoute>);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientRoute {
    to: Vec<Pattern>,
    via: Vec<DepotAddress>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    route: Vec<ClientRoute>,
}

/// A host, `*.` and a domain, or `*`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(String);

impl TryFrom<String> for Pattern {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        let host = text.strip_prefix("*.").unwrap_or(&text);
        if text == "*" || host.parse::<protocol::Host>().is_ok() {
            return Ok(Self(text));
        }
        Err(format!("{text:?} is neither a host, \"*.\" and a domain, nor \"*\""))
    }
}

impl Pattern {
    fn matches(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        match self.0.strip_prefix('*') {
            Some("") => true,
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => host == self.0,
        }
    }
}

impl Routes {
    /// These depots for every URL, the one nearest this client first.
    pub fn through(via: Vec<DepotAddress>) -> Self {
        if via.is_empty() {
            return Self::default();
        }
        Self(vec![ClientRoute { to: vec![Pattern("*".to_owned())], via }])
    }

    /// Reads a configuration; `file` is for messages.
    ///
    /// # Errors
    /// The text names file, line and reason.
    pub fn from_toml(text: &str, file: &Path) -> Result<Self, Error> {
        let document: Document = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text[..start].matches('\n').count() + 1;
            let hint = suggest::of_message(error.message());
            Error::Usage(format!("{}:{line}: {}{hint}", file.display(), error.message()))
        })?;
        for (at, route) in document.route.iter().enumerate() {
            let refused =
                |why: String| Error::Usage(format!("{}: route {}: {why}", file.display(), at + 1));
            let any: OriginUrl = "http://host/".parse().expect("a URL");
            redirect(&route.via, any).map_err(|error| refused(error.to_string()))?;
            if route.to.is_empty() {
                return Err(refused("\"to\" names no host".to_owned()));
            }
        }
        Ok(Self(document.route))
    }

    /// Where to ask for a URL instead; nothing where it is asked for directly.
    pub(crate) fn lead(&self, url: &Url, allow_downgrade: bool) -> Result<Option<Url>, Error> {
        let host = url.host_str().unwrap_or_default();
        let fits = |route: &&ClientRoute| route.to.iter().any(|pattern| pattern.matches(host));
        let Some(route) = self.0.iter().find(fits) else { return Ok(None) };
        let refused = |why: String| Error::Usage(format!("no route through depots: {why}"));
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("depots pass no credentials on; leave them out of the URL".into()));
        }
        let plain = route.via.iter().find(|depot| depot.scheme == Scheme::Http);
        if let Some(depot) = plain.filter(|_| url.scheme() == "https" && !allow_downgrade) {
            return Err(refused(format!(
                "{depot} is asked in the clear for an https URL. Use https:HOST, or --allow-downgrade"
            )));
        }
        let origin: OriginUrl =
            url.as_str().parse().map_err(|error| refused(format!("{error}")))?;
        let redirect = redirect(&route.via, origin).map_err(|error| refused(error.to_string()))?;
        redirect.to_string().parse().map(Some).map_err(|error| refused(format!("{error}")))
    }
}

/// Depots from the client to the origin, which [`Redirect`] takes the other way.
fn redirect(via: &[DepotAddress], origin: OriginUrl) -> Result<Redirect, protocol::RouteError> {
    let outward: Vec<_> = via.iter().rev().cloned().collect();
    Redirect::new(&outward, Form::Fetch, origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Routes, Error> {
        Routes::from_toml(text, Path::new("c.toml"))
    }

    #[test]
    fn route_is_chosen_by_host() {
        let routes = read(
            "[[route]]\nto = [\"*.example.org\"]\nvia = [\"d1:3880\", \"d2\"]\n\
             [[route]]\nto = [\"*\"]\nvia = [\"d3\"]\n",
        )
        .unwrap();
        let lead = |url: &str| routes.lead(&url.parse().unwrap(), false).unwrap().unwrap();
        assert_eq!(
            lead("http://A.example.org/f?q").as_str(),
            "http://d1:3880/lh1/fetch/d2:3880/http:a.example.org/f?q"
        );
        assert_eq!(
            lead("http://example.org/").as_str(),
            "http://d3:3880/lh1/fetch/-/http:example.org/"
        );
        assert!(Routes::default().lead(&"http://h/".parse().unwrap(), false).unwrap().is_none());
    }

    #[test]
    fn https_goes_through_plain_depots_only_on_request() {
        let url: Url = "https://h/f".parse().unwrap();
        let plain = Routes::through(vec!["https:d1".parse().unwrap(), "d2".parse().unwrap()]);
        assert!(plain.lead(&url, false).unwrap_err().to_string().contains("--allow-downgrade"));
        assert!(plain.lead(&url, true).is_ok());
        let tls = Routes::through(vec!["https:d1".parse().unwrap()]);
        let led = tls.lead(&url, false).unwrap().unwrap();
        assert_eq!(led.as_str(), "https://d1/lh1/fetch/-/https:h/f");
        assert!(tls.lead(&"https://u:p@h/f".parse().unwrap(), false).is_err());
    }

    #[test]
    fn mistakes_are_named_with_file_and_line() {
        for (text, expected) in [
            ("[[route]]\nto = [\"*.x\"]\nvia = [\"d:0\"]\n", "c.toml:3: "),
            ("[[route]]\nto = [\"a b\"]\nvia = [\"d\"]\n", "c.toml:2: "),
            ("\n[[routes]]\n", "c.toml:2: unknown field"),
            ("[[route]]\nto = [\"h\"]\nvia = []\n", "c.toml: route 1: a route needs"),
            (
                "[[route]]\nto = [\"h\"]\nvia = [\"d\", \"d\"]\n",
                "c.toml: route 1: the route passes",
            ),
            ("[[route]]\nto = []\nvia = [\"d\"]\n", "names no host"),
            ("x = [", "c.toml:1: "),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
