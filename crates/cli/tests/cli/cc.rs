// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul cc`: what a person does with congestion controls in the running kernel, also wrongly.

use crate::common::{Kernel, call, done, json, longhaul, ours, refused, setting, text, two_nodes};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::Command,
    thread,
};
use testkit::until;

/// Its entry in `cc list --json`.
fn listed(name: &str) -> Value {
    let document = json(&["cc", "list", "--json"]);
    let entries = document["congestion_controls"].as_array().expect("a list");
    let found = entries.iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {document}")).clone()
}

/// Its line in `cc list`.
fn line(name: &str) -> String {
    let output = call(&["cc", "list"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let list = text(&output.stdout);
    let found = list.lines().find(|line| line.split_whitespace().next() == Some(name));
    found.unwrap_or_else(|| panic!("{name} is not in\n{list}")).to_owned()
}

#[test]
fn control_is_loaded_listed_and_unloaded() {
    let _kernel = Kernel::without_ours();
    assert!(line("lh_bic").contains("can be loaded"));
    assert!(line("reno").contains("the kernel's"));

    assert_eq!(done(&["cc", "load", "bic"]), "lh_bic\n");
    assert_eq!(ours(), ["lh_bic"], "it outlives the command");
    let default = json(&["cc", "show", "bic", "--json"])["default_set"].clone();
    let default = default.as_str().expect("a name");
    assert!(line("lh_bic").contains(&format!("loaded, {default}")), "{}", line("lh_bic"));
    let entry = listed("lh_bic");
    assert_eq!(entry["provider"], "longhaul");
    assert_eq!(entry["parameter_set"], default);
    assert_eq!((&entry["restricted"], &entry["sockets"]), (&false.into(), &0.into()));

    assert_eq!(
        done(&["cc", "load", "lh_bic"]),
        "lh_bic\n",
        "a second load, by either name, succeeds"
    );
    assert_eq!(done(&["cc", "unload", "bic"]), "lh_bic\n");
    assert_eq!(ours(), Vec::<String>::new());
    let (code, said) = refused(&["cc", "unload", "bic"]);
    assert!(code == 1 && said.contains("lh_bic is not loaded"), "{said}");
}

#[test]
fn all_are_loaded_and_unloaded_at_once() {
    let _kernel = Kernel::without_ours();
    assert_eq!(done(&["cc", "unload", "all"]), "", "none is loaded");
    done(&["cc", "load", "fast"]);
    let loaded = done(&["cc", "load", "all"]);
    let mut loaded: Vec<&str> = loaded.lines().collect();
    assert!(loaded.contains(&"lh_bbr") && loaded.contains(&"lh_libra"), "{loaded:?}");
    let document = json(&["cc", "list", "--json"]);
    for entry in document["congestion_controls"].as_array().expect("a list") {
        let ours = entry["name"].as_str().expect("a name").starts_with("lh_");
        let provider = if ours { "longhaul" } else { "kernel" };
        assert_eq!(entry["provider"], provider, "{entry}");
    }
    loaded.sort_unstable();
    assert_eq!(ours(), loaded);
    assert_eq!(done(&["cc", "unload", "all"]).lines().count(), loaded.len());
    assert_eq!(ours(), Vec::<String>::new());
}

#[test]
fn parameters_are_chosen_and_read_back() {
    let _kernel = Kernel::without_ours();
    for set in json(&["cc", "show", "htcp", "--json"])["sets"].as_array().expect("sets") {
        let set = set["name"].as_str().expect("a name");
        done(&["cc", "load", "htcp", "--params", set]);
        assert_eq!(listed("lh_htcp")["parameter_set"], set);
        done(&["cc", "unload", "htcp"]);
    }
    done(&["cc", "load", "scalable", "--params", "linux", "--set", "beta=900"]);
    let entry = listed("lh_scalable");
    assert_eq!(
        (&entry["parameter_set"], &entry["parameters"]["beta"]),
        (&Value::Null, &900.into())
    );
    assert!(line("lh_scalable").contains("loaded, own parameters"));

    let (code, said) = refused(&["cc", "load", "scalable"]);
    assert!(code == 1 && said.contains("beta=900") && said.contains("unload it first"), "{said}");
    let (code, said) = refused(&[
        "cc",
        "load",
        "scalable",
        "--params",
        "linux",
        "--set",
        "beta=900",
        "--restricted",
    ]);
    assert!(
        code == 1 && said.contains("unrestricted") && said.contains("unload it first"),
        "{said}"
    );
    assert_eq!(ours(), ["lh_scalable"], "a refusal changes nothing");
    assert_eq!(listed("lh_scalable")["parameters"]["beta"], 900);
}

#[test]
fn restricted_control_is_for_root_only() {
    let _kernel = Kernel::without_ours();
    done(&["cc", "load", "reno", "--restricted"]);
    done(&["cc", "load", "bic"]);
    assert!(line("lh_reno").contains("restricted"), "{}", line("lh_reno"));
    assert_eq!(listed("lh_reno")["restricted"], true);
    let allowed = setting("tcp_allowed_congestion_control");
    assert!(allowed.contains(&"lh_bic".to_owned()), "{allowed:?}");
    assert!(!allowed.contains(&"lh_reno".to_owned()), "{allowed:?}");
}

#[test]
fn wrong_use_is_refused_and_loads_nothing() {
    let _kernel = Kernel::without_ours();
    for (arguments, expected) in [
        (&["load", "warp"][..], &["\"warp\"", "reno", "htcp", "libra"][..]),
        (&["load", "htpc"], &["did you mean \"htcp\""]),
        (&["load", "reno", "warp"], &["\"warp\""]),
        (&["unload", "warp"], &["\"warp\"", "reno"]),
        (&["show", "warp"], &["\"warp\"", "reno"]),
        (&["plot", "warp"], &["\"warp\"", "reno"]),
        (&["load", "htcp", "--params", "mine"], &["htcp", "\"mine\"", "linux", "paper"]),
        (&["plot", "htcp", "--params", "mine"], &["\"mine\"", "linux"]),
        (&["load", "htcp", "--set", "gain=1"], &["\"gain\"", "beta"]),
        (&["load", "htcp", "--set", "beta_min"], &["--set beta_min", "NAME=VALUE"]),
        (&["load", "htcp", "--set", "beta_min=-1"], &["--set beta_min=-1", "whole number"]),
        (&["load", "htcp", "--set", "beta_min=0.5"], &["--set beta_min=0.5", "whole number"]),
        (&["load", "htcp", "--set", "beta_min=4294967296"], &["whole number"]),
        (&["load"], &["NAMES"]),
        (&["unload"], &["NAMES"]),
    ] {
        let (code, said) = refused(&[&["cc"], arguments].concat());
        assert_eq!(code, 2, "{arguments:?}: {said}");
        for part in expected {
            assert!(said.contains(part), "{arguments:?}: {part} is missing: {said}");
        }
    }
    assert_eq!(ours(), Vec::<String>::new());
}

#[test]
fn algorithm_is_shown_and_drawn() {
    for entry in json(&["cc", "list", "--json"])["congestion_controls"].as_array().expect("a list")
    {
        let name = entry["name"].as_str().expect("a name");
        let keys: Vec<&String> = entry.as_object().expect("an object").keys().collect();
        let expected = ["name", "title", "provider", "parameter_set", "parameters", "restricted"];
        assert_eq!(keys[..6], expected, "{entry}");
        assert_eq!(keys[6..], ["default", "sockets"], "{entry}");
        let Some(bare) = name.strip_prefix("lh_") else { continue };
        let shown = json(&["cc", "show", bare, "--json"]);
        assert_eq!((&shown["name"], &shown["kernel_name"]), (&bare.into(), &name.into()));
        assert_eq!(shown["title"], entry["title"]);
        assert!(shown["state_bytes"].as_u64().is_some_and(|bytes| bytes <= 104), "{shown}");
        let page = done(&["cc", "show", name]);
        for part in ["title", "rule", "source", "default_set"] {
            let part = shown[part].as_str().expect("a text");
            assert!(page.contains(part), "{part} is missing:\n{page}");
        }
        for param in shown["parameters"].as_array().expect("a list") {
            assert!(page.contains(param["what"].as_str().expect("a text")), "{param}\n{page}");
            let sets = shown["sets"].as_array().expect("a list").len();
            assert_eq!(param["values"].as_object().expect("by set").len(), sets, "{param}");
        }
    }
}

#[test]
fn a_drawing_goes_to_standard_output_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("htcp.svg");
    let svg = done(&["cc", "plot", "htcp"]);
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert_ne!(svg, done(&["cc", "plot", "bic"]));
    assert_eq!(done(&["cc", "plot", "htcp", "-o", file.to_str().unwrap()]), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), svg);
    let (code, said) = refused(&["cc", "plot", "htcp", "-o", "/nowhere/htcp.svg"]);
    assert!(code == 1 && said.contains("/nowhere/htcp.svg"), "{said}");
}

/// A connection over loopback whose sender uses that congestion control.
struct Connection {
    sender: TcpStream,
    receiver: TcpStream,
}

impl Connection {
    fn with(congestion_control: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = socket();
        sender.set_tcp_congestion(congestion_control.as_bytes()).unwrap();
        sender.connect(&listener.local_addr().unwrap().into()).unwrap();
        Self { sender: sender.into(), receiver: listener.accept().unwrap().0 }
    }

    /// Sends more than all buffers hold, and does that only when all of it is under way or waits.
    fn while_sending(&mut self, work: impl FnOnce()) {
        const BYTES: usize = 100_000_000;
        let (sender, receiver) = (&mut self.sender, &mut self.receiver);
        thread::scope(|scope| {
            let writer = scope.spawn(|| sender.write_all(&vec![7; BYTES]).unwrap());
            let mut first = vec![0; BYTES / 10];
            receiver.read_exact(&mut first).unwrap();
            work();
            assert!(!writer.is_finished(), "the buffers hold more than this sends");
            let mut rest = vec![0; BYTES - first.len()];
            receiver.read_exact(&mut rest).unwrap();
            assert!(first.into_iter().chain(rest).all(|byte| byte == 7));
        });
    }
}

fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}

#[test]
fn sockets_of_an_unloaded_control_are_counted_and_work() {
    let _kernel = Kernel::without_ours();
    done(&["cc", "load", "scalable"]);
    let mut connection = Connection::with("lh_scalable");
    let second = Connection::with("lh_scalable");
    assert_eq!(listed("lh_scalable")["sockets"], 2);
    drop(second);
    // The end that closed first keeps its port for a while, but no congestion control.
    until("the second to close", || listed("lh_scalable")["sockets"] == 1);

    connection.while_sending(|| {
        done(&["cc", "unload", "scalable"]);
        assert!(line("lh_scalable").contains("unloaded, still in use"), "{}", line("lh_scalable"));
        let entry = listed("lh_scalable");
        assert_eq!((&entry["provider"], &entry["sockets"]), (&"withdrawn".into(), &1.into()));
        let error = socket().set_tcp_congestion(b"lh_scalable").expect_err("it is unloaded");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert_eq!(ours(), Vec::<String>::new());
    });
    assert_eq!(listed("lh_scalable")["provider"], "withdrawn");

    // A new one of that name does not touch those that have the old one.
    done(&["cc", "load", "scalable", "--set", "beta=900"]);
    connection.while_sending(|| assert_eq!(listed("lh_scalable")["provider"], "longhaul"));
    done(&["cc", "unload", "scalable"]);
    drop(connection);
    until("it to be gone", || line("lh_scalable").contains("can be loaded"));
}

#[test]
fn unloading_says_whose_default_it_was() {
    let _kernel = Kernel::without_ours();
    done(&["cc", "load", "bic"]);
    let script = "echo lh_bic > /proc/sys/net/ipv4/tcp_congestion_control
        $0 cc list
        $0 cc unload bic
        cat /proc/sys/net/ipv4/tcp_congestion_control";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-euc", script]).arg(longhaul().get_program());
    let output = command.output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let of_bic = out.lines().find(|line| line.starts_with("lh_bic ")).expect("listed");
    assert!(of_bic.contains("default"), "{of_bic}");
    let now = out.lines().last().expect("the default");
    assert!(["cubic", "reno"].contains(&now), "{out}");
    assert!(err.contains("lh_bic was the default of network namespace"), "{err}");
    assert!(err.contains(&format!("which is {now} now")), "{err}");
}

#[test]
fn control_held_by_a_network_is_not_unloaded() {
    let _kernel = Kernel::without_ours();
    let folder = tempfile::tempdir().unwrap();
    let file = two_nodes(folder.path());
    let name = format!("test-holds-{}", std::process::id());
    let with_bic = ["--set", "node.a.cc=lh_bic"];
    done(&[&["wan", "up", file.to_str().unwrap(), "--name", &name], &with_bic[..]].concat());
    assert!(line("lh_bic").contains("loaded by a running process"), "{}", line("lh_bic"));
    for verb in ["load", "unload"] {
        let (code, said) = refused(&["cc", verb, "bic"]);
        assert!(code == 1 && said.contains("held by another process"), "{verb}: {said}");
    }
    assert_eq!(done(&["cc", "unload", "all"]), "");
    assert_eq!(ours(), ["lh_bic"]);
    done(&["wan", "down", "--name", &name]);
    until("it to be gone", || ours().is_empty());
}
