// SPDX-License-Identifier: GPL-2.0-or-later
//! The nftables table that takes connections over.
//!
//! ```text
//! first SYN     routes: first match decides -> hold: logged to the interceptor, dropped
//! replayed SYN  leaves by policy routing to this host -> TPROXY to the listener
//! the rest      of clients' connections: `socket transparent`; of this host's own: conntrack mark
//! ```
//! All of it is one table. Policy routing (`steering.rs`) leads marked packets to this host; without the table nothing
//! has the mark.

use super::config::{Config, left_out};
use ipnet::IpNet;
use route::Match;
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

/// Name of the table, of family inet.
pub const TABLE: &str = "longhaul";
/// Group of the log that held SYNs go to.
pub(super) const LOG_GROUP: u16 = 0x4c48;
/// Marks with this prefix are routed to this host.
pub(super) const MARK: &str = "0x4c480000/0xffff0000";
/// Packets of intercepted connections.
const SESSION: u32 = 0x4c48_0001;
/// A held SYN that is sent again.
pub(super) const REPLAYED: u32 = 0x4c48_0002;
/// The interceptor's own packets, which nothing holds.
pub(super) const OWN: u32 = 0x4c49_0001;

const CHAINS: [&str; 4] = ["hold", "routes", "forwarded", "own"];

/// Where the listeners are, and addresses of depots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// Port of the listener on 127.0.0.1.
    pub v4: u16,
    /// Port of the listener on `::1`. `None`: this host has no IPv6.
    pub v6: Option<u16>,
    /// Connections to them, and from their addresses, are not intercepted.
    pub depots: BTreeSet<SocketAddr>,
}

/// Commands that replace the table by one for these settings, or make it.
pub(super) fn commands(config: &Config, ends: &Ends, replaces: bool) -> String {
    let delete = if replaces { format!("delete table inet {TABLE}\n") } else { String::new() };
    delete + &table(config, ends, "flags owner;")
}

/// Commands that print what does not change by itself. The library runs only one of them at a time.
pub(super) fn lists() -> [String; 4] {
    CHAINS.map(|chain| format!("list chain inet {TABLE} {chain}\n"))
}

/// Commands that let connections to a server pass for a time.
pub(super) fn let_pass(server: SocketAddr, time: Duration) -> String {
    let (ip, port, seconds) = (server.ip(), server.port(), time.as_secs());
    let family = if ip.is_ipv4() { 4 } else { 6 };
    format!("add element inet {TABLE} direct{family} {{ {ip} . {port} timeout {seconds}s }}\n")
}

/// The table, with more in its first line.
pub(super) fn table(config: &Config, ends: &Ends, flags: &str) -> String {
    let families = Family::all(ends);
    let mut text = format!("table inet {TABLE} {{\n  {flags}\n");
    for Family { number, .. } in &families {
        let key = format!("type ipv{number}_addr . inet_service");
        text += &format!("  set direct{number} {{ {key}; flags timeout; size 65536; }}\n");
    }
    let chains = [
        vec![format!("log group {LOG_GROUP}"), "drop".to_owned()],
        routes(config, ends, &families),
        forwarded(config, ends, &families),
        own(config),
    ];
    for (name, rules) in CHAINS.into_iter().zip(chains) {
        text += &format!("  chain {name} {{\n");
        for rule in rules {
            text += &format!("    {rule}\n");
        }
        text += "  }\n";
    }
    text + "}\n"
}

/// How one version of IP is written.
struct Family {
    number: u8,
    word: &'static str,
    nfproto: &'static str,
    listener: SocketAddr,
}

impl Family {
    fn all(ends: &Ends) -> Vec<Self> {
        let v4 = (Ipv4Addr::LOCALHOST, ends.v4).into();
        let v6 = ends.v6.map(|port| (Ipv6Addr::LOCALHOST, port).into());
        let v6 = v6.map(|listener| Self { number: 6, word: "ip6", nfproto: "ipv6", listener });
        [Self { number: 4, word: "ip", nfproto: "ipv4", listener: v4 }]
            .into_iter()
            .chain(v6)
            .collect()
    }
}

/// What decides about the first SYN of a connection.
fn routes(config: &Config, ends: &Ends, families: &[Family]) -> Vec<String> {
    let mut rules = vec![
        "meta l4proto != tcp accept".to_owned(),
        "tcp flags & (fin | syn | rst | ack) != syn accept".to_owned(),
        "fib daddr type { local, broadcast, multicast } accept".to_owned(),
    ];
    for Family { number, word, .. } in families {
        rules.push(format!("{word} daddr . tcp dport @direct{number} accept"));
    }
    for depot in &ends.depots {
        let (ip, port) = (depot.ip(), depot.port());
        rules.push(format!("{} daddr {ip} tcp dport {port} accept", word(ip)));
    }
    for route in config.routes.rules() {
        let verdict = if route.via.is_empty() { "accept" } else { "goto hold" };
        let rule = |to| families.iter().filter_map(move |family| condition(to, family));
        rules.extend(
            route.to.iter().flat_map(rule).map(|condition| format!("{condition} {verdict}")),
        );
    }
    rules
}

/// Packets that come from devices.
fn forwarded(config: &Config, ends: &Ends, families: &[Family]) -> Vec<String> {
    let mut rules = vec!["type filter hook prerouting priority mangle; policy accept;".to_owned()];
    for Family { word, nfproto, listener, .. } in families {
        rules.push(format!(
            "iif \"lo\" meta mark {REPLAYED:#x} meta nfproto {nfproto} meta l4proto tcp \
             tproxy {word} to {listener} accept"
        ));
    }
    rules.push(format!("meta l4proto tcp socket transparent 1 meta mark set {SESSION:#x} accept"));
    rules.push("iif \"lo\" accept".to_owned());
    // A depot behind this router connects to servers as others do: held, its connection would come back to it for ever.
    let depots: BTreeSet<_> = ends.depots.iter().map(SocketAddr::ip).collect();
    rules.extend(depots.into_iter().map(|ip| format!("{} saddr {ip} accept", word(ip))));
    let clients = config.clients.iter();
    rules.extend(clients.map(|net| format!("{} saddr {net} goto routes", word(net.addr()))));
    rules
}

/// Packets that this host sends.
fn own(config: &Config) -> Vec<String> {
    let mut rules = vec![
        "type route hook output priority mangle; policy accept;".to_owned(),
        format!("meta mark {OWN:#x} accept"),
        format!("meta mark {REPLAYED:#x} ct mark set {SESSION:#x} accept"),
        format!("ct mark {SESSION:#x} ct direction original meta mark set {SESSION:#x} accept"),
    ];
    if config.this_host {
        rules.push("goto routes".to_owned());
    }
    rules
}

/// What a SYN to one of these destinations looks like in one version of IP, if there are any in it.
fn condition(to: &Match, family: &Family) -> Option<String> {
    let (network, port) = to.addresses()?;
    let is_ipv4 = family.number == 4;
    if network.is_some_and(|network| network.addr().is_ipv4() != is_ipv4) {
        return None;
    }
    let word = family.word;
    let mut parts = vec![format!("meta nfproto {}", family.nfproto)];
    // nft reads a prefix of no bits as the address 0.0.0.0.
    let network_rule = network.filter(|network| network.prefix_len() > 0);
    parts.extend(network_rule.map(|network| format!("{word} daddr {network}")));
    let out: Vec<String> = left_out(network, is_ipv4).iter().map(IpNet::to_string).collect();
    if !out.is_empty() {
        parts.push(format!("{word} daddr != {{ {} }}", out.join(", ")));
    }
    parts.extend(port.map(|port| format!("tcp dport {port}")));
    Some(parts.join(" "))
}

fn word(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "ip" } else { "ip6" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use route::{RouteTable, Rule};
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct File {
        route: Vec<Rule>,
    }

    #[test]
    fn a_table_has_routes_in_their_order_and_both_families() {
        let routes = toml::from_str::<File>(
            "[[route]]\nto = [\"*:22\"]\nvia = []\n\
             [[route]]\nto = [\"10.0.0.0/8\", \"[2001:db8::/32]:443\"]\nvia = [\"d1\"]\n",
        );
        let routes = RouteTable::new(routes.unwrap().route);
        let clients = vec!["192.168.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let config = Config { clients, routes, ..Config::default() };
        let depots = ["192.0.2.1:3880", "[2001:db8::9]:3880"].map(|text| text.parse().unwrap());
        let ends = Ends { v4: 1234, v6: Some(5678), depots: depots.into() };
        let text = table(&config, &ends, "flags owner;");
        let position = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"));
        let order = [
            "ip daddr 192.0.2.1 tcp dport 3880 accept",
            "meta nfproto ipv4 ip daddr != { 0.0.0.0/8, ",
            "tcp dport 22 accept",
            "meta nfproto ipv4 ip daddr 10.0.0.0/8 goto hold",
            "meta nfproto ipv6 ip6 daddr 2001:db8::/32 tcp dport 443 goto hold",
            "tproxy ip to 127.0.0.1:1234 accept",
            "tproxy ip6 to [::1]:5678 accept",
            "ip6 saddr 2001:db8::9 accept",
            "ip saddr 192.168.0.0/16 goto routes",
            "ip6 saddr fd00::/8 goto routes",
        ];
        let found: Vec<_> = order.iter().map(|part| position(part)).collect();
        assert!(found.is_sorted(), "{found:?}\n{text}");
        assert!(!text[position("chain own")..].contains("goto"), "{text}");
        let only_v4 = table(&config, &Ends { v6: None, ..ends }, "");
        assert!(!only_v4.contains("ipv6") && !only_v4.contains("tproxy ip6"), "{only_v4}");
    }
}
