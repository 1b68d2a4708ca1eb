// SPDX-License-Identifier: GPL-2.0-or-later
//! longhaul's congestion controls where scenarios and depots name them.

use crate::common::{Kernel, done, json, longhaul, measured, ours, refused, text, two_nodes};
use record::Record;
use std::path::{Path, PathBuf};
use testkit::until;

/// Two depots, each link different from the next; the middle hop is H-TCP's.
const HTCP_BETWEEN_DEPOTS: &str = r#"
title = "H-TCP between the depots"
timeout = "30s"
[[node]]
name = "client"
[[node]]
name = "depot1"
[[node]]
name = "depot2"
[[node]]
name = "server"
[[link]]
between = ["client", "depot1"]
rate = "50mbit"
delay = "1ms"
[[link]]
between = ["depot1", "depot2"]
rate = "50mbit"
delay = "10ms"
loss = "0.1%"
[[link]]
between = ["depot2", "server"]
rate = "50mbit"
delay = "1ms"
[[flow]]
name = "transfer"
from = "server"
to = "client"
via = ["depot2", "depot1"]
bytes = "4MB"
cc = ["cubic", "lh_htcp", "cubic"]
"#;

fn htcp_between_depots(folder: &Path) -> (String, PathBuf) {
    let file = folder.join("htcp.toml");
    std::fs::write(&file, HTCP_BETWEEN_DEPOTS).unwrap();
    (file.to_str().unwrap().to_owned(), folder.join("out"))
}

/// Runs it, and opens its only record.
fn record(folder: &Path) -> Record {
    let (file, out) = htcp_between_depots(folder);
    let document = measured(&["lab", "run", &file, "--json", "--out", out.to_str().unwrap()]);
    let run = &document["runs"][0];
    assert_eq!(run["sha256_ok"], true, "{run}");
    assert_eq!(run["congestion_control"], serde_json::json!(["cubic", "lh_htcp", "cubic"]));
    Record::open(&out.join(run["id"].as_str().unwrap())).unwrap()
}

fn assert_the_middle_hop_is_lh_htcp(record: &Record) {
    let of_hop = |n| record.manifest.sockets.iter().filter(move |socket| socket.hop == n);
    assert!(of_hop(1).count() > 0, "{:?}", record.manifest.sockets);
    assert!(of_hop(1).all(|socket| socket.node == "depot2"));
    assert!(of_hop(1).all(|socket| socket.congestion_control == "lh_htcp"));
    let asked = of_hop(1).map(|socket| socket.congestion_control_asked.as_deref());
    assert!(asked.into_iter().all(|asked| asked == Some("lh_htcp")));
    assert!([0, 2].iter().all(|&n| of_hop(n).all(|socket| socket.congestion_control == "cubic")));
}

#[test]
fn run_loads_and_unloads_its_controls() {
    let _kernel = Kernel::without_ours();
    let folder = tempfile::tempdir().unwrap();
    let record = record(folder.path());
    assert_eq!(ours(), Vec::<String>::new());
    assert_the_middle_hop_is_lh_htcp(&record);
    let controls = &record.manifest.congestion_controls;
    assert_eq!(controls.keys().collect::<Vec<_>>(), ["lh_htcp"]);
    assert_eq!(controls["lh_htcp"].parameter_set.as_deref(), Some("linux"));
    let shown = json(&["cc", "show", "htcp", "--json"]);
    for param in shown["parameters"].as_array().unwrap() {
        let recorded = controls["lh_htcp"].parameters[param["name"].as_str().unwrap()];
        assert_eq!(param["values"]["linux"], recorded, "{param}");
    }
}

#[test]
fn run_uses_loaded_controls_and_leaves_them_loaded() {
    let _kernel = Kernel::without_ours();
    done(&["cc", "load", "htcp", "--params", "paper"]);
    let folder = tempfile::tempdir().unwrap();
    let record = record(folder.path());
    assert_eq!(ours(), ["lh_htcp"]);
    assert_the_middle_hop_is_lh_htcp(&record);
    let set = record.manifest.congestion_controls["lh_htcp"].parameter_set.as_deref();
    assert_eq!(set, Some("paper"));
}

#[test]
fn unknown_control_is_refused_with_known_names() {
    let _kernel = Kernel::without_ours();
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = htcp_between_depots(folder.path());
    let warp = ["--set", "flow.transfer.cc=lh_warp"];
    for command in [
        &["lab", "run", &file, "--out", out.to_str().unwrap()][..],
        &["wan", "up", &file, "--name", &format!("test-warp-{}", std::process::id())],
    ] {
        let (code, said) = refused(&[command, &warp[..]].concat());
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("lh_warp") && said.contains("htcp, "), "{said}");
    }
}

/// Ends with the test, however that ends.
struct Network(String);

impl Network {
    /// Brings two nodes up, one of which uses H-TCP.
    fn up(folder: &Path, purpose: &str) -> Self {
        let name = format!("test-{purpose}-{}", std::process::id());
        let file = two_nodes(folder);
        let cc = ["--set", "node.a.cc=lh_htcp"];
        let up = ["wan", "up", file.to_str().unwrap(), "--name", &name];
        assert_eq!(done(&[&up[..], &cc].concat()), "a\nb\n");
        Self(name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        crate::common::call(&["wan", "down", "--name", &self.0]);
    }
}

#[test]
fn network_keeps_its_controls_until_it_is_down() {
    let _kernel = Kernel::without_ours();
    let folder = tempfile::tempdir().unwrap();
    let network = Network::up(folder.path(), "held");
    assert_eq!(ours(), ["lh_htcp"]);
    let routes = done(&["wan", "exec", "--name", &network.0, "a", "--", "ip", "route"]);
    assert!(routes.contains("congctl lh_htcp"), "{routes}");
    done(&["wan", "down", "--name", &network.0]);
    until("it to leave the kernel", || ours().is_empty());
}

#[test]
fn kill_9_of_the_network_takes_it_along() {
    let _kernel = Kernel::without_ours();
    let folder = tempfile::tempdir().unwrap();
    let network = Network::up(folder.path(), "killed");
    let status = json(&["wan", "status", "--name", &network.0, "--json"]);
    assert_eq!(ours(), ["lh_htcp"]);
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args(["-s", "KILL", &status["pid"].to_string()]).status().unwrap().success());
    until("it to leave the kernel", || ours().is_empty());
    // The next one of that name is in nothing's way, and cleans up after the one that couldn't.
    let again = Network::up(folder.path(), "killed");
    assert_eq!(ours(), ["lh_htcp"]);
    done(&["wan", "down", "--name", &again.0]);
    until("it to leave the kernel", || ours().is_empty());
}

#[test]
fn depot_without_its_congestion_control_does_not_start() {
    let _kernel = Kernel::without_ours();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("depot.toml");
    let config = "listen = [\"127.0.0.1:0\"]\n\
        [[hop]]\npeer = \"10.0.0.0/8\"\ncongestion = \"lh_htcp\"\n";
    std::fs::write(&file, config).unwrap();
    for run in [&["depot", "--config"][..], &["depot", "check"]] {
        // One that starts all the same would run for ever.
        let mut command = std::process::Command::new("timeout");
        command.arg("10").arg(longhaul().get_program());
        let output = command.args(run).arg(&file).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        for part in ["lh_htcp", "10.0.0.0/8", "longhaul cc load"] {
            assert!(said.contains(part), "{part} is missing: {said}");
        }
    }
    done(&["cc", "load", "htcp"]);
    done(&["depot", "check", file.to_str().unwrap()]);
}
