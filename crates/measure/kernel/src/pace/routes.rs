// SPDX-License-Identifier: GPL-2.0-or-later
//! By which devices packets to a network leave.

use super::Refusal;
use crate::Error;
use host::iproute::ip_json;
use ipnet::IpNet;
use serde::Deserialize;
use std::collections::BTreeSet;

/// As `ip -json route` writes it.
#[derive(Debug, Deserialize)]
struct Route {
    #[serde(rename = "type")]
    kind: Option<String>,
    dst: Option<String>,
    dev: Option<String>,
    #[serde(default)]
    nexthops: Vec<Hop>,
}

#[derive(Debug, Deserialize)]
struct Hop {
    dev: Option<String>,
}

impl Route {
    /// Not one that leads to a neighbour on the same link, or to many, or nowhere.
    fn leads_on(&self) -> bool {
        let near =
            self.dst.as_deref().is_some_and(|to| to.starts_with("fe80:") || to.starts_with("ff"));
        !near && self.kind.as_deref().is_none_or(|kind| matches!(kind, "unicast" | "local"))
    }

    fn devices(self) -> impl Iterator<Item = String> {
        self.dev.into_iter().chain(self.nexthops.into_iter().filter_map(|hop| hop.dev))
    }
}

/// The names of the devices by which packets to a network leave as things are now: to its first address, by all
/// the kernel's rules; to others, by those routes of its main table that lead into parts of it.
///
/// # Errors
/// There is no route ([`Refusal::NoRoute`]), or the kernel refused to tell.
pub fn devices_towards(net: &IpNet) -> Result<Vec<String>, Error> {
    let family = if matches!(net, IpNet::V4(_)) { "-4" } else { "-6" };
    let first = net.hosts().next().unwrap_or_else(|| net.addr()).to_string();
    let within = net.trunc().to_string();
    let mut routes: Vec<Route> = ip_json(&[family, "route", "show", "to", "root", &within])?;
    // Without a route to an address, `ip` fails.
    routes.extend(ip_json::<Route>(&[family, "route", "get", &first]).unwrap_or_default());
    let leading = routes.into_iter().filter(Route::leads_on);
    let devices: BTreeSet<String> = leading.flat_map(Route::devices).collect();
    if devices.is_empty() {
        return Err(Refusal::NoRoute { net: net.trunc() }.into());
    }
    Ok(devices.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_as_ip_writes_them() {
        let text = r#"[
            {"dst":"default","gateway":"192.0.2.1","dev":"eth0","flags":[]},
            {"dst":"10.2.0.0/16","flags":[],"nexthops":[
                {"gateway":"192.0.2.9","dev":"eth1","weight":1,"flags":[]},
                {"via":{"family":"inet6","host":"fe80::1"},"dev":"eth2","weight":1,"flags":[]}]},
            {"type":"unreachable","dst":"10.3.0.0/16","dev":"lo","flags":[]},
            {"dst":"fe80::/64","dev":"eth3","protocol":"kernel","metric":256,"flags":[]},
            {"type":"local","dst":"192.0.2.2","dev":"lo","flags":[]}]"#;
        let routes: Vec<Route> = serde_json::from_str(text).unwrap();
        let routes = routes.into_iter().filter(Route::leads_on);
        let devices: Vec<_> = routes.flat_map(Route::devices).collect();
        assert_eq!(devices, ["eth0", "eth1", "eth2", "lo"]);
    }
}
