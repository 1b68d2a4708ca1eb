// SPDX-License-Identifier: GPL-2.0-or-later
//! `hosts.toml`: which machine is which node of a scenario.
//!
//! ```toml
//! [[host]]
//! node = "server"                  # of the scenario
//! ssh = "alice@lab-a.example.org"  # as ssh(1) takes it
//! address = "192.0.2.10"           # in the network under test
//! sudo = true                      # the guard runs as root, by sudo without a password
//! directory = "/var/tmp/longhaul"  # for this program and its files
//! ```

use host::settings_file::{self, ConfigError};
use scenario::Run;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
};
use units::{Duration, Probability};

/// The most hosts of an experiment.
const MOST: usize = 100;
/// Where this program and its files go.
const DIRECTORY: &str = "/var/tmp/longhaul";
/// By which share a path may differ from what is asked for.
const DEVIATION: f64 = 0.1;
/// How long a path is measured.
const MEASURE: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// A machine of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The node of the scenario that it is.
    pub node: String,
    /// Where ssh(1) reaches it.
    pub ssh: String,
    /// Its address in the network under test.
    pub address: Option<IpAddr>,
    /// Whether its guard is run by sudo.
    #[serde(default)]
    pub sudo: bool,
    /// Where this program and its files go.
    #[serde(default = "directory")]
    pub directory: PathBuf,
}

fn directory() -> PathBuf {
    DIRECTORY.into()
}

/// The machines of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Hosts {
    /// Settings of ssh in place of the user's.
    pub ssh_config: Option<PathBuf>,
    /// This program for other processors, by their names (`uname -m`).
    pub binaries: BTreeMap<String, PathBuf>,
    /// By which share of what a scenario asks for a path may differ from it in a valid run.
    pub deviation: f64,
    /// How long each path is measured before a run.
    pub measure: Duration,
    /// At least one.
    pub hosts: Vec<Host>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    ssh_config: Option<PathBuf>,
    #[serde(default)]
    binaries: BTreeMap<String, PathBuf>,
    #[serde(default)]
    deviation: Option<Probability>,
    #[serde(default)]
    measure: Option<Duration>,
    #[serde(default)]
    host: Vec<Host>,
}

impl Hosts {
    /// Reads a file.
    ///
    /// # Errors
    /// The text names the file, and the line if a single line is wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        settings_file::read(path, |document: Document| {
            let Document { ssh_config, binaries, deviation, measure, host: hosts } = document;
            check(&hosts)?;
            let measure = measure.unwrap_or(MEASURE);
            if !(SHORTEST..=LONGEST).contains(&measure) {
                return Err(format!("measure = \"{measure}\": expected {SHORTEST} to {LONGEST}"));
            }
            let deviation = deviation.map_or(DEVIATION, Probability::get);
            let next_to_it = |file: PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
            let binaries =
                binaries.into_iter().map(|(name, file)| (name, next_to_it(file))).collect();
            let ssh_config = ssh_config.map(next_to_it);
            Ok(Self { ssh_config, binaries, deviation, measure, hosts })
        })
    }

    /// The host that is a node.
    pub fn of(&self, node: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.node == node)
    }

    /// What of these hosts does not fit a run: nodes with programs and without a host, hosts without a node.
    pub fn misfits(&self, run: &Run) -> Vec<String> {
        let nodes = || run.nodes.iter().map(|node| node.name.as_str());
        let active = run.active_nodes();
        let missing = active.into_iter().filter(|node| self.of(node).is_none()).map(|node| {
            format!("the node {node} has no host: add a [[host]] with node = \"{node}\"")
        });
        let all: Vec<&str> = nodes().collect();
        let unknown = self.hosts.iter().filter(|host| !all.contains(&host.node.as_str()));
        let unknown = unknown.map(|host| {
            let (node, ssh) = (&host.node, &host.ssh);
            format!(
                "{ssh} is the node {node}, which the scenario has not; it has: {}",
                all.join(", ")
            )
        });
        missing.chain(unknown).collect()
    }
}

fn check(hosts: &[Host]) -> Result<(), String> {
    if !(1..=MOST).contains(&hosts.len()) {
        return Err(format!("it lists {} hosts; expected 1 to {MOST} [[host]]", hosts.len()));
    }
    for (n, host) in hosts.iter().enumerate() {
        let twice = |is_same: &dyn Fn(&Host) -> bool| hosts[..n].iter().find(|it| is_same(it));
        if twice(&|it| it.node == host.node).is_some() {
            return Err(format!("the node {} has two hosts", host.node));
        }
        if let Some(other) = twice(&|it| it.ssh == host.ssh) {
            let (ssh, a, b) = (&host.ssh, &other.node, &host.node);
            return Err(format!("{ssh} is both {a} and {b}: a host is one node"));
        }
        if let Some(other) = twice(&|it| it.address.is_some() && it.address == host.address) {
            return Err(format!("{} and {} have the same address", other.node, host.node));
        }
        // ssh would take it for an option.
        if host.ssh.is_empty()
            || host.ssh.starts_with('-')
            || host.ssh.contains(char::is_whitespace)
        {
            return Err(format!("ssh = \"{}\": expected [USER@]HOST, as ssh takes it", host.ssh));
        }
        if !host.directory.is_absolute() {
            let directory = host.directory.display();
            return Err(format!("directory = \"{directory}\": expected an absolute path"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;
    use std::fs;
    use testkit::draft::Draft;

    fn read(text: &str) -> Result<Hosts, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts.toml");
        fs::write(&file, text).unwrap();
        Hosts::read(&file).map_err(|error| error.to_string())
    }

    const TWO: &str = "[[host]]\nnode = \"a\"\nssh = \"alice@lab-a\"\naddress = \"192.0.2.1\"\n\
        [[host]]\nnode = \"b\"\nssh = \"lab-b\"\nsudo = true\n";

    #[test]
    fn hosts_are_nodes_of_a_scenario() {
        let hosts = read(TWO).unwrap();
        let b = hosts.of("b").unwrap();
        assert_eq!(
            (b.ssh.as_str(), b.sudo, b.directory.to_str()),
            ("lab-b", true, Some(DIRECTORY))
        );
        let draft = Draft::new("t", "").nodes(&["a", "c"]).link("a", "c", "rate=1mbit");
        let draft = draft.flow("a", "c", "bytes=1MB").to_string();
        let runs = Scenario::parse(&draft, "t.toml", &[""; 0]).unwrap().runs;
        assert_eq!(
            hosts.misfits(&runs[0]),
            [
                "the node c has no host: add a [[host]] with node = \"c\"",
                "lab-b is the node b, which the scenario has not; it has: a, c"
            ]
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, parts) in [
            (String::new(), &["it lists 0 hosts"][..]),
            (TWO.replace("node = \"b\"", "node = \"a\""), &["the node a has two hosts"]),
            (TWO.replace("lab-b", "alice@lab-a"), &["alice@lab-a is both a and b"]),
            (TWO.replace("\"lab-b\"", "\"-oProxyCommand=x\""), &["as ssh takes it"]),
            (TWO.replace("\"lab-b\"", "\"lab b\""), &["as ssh takes it"]),
            (TWO.to_owned() + "address = \"192.0.2.1\"", &["a and b have the same address"]),
            (TWO.to_owned() + "directory = \"x\"", &["expected an absolute path"]),
            (TWO.replace("192.0.2.1", "192.0.2.256"), &["hosts.toml:4:", "invalid IP address"]),
            (TWO.replace("sudo = true", "sudo = \"yes\""), &["hosts.toml:8:"]),
            (TWO.replace("sudo = true", "root = true"), &["hosts.toml:8:", "root"]),
        ] {
            let error = read(&text).unwrap_err();
            for part in parts.iter().chain(&["hosts.toml"]) {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }
}
