// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul wan`: a network kept up in the background, used, taken down, and killed.

use crate::common::{call, json, longhaul, one_of_two, refused, setting, text, two_nodes};
use std::{fs::Permissions, os::unix::fs::PermissionsExt, process::Stdio};
use testkit::until;

/// Takes the network down even where the test fails.
pub struct Up(pub String);

impl Up {
    pub fn new(name: &str, file: &str) -> Self {
        let name = format!("test-{name}-{}", std::process::id());
        let output = call(&["wan", "up", file, "--name", &name]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "a\nb\n");
        let hint =
            format!("the network is up. Try: longhaul wan exec --name {name} a -- ip address\n");
        assert!(text(&output.stderr).ends_with(&hint), "{}", text(&output.stderr));
        Self(name)
    }

    pub fn exec(&self, node: &str, command: &[&str]) -> String {
        let output = call(&[&["wan", "exec", "--name", &self.0, node, "--"], command].concat());
        assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        call(&["wan", "down", "--name", &self.0]);
    }
}

#[test]
fn wan_exec_runs_any_program() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = two_nodes(folder.path());
    let network = Up::new("use", file.to_str().unwrap());
    assert!(network.exec("a", &["getent", "hosts", "b"]).starts_with("10.110.0.2"));
    let routes = network.exec("a", &["ip", "route", "get", "10.110.0.2"]);
    assert!(routes.contains("dev wan0"), "{routes}");

    // Ten datagrams over UDP, from one real program on a node: exactly ten packets on the link.
    let script = "for n in 1 2 3 4 5 6 7 8 9 10; do echo $n > /dev/udp/b/9; done";
    network.exec("a", &["bash", "-c", script]);
    let status = json(&["wan", "status", "--name", &network.0, "--json"]);
    let forward = &status["links"][0];
    assert_eq!(forward["name"], "a-b/forward");
    assert_eq!(forward["offered"], 10, "{status}");
    assert_eq!(forward["carried_bytes"].as_u64().unwrap(), 9 * (28 + 2 + 14) + 28 + 3 + 14);
    assert!(text(&call(&["wan", "status", "--name", &network.0]).stdout).contains("a-b/forward"));

    let exit = call(&["wan", "exec", "--name", &network.0, "a", "--", "sh", "-c", "exit 7"]);
    assert_eq!(exit.status.code(), Some(7), "the command's own exit code");
    let (code, said) = refused(&["wan", "exec", "--name", &network.0, "c", "--", "true"]);
    assert!(code == 2 && said.contains("there are: a, b"), "{said}");
    let (code, said) = refused(&["wan", "up", file.to_str().unwrap(), "--name", &network.0]);
    assert!(code == 1 && said.contains("already"), "{said}");
}

#[test]
fn wan_exec_runs_sysctl_for_the_node_alone() {
    const KEY: &str = "net.ipv4.tcp_slow_start_after_idle";
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = two_nodes(folder.path());
    let network = Up::new("sysctl", file.to_str().unwrap());
    // As in a shell that became root's by su: without the directories of administrators' tools.
    let exec = |path: &str, command: &[&str]| {
        let mut exec = longhaul();
        exec.args(["wan", "exec", "--name", &network.0, "a", "--"]).args(command);
        let output = exec.env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let here = setting("tcp_slow_start_after_idle");
    exec("/usr/bin:/bin", &["sysctl", "-w", &format!("{KEY}=0")]);
    assert_eq!(exec("/usr/bin:/bin", &["sh", "-c", &format!("sysctl -n {KEY}")]), "0\n");
    assert_eq!(network.exec("b", &["cat", "/proc/sys/net/ipv4/tcp_slow_start_after_idle"]), "1\n");
    assert_eq!(setting("tcp_slow_start_after_idle"), here);
    // What the user has comes first.
    let own = folder.path().join("sysctl");
    std::fs::write(&own, "#!/bin/sh\necho own\n").unwrap();
    std::fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    assert_eq!(exec(&path, &["sysctl"]), "own\n");
}

#[test]
fn down_takes_everything_down_and_says_so_afterwards() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = two_nodes(folder.path());
    let network = Up::new("down", file.to_str().unwrap());
    let status = json(&["wan", "status", "--name", &network.0, "--json"]);
    let process = format!("/proc/{}", status["pid"]);
    assert!(call(&["wan", "down", "--name", &network.0]).status.success());
    until("the network's process to end", || !std::path::Path::new(&process).exists());
    let (code, said) = refused(&["wan", "status", "--name", &network.0]);
    assert!(code == 1 && said.contains("longhaul wan up"), "{said}");
}

#[test]
fn killed_network_does_not_block_the_next() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = two_nodes(folder.path());
    let network = Up::new("kill", file.to_str().unwrap());
    let status = json(&["wan", "status", "--name", &network.0, "--json"]);
    let pid = status["pid"].to_string();
    assert!(
        std::process::Command::new("kill").args(["-s", "KILL", &pid]).status().unwrap().success()
    );
    until("it to die", || call(&["wan", "status", "--name", &network.0]).status.code() == Some(1));
    let output = call(&["wan", "up", file.to_str().unwrap(), "--name", &network.0]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    network.exec("b", &["true"]);
}

#[test]
fn wrong_use_is_refused() {
    let (code, said) = refused(&["wan", "up", "/nowhere.toml"]);
    assert!(code == 2 && said.contains("/nowhere.toml"), "{said}");
    let (code, said) = refused(&["wan", "status", "--name", "../../etc"]);
    assert!(code == 2 && said.contains("letters, digits"), "{said}");
}

#[test]
fn one_of_two_networks_gets_a_shared_name() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = two_nodes(folder.path());
    let name = format!("test-race-{}", std::process::id());
    let _network = Up(name.clone());
    let start = || {
        let mut command = longhaul();
        command.args(["wan", "up", file.to_str().unwrap(), "--name", &name]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
    let refused: Vec<_> = both.iter().filter(|output| !output.status.success()).collect();
    let said: Vec<String> = both.iter().map(|output| text(&output.stderr)).collect();
    assert_eq!(refused.len(), 1, "{said:?}");
    assert!(text(&refused[0].stderr).contains("already"), "{said:?}");
}

#[test]
fn a_machine_without_ip_is_told_what_to_install() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = two_nodes(folder.path());
    let name = format!("test-lacks-{}", std::process::id());
    let mut command = longhaul();
    command.args(["wan", "up", file.to_str().unwrap(), "--name", &name]);
    let output = command.env("PATH", folder.path()).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("iproute2"), "{said}");
}
