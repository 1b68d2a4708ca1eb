// SPDX-License-Identifier: GPL-2.0-or-later
//! The file that a web server includes: the route of each network.

use super::config::{Config, RouteOf, Server};
use ipnet::IpNet;
use std::fmt::Write as _;

const HEADER: &str = "# Written by `longhaul failover`: changes are lost. Networks without a route are served directly.\n";

/// The file's text for a server, with the route of each network.
pub(super) fn text<'c>(config: &'c Config, server: Server, mut route: impl RouteOf<'c>) -> String {
    let mut text = HEADER.to_owned();
    for clients in &config.clients {
        let of_network = clients.networks.iter().map(|net| (net, route(clients, net)));
        for (net, route) in of_network
            .flat_map(|(net, route)| in_parts(net).into_iter().map(move |net| (net, route)))
        {
            // A network without a route is named, too: a wider one around it may have one.
            let written = match (server, route) {
                (Server::Nginx, Some(route)) => writeln!(text, "{net} \"{route}\";"),
                (Server::Nginx, None) => writeln!(text, "{net} \"\";"),
                (Server::Apache, Some(route)) => {
                    writeln!(text, "SetEnvIfExpr \"-R '{net}'\" LONGHAUL_DEPOTS={route}")
                }
                (Server::Apache, None) => {
                    writeln!(text, "SetEnvIfExpr \"-R '{net}'\" !LONGHAUL_DEPOTS")
                }
            };
            written.expect("a string takes everything");
        }
    }
    text
}

/// A network as both servers accept it: all addresses of a family are two halves, since Apache has no /0, and
/// nginx has one already, its default.
fn in_parts(net: &IpNet) -> Vec<IpNet> {
    match net.prefix_len() {
        0 => net.subnets(1).map_or_else(|_| vec![*net], Iterator::collect),
        _ => vec![*net],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::first_up;
    use protocol::DepotAddress;

    fn config() -> Config {
        let text = "server = \"nginx\"\ninclude = \"/x\"\n[[clients]]\nnetworks = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n\
                    routes = [\"http://d1:1/lh1/fetch/d2:2\", \"http://d3:3/lh1/fetch/-\"]\n\
                    [[clients]]\nnetworks = [\"192.0.2.7/32\"]\nroutes = [\"http://d4:4/lh1/fetch/-\"]";
        Config::from_toml(text, "x").unwrap()
    }

    #[test]
    fn clients_use_the_best_route_that_is_up() {
        for (up, first, second) in [
            ("d1:1 d2:2 d3:3 d4:4", "http://d1:1/lh1/fetch/d2:2", "http://d4:4/lh1/fetch/-"),
            ("d1:1 d3:3 d4:4", "http://d3:3/lh1/fetch/-", "http://d4:4/lh1/fetch/-"),
            ("d1:1 d2:2", "http://d1:1/lh1/fetch/d2:2", ""),
            ("d2:2", "", ""),
        ] {
            let is_up = |depot: &DepotAddress| up.split(' ').any(|up| up == depot.to_string());
            let config = config();
            let nginx = text(&config, Server::Nginx, first_up(is_up));
            let lines = format!(
                "192.0.2.0/24 \"{first}\";\n2001:db8::/32 \"{first}\";\n192.0.2.7/32 \"{second}\";\n"
            );
            assert_eq!(nginx, format!("{HEADER}{lines}"), "{up}");
            let apache = text(&config, Server::Apache, first_up(is_up));
            let set = |route: &str| match route {
                "" => "!LONGHAUL_DEPOTS".to_owned(),
                route => format!("LONGHAUL_DEPOTS={route}"),
            };
            let last = format!("SetEnvIfExpr \"-R '192.0.2.7/32'\" {}\n", set(second));
            assert!(apache.ends_with(&last), "{apache}");
            assert!(apache.contains(&format!("'192.0.2.0/24'\" {}\n", set(first))), "{apache}");
        }
    }

    /// Both servers' programs take every kind of network: see `tests/deploy/failover.rs`.
    #[test]
    fn all_addresses_are_written_in_halves() {
        let all = "server = \"apache\"\ninclude = \"/x\"\n[[clients]]\n\
                   networks = [\"0.0.0.0/0\", \"::/0\", \"::ffff:192.0.2.9/120\"]\nroutes = [\"http://d/lh1/fetch/-\"]";
        let config = Config::from_toml(all, "x").unwrap();
        let text = text(&config, Server::Apache, first_up(|_| true));
        for net in ["0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1", "192.0.2.0/24"] {
            let line = format!("SetEnvIfExpr \"-R '{net}'\" LONGHAUL_DEPOTS=http://d/lh1/fetch/-");
            assert!(text.lines().any(|l| l == line), "{net}: {text}");
        }
        assert_eq!(text.lines().count(), 1 + 5, "{text}");
        let twice = all.replace("::/0", "192.0.2.0/24");
        assert!(Config::from_toml(&twice, "x").unwrap_err().to_string().contains("twice"));
    }
}
