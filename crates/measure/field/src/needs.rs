// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run needs of the hosts that are its nodes.

use crate::message::Facts;
use scenario::{Run, Source, Traffic};
use std::collections::{BTreeMap, BTreeSet};

/// Room for logs and samples, in bytes.
const ROOM: u64 = 64 << 20;

/// What a run needs of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Programs.
    pub programs: BTreeSet<&'static str>,
    /// Congestion controls.
    pub congestion_controls: BTreeSet<String>,
    /// Settings, as a guard takes them ([`crate::Remote::set`]).
    pub settings: Vec<(String, String)>,
    /// Room for files, in bytes.
    pub bytes: u64,
}

impl Needs {
    /// Of each node of a run.
    pub fn of(run: &Run) -> BTreeMap<String, Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        // Depots and the generator ask for a congestion control themselves, and what receives needs none.
        let sources: BTreeSet<&str> = run.flows.iter().map(|flow| flow.from.as_str()).collect();
        for node in &run.nodes {
            let needs = all.entry(node.name.clone()).or_default();
            needs.bytes = ROOM;
            if sources.contains(node.name.as_str()) {
                let key = "net.ipv4.tcp_congestion_control".to_owned();
                needs.congestion_controls.insert(node.cc.clone());
                needs.settings.push((key, node.cc.clone()));
            }
            let buffers = [
                ("net.ipv4.tcp_rmem", node.tcp_rmem_max),
                ("net.ipv4.tcp_wmem", node.tcp_wmem_max),
            ];
            for (key, max) in buffers {
                // The first two values stay as they are.
                let value = max.map(|max| (key.to_owned(), format!("* * {}", max.get())));
                needs.settings.extend(value);
            }
            needs.settings.extend(node.sysctl.clone());
        }
        for flow in &run.flows {
            let bytes = flow.bytes.map_or(0, units::Bytes::get);
            let programs = [(&flow.from, "nginx"), (&flow.to, lab::client_program(flow))];
            for (node, program) in programs {
                let needs = all.entry(node.clone()).or_default();
                needs.bytes += bytes;
                needs.programs.extend(lab::has_stock_client(flow).then_some(program));
            }
            for (hop, control) in flow.hops().zip(&flow.cc) {
                let needs = all.entry(hop.from.to_owned()).or_default();
                needs.congestion_controls.insert(control.clone());
            }
        }
        let is_tcp = |traffic: &&Traffic| !matches!(traffic.source, Source::Cbr { .. });
        for traffic in run.traffic.iter().filter(is_tcp) {
            let needs = all.entry(traffic.from.clone()).or_default();
            needs.congestion_controls.insert(traffic.cc.clone());
        }
        all
    }

    /// Adds those of another run on the same host.
    pub fn add(&mut self, other: &Self) {
        self.programs.extend(&other.programs);
        self.congestion_controls.extend(other.congestion_controls.iter().cloned());
        self.bytes = self.bytes.max(other.bytes);
        for setting in &other.settings {
            if !self.settings.contains(setting) {
                self.settings.push(setting.clone());
            }
        }
    }

    /// What a host lacks of it, each with what to do.
    pub fn lacking(&self, facts: &Facts) -> Vec<String> {
        let mut lacking = Vec::new();
        for program in self.programs.iter().filter(|name| !facts.programs.contains_key(**name)) {
            let package = lab::package_of(program);
            lacking.push(format!("{program} is not installed: apt-get install {package}"));
        }
        let has = |name: &&String| facts.congestion_controls.contains(name);
        for control in self.congestion_controls.iter().filter(|name| !has(name)) {
            let remedy = match control.strip_prefix("lh_") {
                // A guard that is root brings it.
                Some(_) if facts.is_root => continue,
                Some(own) => format!("longhaul cc load {own}"),
                None => format!("modprobe tcp_{control}"),
            };
            lacking.push(format!("the kernel has no congestion control {control}: {remedy}"));
        }
        if !self.settings.is_empty() && !facts.is_root {
            lacking.push("settings take root: sudo = true in hosts.toml".to_owned());
        }
        if facts.free_bytes < self.bytes {
            let [free, needed] = [facts.free_bytes, self.bytes].map(|bytes| bytes / 1_000_000);
            lacking.push(format!(
                "{free} MB are free, and {needed} MB needed: name another directory"
            ));
        }
        lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;
    use testkit::draft::Draft;

    #[test]
    fn needs_follow_flows_and_nodes() {
        let draft = Draft::new("t", "")
            .node("server", "cc=bbr tcp_wmem_max=16MB")
            .nodes(&["depot", "client"])
            .link("server", "depot", "rate=1gbit")
            .link("depot", "client", "rate=1gbit")
            .flow("server", "client", "bytes=100MB via=[\"depot\"] client=wget");
        let run = Scenario::parse(&draft.to_string(), "t.toml", &[""; 0]).unwrap().runs.remove(0);
        let needs = Needs::of(&run);
        let programs = |node: &str| needs[node].programs.iter().copied().collect::<Vec<_>>();
        assert_eq!(
            (programs("server"), programs("depot"), programs("client")),
            (vec!["nginx"], vec![], vec!["wget"])
        );
        assert_eq!(
            needs["server"].settings[1],
            ("net.ipv4.tcp_wmem".to_owned(), "* * 16777216".to_owned())
        );
        assert!(needs["client"].bytes > 100 << 20);
        let facts = Facts { free_bytes: 1 << 40, ..Facts::default() };
        let lacking = needs["server"].lacking(&facts).join("\n");
        for part in [
            "nginx is not installed: apt-get install nginx-light",
            "modprobe tcp_bbr",
            "sudo = true",
        ] {
            assert!(lacking.contains(part), "{part}: {lacking}");
        }
        let full = Facts {
            programs: [("nginx".to_owned(), "/usr/sbin/nginx".to_owned())].into(),
            congestion_controls: ["bbr", "cubic"].map(str::to_owned).into(),
            is_root: true,
            ..facts
        };
        assert_eq!(needs["server"].lacking(&full), [""; 0]);
        let small = Facts { free_bytes: 1 << 20, ..full };
        assert!(needs["server"].lacking(&small)[0].contains("MB needed"));
    }
}
