// SPDX-License-Identifier: GPL-2.0-or-later
//! The file for programs: which clients take which route, as JSON.

use super::config::{Config, FailoverRoute, RouteOf};
use ipnet::IpNet;
use protocol::DepotAddress;
use serde::Serialize;

/// The version of this document. Keys may be added without a new one.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'c> {
    schema: u32,
    clients: Vec<Group<'c>>,
}

#[derive(Serialize)]
struct Group<'c> {
    networks: Vec<IpNet>,
    /// As the configuration has it; none where no route stands.
    route: Option<String>,
    /// The depots of the route as a request passes them; none where no route stands.
    via: &'c [DepotAddress],
}

/// The file's text, with the route of each network. Networks of a group that have the same route are together.
pub(super) fn text<'c>(config: &'c Config, mut route: impl RouteOf<'c>) -> String {
    let mut groups = Vec::new();
    for clients in &config.clients {
        let mut parts: Vec<(Vec<IpNet>, Option<&FailoverRoute>)> = Vec::new();
        for network in &clients.networks {
            let route = route(clients, network);
            match parts.iter_mut().find(|(_, other)| *other == route) {
                Some((networks, _)) => networks.push(*network),
                None => parts.push((vec![*network], route)),
            }
        }
        groups.extend(parts.into_iter().map(|(networks, route)| Group {
            networks,
            route: route.map(ToString::to_string),
            via: route.map_or(&[], |route| route.via()),
        }));
    }
    let document = Document { schema: SCHEMA, clients: groups };
    serde_json::to_string_pretty(&document).expect("names and networks are JSON") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::first_up;
    use serde_json::{Value, json};

    #[test]
    fn active_route_is_listed_with_its_depots() {
        let config = "routes_file = \"/x\"\n[[clients]]\nnetworks = [\"192.0.2.0/24\", \"::/0\"]\n\
                      routes = [\"https://d1/lh1/lead/d2/https:d1\", \"http://d3/lh1/fetch/d2\"]";
        let config = Config::from_toml(config, "x").unwrap();
        let group = |down: &str| {
            let is_up = |depot: &DepotAddress| depot.to_string() != down;
            let text = text(&config, first_up(is_up));
            let document: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(document["schema"], 1);
            assert_eq!(document["clients"].as_array().unwrap().len(), 1);
            document["clients"][0].clone()
        };
        let networks = ["192.0.2.0/24", "::/0"];
        for (down, route, via) in [
            ("", Some("https://d1/lh1/lead/d2/https:d1"), &["d2:3880", "https:d1:443"][..]),
            ("https:d1:443", Some("http://d3/lh1/fetch/d2"), &["d3:80", "d2:3880"]),
            ("d2:3880", None, &[]),
        ] {
            let expected = json!({"networks": networks, "route": route, "via": via});
            assert_eq!(group(down), expected, "{down}");
        }
    }
}
