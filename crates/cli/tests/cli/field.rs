// SPDX-License-Identifier: GPL-2.0-or-later
//! Hosts of experiments: reached by real ssh, described, taken, set up, and as before after every end.

use crate::{
    common::{call, json, one_of_two, refused, text},
    sshd::{Hosts, processes_of},
};
use field::{FieldError, Program, Remote, Reservation};
use host::Namespace;
use std::{fs, future::Future, process::Command, time::Duration};
use testkit::{Measured, credible, draft::Draft, until};
use tokio::runtime::Builder;

const LEASE: Duration = Duration::from_secs(60);
const CONTROL: &str = "net.ipv4.tcp_congestion_control";
const BUFFER: &str = "net.ipv4.tcp_rmem";

fn run<T>(work: impl Future<Output = T>) -> T {
    Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

fn reservation(title: &str) -> Reservation {
    let until_s =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 600;
    Reservation { owner: "alice@lab".to_owned(), title: title.to_owned(), until_s }
}

/// A guard at work on the first host.
async fn reach(hosts: &Hosts) -> Remote {
    let all = field::Hosts::read(&hosts.file(|_| String::new())).unwrap();
    let program = Program::of(&all, env!("CARGO_BIN_EXE_longhaul").into()).unwrap();
    Remote::reach(&all.hosts[0], &all, &program).await.unwrap()
}

/// What is set on a host.
fn settings(hosts: &Hosts) -> [String; 2] {
    [CONTROL, BUFFER].map(|key| hosts.namespaces[0].1.sysctl(key).unwrap())
}

/// Other values than those that are there.
fn other(before: &[String; 2]) -> Vec<(String, String)> {
    let control = if before[0] == "reno" { "cubic" } else { "reno" };
    vec![(CONTROL.to_owned(), control.to_owned()), (BUFFER.to_owned(), "* * 7340032".to_owned())]
}

/// The processes of a host's guards: the keeper and its worker.
fn guards(hosts: &Hosts) -> [Vec<i32>; 2] {
    let files = hosts.path("files-a");
    let mut all = [Vec::new(), Vec::new()];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = text(&line);
        let is_guard = line.starts_with(files.to_str().unwrap()) && line.contains("guard");
        if is_guard {
            all[usize::from(line.contains("--worker"))].push(pid);
        }
    }
    all
}

fn kill(pids: &[i32]) {
    for pid in pids {
        assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    }
}

fn is_left(hosts: &Hosts) -> bool {
    !guards(hosts).concat().is_empty()
}

#[test]
fn hosts_are_described_and_left_as_they_were() {
    let _turn = one_of_two();
    let hosts = Hosts::start(&["a", "b"]);
    let before = settings(&hosts);
    let file = hosts.file(|_| String::new());
    let file = file.to_str().unwrap();
    let found = json(&["lab", "hosts", file, "--json"]);
    for (host, node) in found["hosts"].as_array().unwrap().iter().zip(["a", "b"]) {
        assert_eq!(
            (&host["node"], &host["error"]),
            (&node.into(), &serde_json::Value::Null),
            "{host}"
        );
        let facts = &host["facts"];
        assert_eq!(facts["is_root"], true);
        assert!(
            facts["cores"].as_u64().unwrap() > 0 && !facts["boot_id"].as_str().unwrap().is_empty()
        );
        let ahead = host["clock_ahead_ns"].as_i64().unwrap().unsigned_abs();
        assert!(ahead <= host["clock_error_ns"].as_u64().unwrap(), "it is the same clock: {host}");
    }
    let copied = || {
        let program = fs::read_dir(hosts.path("files-a")).unwrap().flatten().next().unwrap();
        program.metadata().unwrap().modified().unwrap()
    };
    let first = copied();
    // With a scenario: what it lacks, and nodes that are not there.
    let scenario = hosts.path("s.toml");
    let draft = Draft::new("s", "")
        .node("a", "tcp_wmem_max=16MB")
        .nodes(&["b"])
        .link("a", "b", "rate=1gbit")
        .flow("a", "b", "bytes=1TB");
    fs::write(&scenario, draft.to_string()).unwrap();
    let output = call(&["lab", "hosts", file, scenario.to_str().unwrap()]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(shown.contains("MB needed: name another directory"), "{shown}");
    assert_eq!(copied(), first, "the program is copied once");
    fs::write(
        &scenario,
        draft.node("c", "").link("b", "c", "rate=1gbit").flow("a", "c", "bytes=1MB").to_string(),
    )
    .unwrap();
    let (code, said) = refused(&["lab", "hosts", file, scenario.to_str().unwrap()]);
    assert!(code == 2 && said.contains("the node c has no host"), "{said}");
    // A shell whose start-up files print something.
    let noisy =
        "\nForceCommand sh -c 'echo Welcome to {x86_64}; echo; eval \"$SSH_ORIGINAL_COMMAND\"'\n";
    let quiet = fs::read_to_string(hosts.path("a.conf")).unwrap();
    fs::write(hosts.path("a.conf"), quiet + noisy).unwrap();
    assert_eq!(
        json(&["lab", "hosts", file, "--json"])["hosts"][0]["error"],
        serde_json::Value::Null
    );
    until("the guards to end", || !is_left(&hosts));
    assert_eq!(settings(&hosts), before);
    until("sshd to end", || processes_of(hosts.folder.path()).is_empty());
}

#[test]
fn hosts_that_cannot_be_reached_say_why() {
    let _turn = one_of_two();
    let hosts = Hosts::start(&["a", "b"]);
    let said = |more: &dyn Fn(&str) -> String| {
        let file = hosts.file(|name| if name == "b" { more(name) } else { String::new() });
        let output = call(&["lab", "hosts", file.to_str().unwrap()]);
        let shown = text(&output.stdout);
        assert!(!output.status.success(), "{shown}");
        assert!(shown.lines().any(|line| line.starts_with("a ") && line.contains('x')), "{shown}");
        text(&output.stderr) + &shown
    };
    let unknown = said(&|_| "ssh = \"127.0.0.1:1\"".to_owned());
    assert!(unknown.contains("b: ssh 127.0.0.1:1 does not get there"), "{unknown}");
    let nowhere = said(&|_| "directory = \"/proc/nowhere\"".to_owned());
    assert!(nowhere.contains("cannot be brought to /proc/nowhere"), "{nowhere}");
    // Another key than the host's own, and a user's key that it does not know.
    let known = fs::read_to_string(hosts.path("known_hosts")).unwrap();
    let swapped = known
        .replace("host-a ", "host-x ")
        .replace("host-b ", "host-a ")
        .replace("host-x ", "host-b ");
    fs::write(
        hosts.path("known_hosts"),
        swapped.lines().filter(|line| line.starts_with("host-b")).collect::<String>()
            + "\n"
            + known.lines().next().unwrap()
            + "\n",
    )
    .unwrap();
    let changed = said(&|_| String::new());
    assert!(changed.contains("b: ssh host-b does not get there"), "{changed}");
    fs::write(hosts.path("known_hosts"), &known).unwrap();
    fs::write(
        hosts.path("b.conf"),
        fs::read_to_string(hosts.path("b.conf")).unwrap().replace("user.pub", "b.pub"),
    )
    .unwrap();
    let denied = said(&|_| String::new());
    assert!(denied.contains("Permission denied"), "{denied}");
}

#[test]
fn settings_are_read_back_and_put_back() {
    let _turn = one_of_two();
    let hosts = Hosts::start(&["a"]);
    let before = settings(&hosts);
    let other = other(&before);
    run(async {
        let mut remote = reach(&hosts).await;
        let unreserved = remote.set(other.clone()).await.unwrap_err();
        assert!(unreserved.to_string().contains("not reserved"), "{unreserved}");
        remote.reserve(&reservation("first"), LEASE).await.unwrap();
        let set = remote.set(other.clone()).await.unwrap();
        assert_eq!(set[0].before, before[0]);
        assert_eq!(set[0].now, other[0].1);
        assert!(set[1].now.ends_with("7340032"), "{set:?}");
        assert_ne!(settings(&hosts), before);
        // Another experiment is told by whom it is taken.
        let mut second = reach(&hosts).await;
        let busy = second.reserve(&reservation("second"), LEASE).await.unwrap_err();
        let text = busy.to_string();
        assert!(matches!(busy, FieldError::Busy { .. }), "{text}");
        assert!(
            text.contains("alice@lab has this host for the experiment \"first\", for 10"),
            "{text}"
        );
        assert_eq!(second.put_back(), 0);
        drop(second);
        for (key, value, part) in [
            ("kernel.core_pattern", "|/bin/sh", "only keys below net"),
            ("net.../../kernel/core_pattern", "x", "only keys below net"),
            ("net.ipv4.no_such_key", "1", "cannot be read"),
            (CONTROL, "no_such_control", "the kernel does not take it"),
            (BUFFER, "x\ny", "too long"),
        ] {
            let wrong = vec![(key.to_owned(), value.to_owned())];
            let error = remote.set(wrong).await.unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("a: "), "{error}");
        }
        remote.release().await.unwrap();
        assert_eq!(settings(&hosts), before);
        // A setting that another program has changed since stays.
        remote.reserve(&reservation("third"), LEASE).await.unwrap();
        remote.set(other.clone()).await.unwrap();
        hosts.namespaces[0].1.set_sysctl(BUFFER, "4096 131072 5242880").unwrap();
        remote.release().await.unwrap();
        assert_eq!(settings(&hosts)[0], before[0]);
        assert!(settings(&hosts)[1].ends_with("5242880"));
    });
    until("the guards to end", || !is_left(&hosts));
}

/// However a guard ends, and whoever ends it.
#[test]
fn every_end_puts_settings_back() {
    let _turn = one_of_two();
    let hosts = Hosts::start(&["a"]);
    let before = settings(&hosts);
    for end in ["connection", "lease", "worker", "keeper", "both"] {
        run(async {
            let mut remote = reach(&hosts).await;
            let lease = if end == "lease" { Duration::from_secs(1) } else { LEASE };
            remote.reserve(&reservation(end), lease).await.unwrap();
            remote.set(other(&before)).await.unwrap();
            assert_ne!(settings(&hosts), before);
            let [keepers, workers] = guards(&hosts);
            assert_eq!((keepers.len(), workers.len()), (1, 1), "{end}");
            match end {
                "connection" => drop(remote),
                "lease" => {
                    until("the lease to end", || settings(&hosts) == before);
                    let gone = remote.ping().await.unwrap_err();
                    assert!(matches!(gone, FieldError::Gone { .. }), "{gone}");
                }
                "worker" => kill(&workers),
                "keeper" => kill(&keepers),
                _ => {
                    // Stopped first, or the one that is left would notice.
                    for pid in [&keepers[..], &workers[..]].concat() {
                        let stopped =
                            Command::new("kill").args(["-STOP", &pid.to_string()]).status();
                        assert!(stopped.unwrap().success());
                    }
                    kill(&[&keepers[..], &workers[..]].concat());
                    until("both to be gone", || !is_left(&hosts));
                    assert_ne!(settings(&hosts), before, "no guard is left");
                    let next = reach(&hosts).await;
                    assert_eq!(next.put_back(), 2);
                }
            }
        });
        until(&format!("settings to be back after the end of {end}"), || {
            settings(&hosts) == before
        });
        until("the guards to end", || !is_left(&hosts));
    }
}

/// Over an emulated path of known rate and round trip.
#[test]
fn paths_between_hosts_are_measured() {
    let _turn = one_of_two();
    let draft = Draft::new("s", "")
        .node("a", "tcp_wmem_max=16MB")
        .node("b", "tcp_rmem_max=16MB")
        .link("a", "b", "rate=50mbit delay=10ms loss=1%")
        .flow("a", "b", "bytes=1MB");
    let run = scenario::Scenario::parse(&draft.to_string(), "s", &[""; 0]).unwrap().runs.remove(0);
    credible(|| {
        let wan = wan::Wan::up(&run).unwrap();
        let namespace = |name: &str| {
            let descriptor = wan.node(name).unwrap().namespace.descriptor();
            let pid = std::process::id();
            (name.to_owned(), Namespace::of_process(pid, descriptor).unwrap())
        };
        let hosts = Hosts::within(vec![namespace("a"), namespace("b")]);
        let scenario = hosts.path("s.toml");
        fs::write(&scenario, draft.to_string()).unwrap();
        let address = |name: &str| format!("address = \"{}\"", wan.address(name).unwrap());
        let file = hosts.file(address);
        let words = ["lab", "hosts", file.to_str().unwrap(), scenario.to_str().unwrap()];
        let shown = text(&call(&[&words[..], &["--measure", "3s"]].concat()).stdout);
        assert!(shown.contains("a to b") && shown.contains("50 Mb/s"), "{shown}");
        let found = call(&[&words[..], &["--measure", "3s", "--json"]].concat());
        let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        let path = &found["paths"][0];
        assert!(path["error"].is_null(), "{path}");
        // A host that is held up cannot tell the rate.
        let of = |key: &str| path["measured"][key].as_f64().unwrap_or(0.0);
        let is_right = (0.9..1.05).contains(&(of("rate_bps") / 50e6))
            && (20_000.0..26_000.0).contains(&of("rtt_us"))
            // Of more than 10 000 datagrams, with a deviation of 0.1 %.
            && (0.005..0.015).contains(&of("loss"));
        let faults = wan.status().unwrap().health.faults();
        Measured { wrong: (!is_right).then(|| path.to_string()).into_iter().collect(), faults }
    });
}
