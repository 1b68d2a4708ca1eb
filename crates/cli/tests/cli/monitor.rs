// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul monitor`: by known datagrams on devices of the test's own, ended in every way, and used
//! wrongly.

use crate::{
    common::{longhaul, one_of_two, refused, text, two_nodes},
    wan::Up,
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
};
use testkit::until;

/// A monitor at work: loopback in a network namespace of its own, unless something else is around it.
struct Watching {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Watching {
    fn of(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a program that is there");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        assert!(line.starts_with("watching "), "{line}");
        Self { child, said }
    }

    fn in_own_network(options: &[&str]) -> Self {
        let script = "ip link set lo up && ip link add left type veth peer name right && \
                      exec \"$0\" monitor \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]).arg(longhaul().get_program()).args(options);
        Self::of(command)
    }

    /// Runs a script in the monitor's network namespace.
    fn in_namespace(&self, script: &str) {
        let pid = self.child.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--net", "bash", "-c", script]);
        let status = command.status().expect("nsenter, of util-linux");
        assert!(status.success(), "{script}");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", signal, &pid]).status().expect("kill");
        assert!(status.success());
    }

    /// What it printed and said when it ended by itself, well.
    fn ended(mut self) -> (String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
        self.said.read_to_string(&mut err).expect("text");
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "{status}: {err}");
        (out, err)
    }
}

/// Nine datagrams of two bytes each, without responses. Each has 44 bytes with its headers.
fn datagrams(to: &str) -> String {
    format!("for n in 1 2 3 4 5 6 7 8 9; do echo $n > /dev/udp/{to}/9 || exit 1; done")
}

/// A route to a multicast group: unlike unicast, datagrams to a port without a listener cause no ICMP errors.
const GROUP: &str = "ip route add 239.0.0.0/8 dev lo; ";

fn parsed(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

#[test]
fn ctrl_c_ends_the_monitor_with_its_results() {
    for signal in ["INT", "TERM"] {
        let watching = Watching::in_own_network(&["lo", "--json", "--per-flow"]);
        watching.in_namespace(&(GROUP.to_owned() + &datagrams("239.0.0.1")));
        watching.signal(signal);
        let document = parsed(&watching.ended().0);
        assert_eq!(
            (&document["device"], &document["ended"]),
            (&"lo".into(), &"interrupted".into())
        );
        assert_eq!((&document["bin_us"], &document["burst_gap_us"]), (&500.0.into(), &10.0.into()));
        assert_eq!(document["in"], Value::Null, "it was not asked for");
        let out = &document["out"];
        assert_eq!((&out["packets"], &out["bytes"]), (&9.into(), &(9 * 44).into()), "{out}");
        assert_eq!((&out["gap_frames"], &out["super_handovers"]), (&0.into(), &0.into()));
        assert_eq!((&out["gaps"]["count"], &out["missed_bytes"]), (&8.into(), &0.into()));
        for key in ["mean_us", "deviation_us", "least_us", "p1_us", "p50_us", "p99_us", "most_us"] {
            assert!(out["gaps"][key].as_f64().expect(key) > 0.0, "{key}: {out}");
        }
        let counts = |of: &str| -> u64 {
            let slots = out[of]["histogram"].as_array().expect("slots").iter();
            slots.map(|slot| slot["count"].as_u64().expect("a count")).sum()
        };
        assert_eq!(counts("gaps"), 8);
        assert_eq!(out["bursts"]["count"], counts("bursts"));
        for key in ["rate_bps", "peak_bin_bps", "peak_bin_s", "first_s", "last_s"] {
            assert!(out[key].as_f64().expect(key) > 0.0, "{key}: {out}");
        }
        let flows = out["flows"].as_array().expect("asked for");
        assert_eq!(flows.len(), 9, "each datagram had a socket of its own: {out}");
        assert!(flows.iter().all(|flow| flow["destination"] == "239.0.0.1:9"), "{out}");
    }
}

#[test]
fn after_a_time_it_ends() {
    let watching = Watching::in_own_network(&["lo", "--duration", "300ms", "--json"]);
    let document = parsed(&watching.ended().0);
    assert_eq!(document["ended"], "duration");
    assert!(document["seconds"].as_f64().expect("a number") >= 0.3, "{document}");
    let watching = Watching::in_own_network(&["lo", "--duration", "0"]);
    assert!(watching.ended().0.contains("no packets"));
}

#[test]
fn results_are_printed_and_written_to_out() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("deeper/kept");
    let options = ["lo", "--direction", "both", "--bin", "1ms", "--out"];
    let watching = Watching::in_own_network(&[&options[..], &[kept.to_str().unwrap()]].concat());
    watching.in_namespace(&(GROUP.to_owned() + &datagrams("239.0.0.1")));
    watching.signal("INT");
    let (out, _) = watching.ended();
    for part in ["lo out: ", "lo in: ", "9 packets, 396 B", "standard deviation", "bins of 1 ms"] {
        assert!(out.contains(part), "{part} is missing:\n{out}");
    }
    let document = parsed(&fs::read_to_string(kept.join("monitor.json")).unwrap());
    assert_eq!(document["ended"], "interrupted");
    for direction in ["out", "in"] {
        assert_eq!(document[direction]["packets"], 9, "{document}");
        let table = fs::read_to_string(kept.join(format!("{direction}-bins.csv"))).unwrap();
        let mut lines = table.lines();
        assert_eq!(lines.next(), Some("time_s,data_bytes,gap_frame_bytes"));
        let bytes = lines.map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
        assert_eq!(bytes.sum::<u64>(), 396);
        let svg = fs::read_to_string(kept.join(format!("{direction}.svg"))).unwrap();
        let drawing = roxmltree::Document::parse(&svg).expect("well-formed XML");
        let titled = drawing.descendants().any(|node| node.has_tag_name("title"));
        assert!(titled && svg.contains(&format!("lo {direction}")));
    }
    let entries: Vec<_> = fs::read_dir(kept.parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(entries.len(), 1, "only the directory: {entries:?}");
    let (code, said) = refused(&["monitor", "lo", "--out", kept.to_str().unwrap()]);
    assert!(code == 2 && said.contains("exists already"), "{said}");
}

#[test]
fn removed_device_ends_the_monitor_with_its_results() {
    let watching = Watching::in_own_network(&["left", "--json"]);
    watching.in_namespace("ip link delete left");
    let (out, said) = watching.ended();
    assert!(said.contains("left was removed"), "{said}");
    let document = parsed(&out);
    assert_eq!(
        (&document["ended"], &document["out"]["packets"]),
        (&"device_gone".into(), &0.into())
    );
    assert_eq!(document["out"]["gaps"]["mean_us"], Value::Null);
}

#[test]
fn monitor_on_an_emulated_node_sees_the_nodes_device() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = two_nodes(folder.path());
    let network = Up::new("monitor", file.to_str().unwrap());
    let mut command = longhaul();
    command.args(["wan", "exec", "--name", &network.0, "b", "--"]).arg(longhaul().get_program());
    command.args(["monitor", "wan0", "--direction", "in", "--json"]);
    let watching = Watching::of(command);
    network.exec("a", &["bash", "-c", &datagrams("b")]);
    until("all to arrive", || {
        let table = network.exec("b", &["cat", "/proc/net/snmp"]);
        let no_ports = table.lines().filter(|line| line.starts_with("Udp:")).nth(1);
        no_ports.is_some_and(|line| line.split_whitespace().nth(2) == Some("9"))
    });
    watching.signal("INT");
    let seen = parsed(&watching.ended().0);
    assert_eq!((&seen["in"]["packets"], &seen["in"]["bytes"]), (&9.into(), &396.into()), "{seen}");
}

#[test]
fn wrong_use_is_refused() {
    let (code, said) = refused(&["monitor", "nosuch0"]);
    assert!(code == 2 && said.contains("no device nosuch0") && said.contains("lo"), "{said}");
    let (code, said) = refused(&["monitor", "lo", "--bin", "1us"]);
    assert!(code == 2 && said.contains("1us") && said.contains("10us"), "{said}");
    for arguments in [
        &["monitor"][..],
        &["monitor", "lo", "--bin", "500"],
        &["monitor", "lo", "--direction", "up"],
        &["monitor", "lo", "--out", "/proc/nowhere"],
    ] {
        let (code, said) = refused(arguments);
        assert!(code == 2 && !said.is_empty(), "{arguments:?}: {said}");
    }
}

/// On a terminal, which `script` makes, the display is updated every second.
#[test]
fn a_terminal_shows_the_last_second() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let script = "ip link set lo up; (for n in {1..400}; do echo $n > /dev/udp/127.0.0.1/9; \
                  sleep 0.01; done) & exec \"$0\" monitor lo --duration 4s";
    let run = format!("unshare --net bash -c '{script}' {}", longhaul().get_program().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--command", &run]).arg(&seen).env("TERM", "xterm");
    let output = command.output().expect("script, of util-linux");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen = fs::read_to_string(&seen).unwrap();
    for part in ["lo out", "now,", "packets/s", "peak bin", "gaps: median", "█", "mean"] {
        assert!(seen.contains(part), "{part} is missing:\n{seen}");
    }
}
