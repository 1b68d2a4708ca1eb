// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul pace`: a gateway in a network namespace of its own, ended in every way, and used wrongly;
//! the pacing methods that this machine has.

use crate::common::{call, done, longhaul, refused, text};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
};

const DEVICES: &str = "ip link set lo up && ip link add left numtxqueues 2 type veth peer name right && \
                       ip link set right up && ip link set left up && ip addr add 10.9.0.1/24 dev left";

/// Arguments of a gateway that there can be.
const GOOD: [&str; 7] = [
    "left",
    "--class=west=10mbit:10.1.0.0/16",
    "--class=east=20mbit:10.2.0.0/16",
    "--next-hop=02:00:00:00:00:07",
    "--line=100mbit",
    "--queue=2MB",
    "--json",
];

/// `longhaul pace gateway` in a network namespace with two devices.
fn gateway(script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("{DEVICES} && {script} \"$0\" pace gateway \"$@\"");
    command.args(["--net", "sh", "-c", &script]).arg(longhaul().get_program()).args(arguments);
    command
}

fn in_namespace_of(child: &Child, script: &str) -> Output {
    let pid = child.id().to_string();
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid, "--net", "bash", "-c", script]);
    command.output().expect("nsenter, of util-linux")
}

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts one and waits until it is up.
fn up(arguments: &[&str]) -> (Running, String) {
    let mut command = gateway("exec", arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().expect("unshare"));
    let mut said = String::new();
    let mut lines = BufReader::new(running.0.stderr.as_mut().expect("piped"));
    while !said.contains("is up") {
        assert!(lines.read_line(&mut said).expect("text") > 0, "{said}");
    }
    (running, said)
}

#[test]
fn signal_ends_the_gateway_with_its_counters() {
    for signal in ["INT", "TERM"] {
        let (mut running, said) = up(&GOOD);
        let child = &mut running.0;
        assert!(said.contains("lhgw0") && said.contains("02:00:00:00:00:07"), "{said}");
        let route = "ip route add 10.0.0.0/14 dev lhgw0 src 10.9.0.1";
        let output = in_namespace_of(child, &format!("{route} && echo x > /dev/udp/10.2.0.1/9"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        // It has left once the device has counted it; nothing else goes to that address.
        let wait = "until ip -s -j link show right | grep -q '\"rx\":{\"bytes\":[0-9]*,\"packets\":[1-9]'; \
                    do sleep 0.05; done";
        assert!(in_namespace_of(child, wait).status.success());
        let kill = ["-s", signal, &child.id().to_string()];
        assert!(Command::new("kill").args(kill).status().expect("kill").success());
        let mut out = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
        assert!(child.wait().expect("a child").success());
        let summary: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
        let classes = summary["classes"].as_array().expect("classes");
        let names: Vec<_> = classes.iter().map(|class| class["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["west", "east", "other"]);
        let sent = |class: usize| classes[class]["packets"].as_u64().unwrap();
        let waits = |class: usize| classes[class]["left_packets"].as_u64().unwrap();
        assert_eq!((sent(0), sent(1) + waits(1), sent(2)), (0, 1, 0), "{out}");
        assert_eq!(summary["line_bps"], 100_000_000);
    }
}

/// Another process keeps the namespace open, so that leftovers would be visible.
#[test]
fn killed_gateway_leaves_nothing() {
    let (running, _) = up(&GOOD);
    let pid = running.0.id().to_string();
    let mut keeper = Command::new("nsenter");
    keeper.args(["--target", &pid, "--net", "sleep", "600"]);
    let mut keeper = Running(keeper.spawn().expect("nsenter, of util-linux"));
    while !in_namespace_of(
        &keeper.0,
        "test -e /proc/self/net/dev && grep -q lhgw0 /proc/self/net/dev",
    )
    .status
    .success()
    {
        assert!(keeper.0.try_wait().expect("a child").is_none());
    }
    let route = "ip route add 10.0.0.0/14 dev lhgw0 src 10.9.0.1";
    assert!(in_namespace_of(&keeper.0, route).status.success());
    drop(running);
    let left = in_namespace_of(&keeper.0, "ip -o link; ip route");
    let left = text(&left.stdout);
    assert!(
        left.contains("left") && !left.contains("lhgw0") && !left.contains("10.0.0.0"),
        "{left}"
    );
}

#[test]
fn wrong_use_is_refused() {
    for (changed, expected) in [
        (&["nosuch0"][..], "no device nosuch0"),
        (&["lo"], "no Ethernet"),
        (&["left", "--class=b=101mbit:10.3.0.0/16"], "above the line"),
        (&["left", "--class=b=1mbit:10.1.2.0/24"], "overlap"),
        (&["left", "--class=b=1mbit:10.1.2.0/8"], "bits behind"),
        (&["left", "--router=10.9.0.2"], "cannot be used with"),
        (&["left", "--tun=right"], "already"),
        (&["left", "--max-frame=100"], "gap frames of"),
        (&["left", "--max-frame=4KB", "--no-gap-frames"], "cannot be used with"),
    ] {
        let output = gateway("exec", &[changed, &GOOD[1..]].concat()).output().expect("unshare");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{changed:?}: {said}");
        assert!(said.contains(expected) && output.stdout.is_empty(), "{changed:?}: {said}");
    }
    let (code, said) = refused(&["pace", "gateway", "lo", "--class=a=1mbit"]);
    assert!(code == 2 && said.contains("--router"), "{said}");
    let (code, said) = refused(&["pace", "gateway", "lo", "--router=10.0.0.1"]);
    assert!(code == 2 && said.contains("--class"), "{said}");
    let (code, said) = refused(&["pace", "methods", "nosuch0"]);
    assert!(code == 2 && said.contains("no device nosuch0"), "{said}");
}

#[test]
fn what_the_machine_lacks_is_named() {
    let lacks = |script: &str, expected: &str| {
        let output = gateway(script, &GOOD).output().expect("unshare");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{script}: {said}");
        assert!(said.contains(expected), "{script}: {said}");
    };
    lacks("tc qdisc replace dev left root mq && exec", "several transmit queues");
    lacks("tc qdisc replace dev left root tbf rate 1gbit burst 64k limit 64k && exec", "tbf");
    lacks(
        "unshare --mount sh -c 'mount -t tmpfs none /dev/net && exec \"$0\" \"$@\"'",
        "/dev/net/tun",
    );
    lacks("exec setpriv --bounding-set=-net_admin --inh-caps=-net_admin", "root");
}

#[test]
fn pacing_methods_are_listed_with_the_best() {
    let document: Value = serde_json::from_str(&done(&["pace", "methods", "--json"])).unwrap();
    let methods = document["methods"].as_array().expect("a list");
    let names: Vec<_> = methods.iter().map(|method| method["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gap-frames", "departure-times", "gateway", "tcp"]);
    for method in methods {
        assert_eq!(method["can"].as_bool().unwrap(), method["lacks"].is_null(), "{method}");
    }
    let first = methods.iter().find(|method| method["can"] == true).expect("TCP's own");
    assert_eq!(document["best"], first["name"]);
    // Asked of the kernel in another way.
    let fq = "unshare --net tc qdisc add dev lo root fq";
    let fq = Command::new("sh").args(["-c", fq]).output().expect("sh").status.success();
    assert_eq!(methods[1]["can"], fq);
    assert!(done(&["pace", "methods"]).contains("best here: "));
    let without = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount -t tmpfs none /dev/net && exec \"$0\" pace methods"])
        .arg(longhaul().get_program())
        .output()
        .expect("unshare");
    assert!(text(&without.stdout).contains("/dev/net/tun"), "{}", text(&without.stdout));
    assert!(call(&["pace", "methods"]).status.success());
}
