// SPDX-License-Identifier: GPL-2.0-or-later
//! Which destinations go through which depots.

use crate::{
    destination::{Destination, Match},
    short_rule::{FirstContact, ShortRule},
};
use host::settings_file::{self, ConfigError};
use protocol::{Authority, DepotAddress, announcement::Announcement, check_depots};
use serde::Deserialize;
use std::{path::Path, sync::Arc};
use units::Bytes;

/// The most routes of a file.
const MOST: usize = 1000;

/// Depots, and the destinations that are reached through them.
#[derive(Debug, Clone, Default)]
pub struct RouteTable {
    rules: Vec<Rule>,
    direct_below: Option<Bytes>,
    first_contact: FirstContact,
    /// Announcements of depots, if routes are tried in the order of their forecasts.
    by_forecast: Option<Arc<[Announcement]>>,
}

/// Destinations, and the depots to them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Where one of these is the destination.
    pub to: Vec<Match>,
    /// These depots lead there, the nearest first; none: directly.
    pub via: Vec<DepotAddress>,
    direct_below: Option<Bytes>,
    first_contact: Option<FirstContact>,
}

/// Depots, the nearest first, and what the last of them is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route<'r> {
    /// At least one.
    pub depots: &'r [DepotAddress],
    /// The server.
    pub server: Authority,
    /// Which destinations are reached directly all the same.
    pub short: Option<ShortRule>,
}

/// What a table says of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matching<'r> {
    /// The routes that lead there, in their order.
    pub routes: Vec<Route<'r>>,
    /// Whether a rule without depots has ended the list.
    pub is_direct_then: bool,
}

/// A file that has rules and nothing else.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    route: Vec<Rule>,
}

impl RouteTable {
    /// Reads a file that has rules and nothing else, for transfers: what they will move is not known before.
    ///
    /// # Errors
    /// The text names the file, and the line if one line is wrong.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        settings_file::read(file, |document: Document| {
            let table = Self::new(document.route);
            table.check()?;
            if table.has_short() {
                return Err(
                    "\"direct_below\" is for `longhaul run` and `longhaul agent`".to_owned()
                );
            }
            Ok(table)
        })
    }

    /// The user's, `longhaul/client.toml` in the configuration directory; none without that file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of_user() -> Result<Self, ConfigError> {
        let file = host::config_directory().map(|folder| folder.join("longhaul/client.toml"));
        file.filter(|file| file.exists())
            .map_or_else(|| Ok(Self::default()), |file| Self::read(&file))
    }

    /// These, in this order.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// The same destinations through each of these chains, in this order.
    pub fn through(chains: Vec<Vec<DepotAddress>>, to: &[Match]) -> Self {
        let rule = |via| Rule { to: to.to_vec(), via, direct_below: None, first_contact: None };
        Self::new(chains.into_iter().map(rule).collect())
    }

    /// With this rule for short connections where a route has none of its own.
    #[must_use]
    pub fn directly_below(self, direct_below: Option<Bytes>, first_contact: FirstContact) -> Self {
        Self { direct_below, first_contact, ..self }
    }

    /// With routes tried in the order of their forecasts, as long as these are better than the direct way.
    #[must_use]
    pub fn by_forecast(self, announcements: &[Announcement]) -> Self {
        Self { by_forecast: Some(announcements.into()), ..self }
    }

    /// Announcements of depots, if routes are tried in the order of their forecasts.
    pub fn forecast_by(&self) -> Option<&[Announcement]> {
        self.by_forecast.as_deref()
    }

    /// Without rules for short connections.
    #[must_use]
    pub fn without_short(mut self) -> Self {
        self.direct_below = None;
        self.rules.iter_mut().for_each(|rule| rule.direct_below = None);
        self
    }

    /// Whether a route has a rule for short connections.
    pub fn has_short(&self) -> bool {
        self.rules.iter().any(|rule| self.short(rule).is_some())
    }

    /// A limit of 0 is none.
    fn short(&self, rule: &Rule) -> Option<ShortRule> {
        let below = rule.direct_below.or(self.direct_below).filter(|below| below.get() > 0)?;
        Some(ShortRule { below, first: rule.first_contact.unwrap_or(self.first_contact) })
    }

    /// All rules, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What is wrong with them, if anything.
    ///
    /// # Errors
    /// The text names the route by its number.
    pub fn check(&self) -> Result<(), String> {
        if self.rules.len() > MOST {
            return Err(format!("there are more than {MOST} routes"));
        }
        let has_rule = self.direct_below.is_some() || self.has_short();
        if self.first_contact != FirstContact::default() && !has_rule {
            return Err("\"first_contact\" needs \"direct_below\"".to_owned());
        }
        for (at, rule) in self.rules.iter().enumerate() {
            let at = at + 1;
            if rule.to.is_empty() {
                return Err(format!("route {at}: \"to\" names no destination"));
            }
            check_depots(&rule.via).map_err(|error| format!("route {at}: {error}"))?;
            if rule.first_contact.is_some() && self.short(rule).is_none() {
                return Err(format!("route {at}: \"first_contact\" needs \"direct_below\""));
            }
        }
        Ok(())
    }

    /// The routes to a destination, in the order in which they are listed; none: connect directly.
    pub async fn matching(&self, destination: &Destination) -> Matching<'_> {
        let mut routes = Vec::new();
        for rule in &self.rules {
            for of in &rule.to {
                if let Some(server) = of.server(destination).await {
                    if rule.via.is_empty() {
                        return Matching { routes, is_direct_then: true };
                    }
                    routes.push(Route { depots: &rule.via, server, short: self.short(rule) });
                    break;
                }
            }
        }
        Matching { routes, is_direct_then: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(to: &[&str]) -> RouteTable {
        let to: Vec<Match> = to.iter().map(|text| text.parse().unwrap()).collect();
        RouteTable::through(vec![vec!["depot.example".parse().unwrap()]], &to)
    }

    async fn server(routes: &RouteTable, destination: Destination) -> Option<String> {
        let matching = routes.matching(&destination).await.routes;
        matching.first().map(|route| route.server.to_string())
    }

    async fn at(routes: &RouteTable, address: &str) -> Option<String> {
        server(routes, Destination::Address(address.parse().unwrap())).await
    }

    async fn named(routes: &RouteTable, server_name: &str) -> Option<String> {
        server(routes, Destination::Named(server_name.parse().unwrap())).await
    }

    #[tokio::test]
    async fn everything_goes_through_but_this_machine() {
        for (destination, expected) in [
            ("192.0.2.1:80", Some("192.0.2.1:80")),
            ("[::ffff:192.0.2.1]:80", Some("192.0.2.1:80")),
            ("[2001:db8::1]:443", Some("[2001:db8::1]:443")),
            ("127.0.0.2:80", None),
            ("[::1]:80", None),
            ("[::ffff:127.0.0.1]:80", None),
            ("0.0.0.0:80", None),
        ] {
            assert_eq!(
                at(&through(&["*"]), destination).await.as_deref(),
                expected,
                "{destination}"
            );
        }
        for (destination, expected) in [
            ("host.example:80", Some("host.example:80")),
            ("LOCALHOST:80", None),
            ("a.localhost:80", None),
            ("127.0.0.1:80", None),
        ] {
            assert_eq!(
                named(&through(&["*"]), destination).await.as_deref(),
                expected,
                "{destination}"
            );
        }
    }

    #[tokio::test]
    async fn matches_choose_destinations() {
        let routes = through(&[
            "10.1.2.3/8",
            "2001:db8::7",
            "*:5432",
            "localhost:9",
            "192.0.2.1:22",
            "[2001:db8:1::/48]:25",
            "*.example.org",
            "files.example.net",
            "[2001:0db8:2:0:0:0:0:1]",
            "::ffff:203.0.113.7",
            "::ffff:203.0.113.64/122",
        ]);
        for (destination, expected) in [
            ("10.9.9.9:1", Some("10.9.9.9:1")),
            ("[2001:db8::7]:1", Some("[2001:db8::7]:1")),
            ("[2001:db8::8]:1", None),
            ("198.51.100.1:5432", Some("198.51.100.1:5432")),
            ("127.0.0.1:5432", None),
            // Who names this machine means it.
            ("127.0.0.1:9", Some("localhost:9")),
            ("127.0.0.1:10", None),
            ("192.0.2.1:22", Some("192.0.2.1:22")),
            ("192.0.2.1:23", None),
            ("[2001:db8:1::2]:25", Some("[2001:db8:1::2]:25")),
            // However addresses are written.
            ("[2001:db8:2::1]:9", Some("[2001:db8:2::1]:9")),
            ("203.0.113.7:9", Some("203.0.113.7:9")),
            ("[::ffff:203.0.113.7]:9", Some("203.0.113.7:9")),
            ("203.0.113.65:9", Some("203.0.113.65:9")),
            ("203.0.113.8:9", None),
        ] {
            assert_eq!(at(&routes, destination).await.as_deref(), expected, "{destination}");
        }
        for (destination, matches) in [
            ("a.example.org:80", true),
            ("A.B.EXAMPLE.ORG:80", true),
            ("example.org:80", false),
            (".example.org:80", false),
            ("badexample.org:80", false),
            ("files.example.net:80", true),
            ("x.files.example.net:80", false),
            ("db.example.com:5432", true),
            ("10.2.3.4:99", true),
        ] {
            let Ok(authority) = destination.parse() else { continue };
            let found = server(&routes, Destination::Named(authority)).await;
            assert_eq!(found.is_some(), matches, "{destination}");
        }
    }

    #[derive(Deserialize)]
    struct File {
        route: Vec<Rule>,
    }

    fn read(text: &str) -> RouteTable {
        RouteTable::new(toml::from_str::<File>(text).unwrap().route)
    }

    #[tokio::test]
    async fn routes_are_tried_in_order_up_to_a_direct_one() {
        let routes = read(
            r#"
            [[route]]
            to = ["*.example.org"]
            via = ["d1", "https:d2"]
            [[route]]
            to = ["*"]
            via = ["d3"]
            [[route]]
            to = ["direct.example.org"]
            via = []
            [[route]]
            to = ["*"]
            via = ["d4"]
            "#,
        );
        routes.check().unwrap();
        let matching = |name: &str| {
            let (routes, destination) = (routes.clone(), Destination::Named(name.parse().unwrap()));
            async move {
                let matching = routes.matching(&destination).await.routes;
                matching.iter().map(|route| route.depots[0].to_string()).collect::<Vec<_>>()
            }
        };
        assert_eq!(matching("a.example.org:80").await, ["d1:3880", "d3:3880", "d4:3880"]);
        assert_eq!(matching("direct.example.org:80").await, ["d1:3880", "d3:3880"]);
        assert_eq!(matching("b.example.com:80").await, ["d3:3880", "d4:3880"]);
    }

    #[test]
    fn malformed_matches_are_refused() {
        for text in ["", "10.0.0.0/33", "*:0", "*:x", "host:", "host:0", ":80", "a b:1", "*.", "**"]
        {
            let error = text.parse::<Match>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
        let none = read("[[route]]\nto = []\nvia = [\"d\"]");
        assert_eq!(none.check().unwrap_err(), "route 1: \"to\" names no destination");
    }

    #[test]
    fn mistakes_are_named_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        for (text, expected) in [
            ("[[route]]\nto = [\"*.x\"]\nvia = [\"d:0\"]\n", "c.toml:3: "),
            ("[[route]]\nto = [\"a b\"]\nvia = [\"d\"]\n", "c.toml:2: "),
            ("\n[[routes]]\n", "c.toml:2: unknown field"),
            (
                "[[route]]\nto = [\"h\"]\nvia = [\"d\", \"d\"]\n",
                "c.toml: route 1: the route passes",
            ),
            ("[[route]]\nto = []\nvia = [\"d\"]\n", "names no destination"),
            (
                "[[route]]\nto = [\"h\"]\nvia = [\"d\"]\ndirect_below = \"1MB\"\n",
                "is for `longhaul run`",
            ),
            ("x = [", "c.toml:1: "),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = RouteTable::read(&file).expect_err(text).to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
