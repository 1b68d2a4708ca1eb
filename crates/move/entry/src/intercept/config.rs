// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings of the interceptor.

use host::settings_file::{self, ConfigError};
use ipnet::IpNet;
use route::{Match, RouteTable, Rule};
use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Which connections are intercepted, and where they go.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Machines whose forwarded connections are intercepted.
    pub clients: Vec<IpNet>,
    /// Whether connections of this host itself are intercepted.
    pub this_host: bool,
    /// Which destinations go through which depots. Names are not possible.
    pub routes: RouteTable,
    /// Whether connections are refused when all their routes fail. Otherwise they pass directly.
    pub strict: bool,
    /// How long one route may take. Default: 10 s.
    pub connect_timeout: Option<Duration>,
    /// Certificates (PEM) of further authorities to trust for depots over TLS.
    pub ca: Option<PathBuf>,
    /// Servers that are told the client's address by the PROXY protocol, version 2.
    pub proxy_protocol: Vec<Match>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    clients: Vec<IpNet>,
    #[serde(default)]
    this_host: bool,
    #[serde(default)]
    route: Vec<Rule>,
    #[serde(default)]
    strict: bool,
    connect_timeout: Option<units::Duration>,
    ca: Option<PathBuf>,
    #[serde(default)]
    proxy_protocol: Vec<Match>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// The text names the file, and the line if one line is wrong.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        settings_file::read(file, |document: Document| {
            let config = Self {
                clients: document.clients.iter().map(IpNet::trunc).collect(),
                this_host: document.this_host,
                routes: RouteTable::new(document.route),
                strict: document.strict,
                connect_timeout: document.connect_timeout.map(Into::into),
                ca: document.ca,
                proxy_protocol: document.proxy_protocol,
            };
            config.check()?;
            Ok(config)
        })
    }

    /// What is wrong with the settings as a whole, if anything.
    ///
    /// # Errors
    /// In words for the user.
    pub fn check(&self) -> Result<(), String> {
        self.routes.check()?;
        if self.clients.is_empty() && !self.this_host {
            return Err("nothing is intercepted: name networks of clients (`clients`), or this \
                        host's own connections (`this_host`)"
                .to_owned());
        }
        if self.routes.rules().iter().all(|route| route.via.is_empty()) {
            return Err("no route has depots (`via`)".to_owned());
        }
        if self.routes.has_short() {
            return Err(
                "`direct_below` is for `longhaul run` and `longhaul agent`: what passes directly is not \
                        seen here. Name ports instead, with an empty `via`"
                    .to_owned(),
            );
        }
        let listed = self.routes.rules().iter().flat_map(|route| &route.to);
        for to in listed.chain(&self.proxy_protocol) {
            let Some((network, _)) = to.addresses() else {
                return Err(format!(
                    "{to}: packets carry addresses and no names; give networks or addresses"
                ));
            };
            if let Some(never) = network.and_then(within_never) {
                return Err(format!("{to}: addresses of {never} cannot be intercepted"));
            }
        }
        Ok(())
    }
}

/// This host, links, groups and what is reserved: never intercepted.
pub(super) const NEVER: [&str; 9] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/3",
    "::/127",
    "::ffff:0:0/96",
    "64:ff9b:1::/48",
    "fe80::/10",
    "ff00::/8",
];

/// Private networks: intercepted if a route lists them or a part of them.
pub(super) const PRIVATE: [&str; 5] =
    ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

fn within_never(network: IpNet) -> Option<&'static str> {
    NEVER.into_iter().find(|never| parsed(never).contains(&network))
}

/// The networks of a list that a match leaves out: those of `NEVER` and `PRIVATE` that it contains and does not name.
pub(super) fn left_out(network: Option<IpNet>, is_ipv4: bool) -> Vec<IpNet> {
    NEVER
        .into_iter()
        .chain(PRIVATE)
        .map(parsed)
        .filter(|out| matches!(out, IpNet::V4(_)) == is_ipv4)
        .filter(|out| network.is_none_or(|network| network.contains(out) && network != *out))
        .collect()
}

fn parsed(network: &str) -> IpNet {
    network.parse().expect("a constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("intercept.toml");
        std::fs::write(&file, text).unwrap();
        let shown = format!("{}:", file.display());
        Config::read(&file).map_err(|error| error.to_string().replace(&shown, "file:"))
    }

    #[test]
    fn bad_settings_are_refused_with_line_and_reason() {
        let route = "[[route]]\nto = [\"*:443\"]\nvia = [\"d1\"]\n";
        for (text, expected) in [
            (route.to_owned(), "file: nothing is intercepted"),
            ("this_host = true\n".to_owned(), "file: no route has depots"),
            (format!("this_host = 1\n{route}"), "file:1: invalid type"),
            (format!("this_host = true\nclient = []\n{route}"), "file:2: unknown field `client`"),
            (format!("clients = [\"10.0.0.0/33\"]\n{route}"), "file:1: "),
            (
                format!("this_host = true\n{}", route.replace("*:443", "a.example:443")),
                "file: a.example:443: packets carry addresses",
            ),
            (
                format!("this_host = true\n{}", route.replace("*:443", "127.1.0.0/16")),
                "file: 127.1.0.0/16: addresses of 127.0.0.0/8 cannot",
            ),
            (
                format!("this_host = true\n{}", route.replace("*:443", "[::1]:443")),
                "file: [::1/128]:443: addresses of ::/127 cannot",
            ),
            (
                format!("this_host = true\n{route}direct_below = \"64KB\"\n"),
                "file: `direct_below` is for `longhaul run`",
            ),
            (
                format!("this_host = true\nproxy_protocol = [\"b.example\"]\n{route}"),
                "file: b.example: packets",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n{text}");
        }
        let config = read(&format!("clients = [\"10.1.2.3/8\"]\n{route}")).unwrap();
        assert_eq!(config.clients, ["10.0.0.0/8".parse().unwrap()]);
    }

    #[test]
    fn a_wide_match_leaves_out_what_it_does_not_name() {
        let out = |text: &str| {
            let nets = left_out(Some(text.parse().unwrap()), true);
            nets.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(out("10.0.0.0/8"), <[&str; 0]>::default());
        assert_eq!(out("10.7.0.0/16"), <[&str; 0]>::default());
        assert_eq!(out("192.0.0.0/8"), ["192.168.0.0/16"]);
        assert_eq!(out("0.0.0.0/0").len(), 8);
        assert_eq!(left_out(None, true).len(), 8);
        assert_eq!(left_out(None, false).len(), 6);
    }
}
