// SPDX-License-Identifier: GPL-2.0-or-later
//! The configuration: which routes clients are redirected to.

use health::Rules;
use ipnet::{IpNet, Ipv4Net};
use protocol::{DepotAddress, OriginUrl, Route, Scheme};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, fmt, iter, path::PathBuf, str::FromStr};
use units::{Duration, suggest};

/// All settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The web server that the include is written for, if any.
    #[serde(default)]
    pub server: Option<Server>,
    /// The file that the web server's configuration includes.
    #[serde(default)]
    pub include: Option<PathBuf>,
    /// The command that makes the web server reload: a program and its arguments. Empty: none.
    #[serde(default)]
    pub reload: Vec<String>,
    /// The file with the routes for programs, as JSON.
    #[serde(default)]
    pub routes_file: Option<PathBuf>,
    /// The authorities trusted for depots' certificates. `None`: those of this system.
    #[serde(default)]
    pub roots: Option<PathBuf>,
    /// The interval of probes.
    #[serde(default = "every")]
    pub every: Duration,
    /// The timeout of a probe.
    #[serde(default = "every")]
    pub timeout: Duration,
    /// Failures in a row after which a depot is down.
    #[serde(default = "fall")]
    pub fall: u32,
    /// Answers in a row after which it is up again.
    #[serde(default = "rise")]
    pub rise: u32,
    /// Groups of clients.
    pub clients: Vec<Clients>,
}

fn every() -> Duration {
    Duration::from_secs(1)
}

fn fall() -> u32 {
    Rules::default().fall
}

fn rise() -> u32 {
    Rules::default().rise
}

/// A kind of web server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Server {
    /// nginx: lines for `geo`.
    Nginx,
    /// Apache: lines for `mod_setenvif`.
    Apache,
}

/// Clients with the same routes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// Their networks.
    pub networks: Vec<IpNet>,
    /// The routes that they are redirected to, the best one first.
    pub routes: Vec<FailoverRoute>,
    /// Which of them is used.
    #[serde(default)]
    pub order: RouteOrder,
}

/// Which of several routes is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteOrder {
    /// The first whose depots are all up.
    #[default]
    Written,
    /// The fastest of those, for each network by itself.
    Forecast,
}

/// A route through depots: the depot that a client uses, and the rest of the route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FailoverRoute {
    text: String,
    depots: Vec<DepotAddress>,
    via: Vec<DepotAddress>,
}

/// Errors of a configuration. Its author is at fault.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML, an unknown key, or a value that does not parse; the text points at the line.
    #[error("{file}: {}{}", error.to_string().trim_end(), suggest::of_message(error.message()))]
    Toml {
        /// The file's name.
        file: String,
        /// What and where.
        error: Box<toml::de::Error>,
    },
    /// A number or time is outside its range.
    #[error("`{key}` is {value}: expected {expected}")]
    Range {
        /// The key.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A network is listed more than once.
    #[error("clients.networks: {0} is listed twice, and only one of its routes would be used")]
    Twice(IpNet),
    /// The outputs are missing or incomplete.
    #[error("{0}")]
    Output(&'static str),
    /// No group of clients has both networks and routes.
    #[error("[[clients]]: each needs a network and a route, and there has to be one")]
    Nobody,
}

/// A network as both servers parse it: IPv4 in its own form, host bits cleared.
fn plain(net: IpNet) -> IpNet {
    match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => v6
            .addr()
            .to_ipv4_mapped()
            .map_or(net, |v4| Ipv4Net::new(v4, v6.prefix_len() - 96).map_or(net, IpNet::V4)),
        _ => net,
    }
    .trunc()
}

impl Config {
    /// Parses a configuration file's text. `file` is its name, for the message.
    ///
    /// # Errors
    /// The first error found.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text)
            .map_err(|error| ConfigError::Toml { file: file.to_owned(), error: Box::new(error) })?;
        let times = Duration::from_millis(100)..=Duration::from_secs(3600);
        for (key, time) in [("every", config.every), ("timeout", config.timeout)] {
            if !times.contains(&time) {
                let (value, expected) = (time.to_string(), "100ms to 1h");
                return Err(ConfigError::Range { key, value, expected });
            }
        }
        for (key, number) in [("fall", config.fall), ("rise", config.rise)] {
            if !(1..=1000).contains(&number) {
                let (value, expected) = (number.to_string(), "1 to 1000");
                return Err(ConfigError::Range { key, value, expected });
            }
        }
        config.check_outputs()?;
        let empty = |clients: &Clients| clients.networks.is_empty() || clients.routes.is_empty();
        if config.clients.is_empty() || config.clients.iter().any(empty) {
            return Err(ConfigError::Nobody);
        }
        let mut known = HashSet::new();
        for net in config.clients.iter_mut().flat_map(|clients| &mut clients.networks) {
            *net = plain(*net);
            if !known.insert(*net) {
                return Err(ConfigError::Twice(*net));
            }
        }
        Ok(config)
    }

    fn check_outputs(&self) -> Result<(), ConfigError> {
        let Self { server, include, reload, routes_file, .. } = self;
        let wrong = if server.is_some() != include.is_some() {
            "`server` and `include` need each other"
        } else if include.is_none() && routes_file.is_none() {
            "nothing to write: set `server` and `include`, `routes_file`, or all three"
        } else if include.is_none() && !reload.is_empty() {
            "`reload` is for the web server that reads `include`"
        } else if include == routes_file {
            "`include` and `routes_file` are the same file"
        } else {
            return Ok(());
        };
        Err(ConfigError::Output(wrong))
    }

    /// The rules for down and up.
    pub(super) fn rules(&self) -> Rules {
        Rules { fall: self.fall, rise: self.rise }
    }

    /// All depots of all routes, with repetitions.
    pub(super) fn depots(&self) -> impl Iterator<Item = &DepotAddress> {
        self.clients.iter().flat_map(|clients| &clients.routes).flat_map(FailoverRoute::depots)
    }
}

/// The route of a network of clients; none if no route is up.
pub(super) trait RouteOf<'c>:
    FnMut(&'c Clients, &IpNet) -> Option<&'c FailoverRoute>
{
}

impl<'c, F: FnMut(&'c Clients, &IpNet) -> Option<&'c FailoverRoute>> RouteOf<'c> for F {}

impl Clients {
    /// The best route whose depots are all up.
    pub(super) fn route(&self, is_up: impl Fn(&DepotAddress) -> bool) -> Option<&FailoverRoute> {
        self.routes.iter().find(|route| route.depots().iter().all(&is_up))
    }
}

impl FailoverRoute {
    /// All depots on it.
    pub fn depots(&self) -> &[DepotAddress] {
        &self.depots
    }

    /// The depots that a client's request passes, the one nearest the client first.
    pub fn via(&self) -> &[DepotAddress] {
        &self.via
    }
}

impl FromStr for FailoverRoute {
    type Err = String;
    /// Parses `http[s]://depot[:port]/lh1/fetch/...` or `.../failover/...`, up to the last depot.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &dyn fmt::Display| {
            format!(
                "\"{text}\" is not a route through depots: {why}; expected the depot that clients ask and \
                 the rest of the route, as in http://depot1:3880/lh1/fetch/depot2:3880"
            )
        };
        let url: OriginUrl = text.parse().map_err(|error| bad(&error))?;
        let route: Route = format!("{}/http:o/", url.target()).parse().map_err(|e| bad(&e))?;
        let first = match url.scheme() {
            Scheme::Http => url.authority().to_string(),
            Scheme::Https => format!("https:{}", url.authority()),
        };
        let first: DepotAddress = first.parse().map_err(|error| bad(&error))?;
        let route_goes_on = route.origin().to_string() != "http://o/";
        let via: Vec<_> = match route {
            Route::Fetch { chain, .. } => iter::once(first.clone()).chain(chain).collect(),
            // Each depot that redirects the client is put behind the next one.
            Route::Lead { ahead, chain, .. } => ahead.into_iter().rev().chain(chain).collect(),
        };
        let mut depots = vec![first];
        for depot in &via {
            if !depots.contains(depot) {
                depots.push(depot.clone());
            }
        }
        if route_goes_on {
            return Err(bad(&"it goes on behind the depots"));
        }
        // What a web server's file could take for more than a word.
        if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b":/.,-_[]%".contains(&b)) {
            return Err(bad(&"it holds other characters than names and addresses have"));
        }
        Ok(Self { text: text.to_owned(), depots, via })
    }
}

impl TryFrom<String> for FailoverRoute {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<FailoverRoute> for String {
    fn from(route: FailoverRoute) -> Self {
        route.text
    }
}

impl fmt::Display for FailoverRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The first route of each network whose depots are all up.
#[cfg(test)]
pub(super) fn first_up<'c>(is_up: impl Fn(&DepotAddress) -> bool + Copy) -> impl RouteOf<'c> {
    move |clients: &'c Clients, _: &IpNet| clients.route(is_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_with_all_their_depots() {
        for (text, depots) in [
            ("http://d1:3880/lh1/fetch/-", "d1:3880"),
            ("http://d1/lh1/fetch/d2,https:d3", "d1:80 d2:3880 https:d3:443"),
            ("https://d1/lh1/lead/d2:3880/https:d1", "https:d1:443 d2:3880"),
            ("http://[2001:db8::1]:3880/lh1/fetch/-", "[2001:db8::1]:3880"),
        ] {
            let route: FailoverRoute = text.parse().unwrap();
            let all: Vec<_> = route.depots().iter().map(ToString::to_string).collect();
            assert_eq!(all.join(" "), depots, "{text}");
        }
        for text in [
            "",
            "d1:3880/lh1/fetch/-",
            "http://d1/",
            "http://d1/lh1/fetch",
            "http://d1/lh2/0/x",
            "http://d1/lh1/fetch/-/http:o/",
            "http://d1/lh1/fetch/-\";}",
            "http://d1/lh1/fetch/d2 d3",
            "http://d1/lh1/fetch/d2\n",
            "ftp://d1/lh1/fetch/-",
        ] {
            assert!(text.parse::<FailoverRoute>().is_err(), "{text}");
        }
    }
}
