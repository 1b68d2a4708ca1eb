// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul pace`: normal and wrong use, and leftovers of a killed command.

use crate::common::{Kernel, call, done, json, longhaul, processes_with, refused};
use ::kernel::pace::{self, Method};
use host::Namespace;
use serde_json::Value;
use std::{
    fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use testkit::until;

const DEVICE: &str = "pace0";

/// Runs a test in a network namespace of its own with a device in it, which has a neighbour 10.9.0.2; the
/// machine is then as before.
fn with_device(test: impl FnOnce() + Send) {
    // Pins are the machine's.
    let _kernel = Kernel::without_ours();
    assert_eq!(pins(), Vec::<PathBuf>::new(), "paced already; delete that first");
    let _cleared = Cleared;
    let namespace = Namespace::new().expect("root");
    let tested = namespace.run(|| {
        make_device();
        test();
        Ok(())
    });
    tested.expect("a thread");
}

/// A device that has gone goes from the list, and its pins with it; also after a test that failed.
pub struct Cleared;

impl Drop for Cleared {
    fn drop(&mut self) {
        until("nothing is left", || {
            call(&["pace", "show"]);
            pins().is_empty()
        });
    }
}

fn make_device() {
    // Its own packets would be counted.
    fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("a setting");
    let veth = ["type", "veth", "peer", "name", "pace1", "numtxqueues", "1"];
    ip(&[&["link", "add", DEVICE, "numtxqueues", "1"][..], &veth].concat());
    ip(&["addr", "add", "10.9.0.1/24", "dev", DEVICE]);
    for device in [DEVICE, "pace1"] {
        ip(&["link", "set", device, "up"]);
    }
    ip(&["neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", DEVICE]);
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().expect("iproute2");
    assert!(status.success(), "ip {arguments:?}: {status}");
}

fn gso_max_segs() -> u64 {
    let arguments = ["-json", "-details", "link", "show", "dev", DEVICE];
    let output = Command::new("ip").args(arguments).output().expect("iproute2");
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    shown[0]["gso_max_segs"].as_u64().expect("a number")
}

/// All files of paced devices.
pub fn pins() -> Vec<PathBuf> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let roots = ["/sys/fs/bpf/longhaul/pace", "/run/longhaul/bpf/longhaul/pace"];
    let devices = roots.into_iter().flat_map(|root| entries(root.into()));
    let mut pins: Vec<_> =
        devices.flat_map(|device| entries(device.path())).map(|file| file.path()).collect();
    pins.sort();
    pins
}

/// Frames that leave for one datagram.
fn frames_for_a_datagram() -> u64 {
    let sent = || {
        let table = fs::read_to_string("/proc/thread-self/net/dev").expect("a mounted /proc");
        let line = table.lines().find(|line| line.trim_start().starts_with(DEVICE));
        line.expect("the device").split_whitespace().nth(10).expect("packets").parse().expect("n")
    };
    let before: u64 = sent();
    let socket = UdpSocket::bind("10.9.0.1:0").expect("an address");
    socket.send_to(&[0; 1000], "10.9.0.2:9000").expect("it is sent");
    let after: u64 = sent();
    after - before
}

/// The number of notices that tell unprivileged processes what is paced.
fn notices() -> usize {
    fs::read_dir("/run/longhaul/paced").map_or(0, Iterator::count)
}

/// Whether the device is paced; panics if that is so in part.
fn is_paced() -> bool {
    let (files, segments, frames) = (pins().len(), gso_max_segs(), frames_for_a_datagram());
    match (files, segments, frames, notices()) {
        (0, 65_535, 1, 0) => false,
        // The datagram and what its gap takes of frames.
        (5, 1, 3.., 1) => true,
        (.., said) => panic!(
            "{files} pins, gso_max_segs {segments}, {frames} frames a datagram, {said} notices"
        ),
    }
}

const ADD: [&str; 7] = ["pace", "add", DEVICE, "--rate", "100mbit", "--line", "1gbit"];

#[test]
fn deleted_rules_leave_the_device_unchanged() {
    with_device(|| {
        ip(&["link", "set", DEVICE, "gso_max_segs", "17"]);
        let matched = [&ADD[..], &["--match", "dst", "10.9.0.0/16", "dport", "9000"]].concat();
        assert_eq!(done(&matched), "1\n");
        assert_eq!(gso_max_segs(), 1);
        let auto = ["pace", "add", DEVICE, "--auto", "--estimator", "paper"];
        let more = ["--max-rate", "500mbit", "--find-cap", "--match", "sport 80"];
        let auto = [&auto[..], &more].concat();
        assert_eq!(done(&auto), "2\n");
        let document = json(&["pace", "show", "--json"]);
        let shown = &document["devices"][0];
        assert_eq!((&shown["device"], &shown["line_bps"]), (&DEVICE.into(), &1_000_000_000.into()));
        assert_eq!(
            (&shown["overhead_bytes"], &shown["max_gap_bytes"]),
            (&24.into(), &65536.into())
        );
        assert_eq!(shown["max_frame_bytes"], 1538, "what the MTU allows");
        let rules = shown["rules"].as_array().expect("a list");
        assert_eq!((&shown["by"], &shown["single_segments"]), (&"gap".into(), &true.into()));
        assert_eq!(rules[0]["rate_bps"], 100_000_000);
        assert_eq!(rules[0]["destination"], "10.9.0.0/16");
        assert_eq!(
            (&rules[0]["destination_port"], &rules[0]["source_port"]),
            (&9000.into(), &Value::Null)
        );
        assert_eq!((&rules[1]["rule"], &rules[1]["estimator"]), (&2.into(), &"paper".into()));
        assert_eq!(
            (&rules[1]["max_rate_bps"], &rules[1]["source_port"]),
            (&500_000_000.into(), &80.into())
        );
        assert_eq!((&rules[0]["find_cap"], &rules[1]["find_cap"]), (&Value::Null, &true.into()));

        // 1066 bytes of the link, nine times that in gaps: six frames of 1538 bytes, one of 282, one of 84.
        assert_eq!(frames_for_a_datagram(), 1 + 8);
        let document = json(&["pace", "show", DEVICE, "--json"]);
        let shown = &document["devices"][0];
        assert_eq!((&shown["paced_packets"], &shown["paced_bytes"]), (&1.into(), &1066.into()));
        assert_eq!((&shown["gap_frames"], &shown["gap_bytes"]), (&8.into(), &(9 * 1066).into()));
        let sender = &shown["senders"][0];
        assert_eq!((&sender["rule"], &sender["protocol"]), (&1.into(), &"udp".into()));
        assert_eq!(
            (&sender["target_bps"], &sender["achieved_bps"]),
            (&100_000_000.into(), &Value::Null)
        );
        assert_eq!(sender["destination"], "10.9.0.2:9000");
        let text = done(&["pace", "show"]);
        for part in [
            "pace0: gap packets, line 1gbit",
            "rule 1: 100mbit dst 10.9.0.0/16 dport 9000",
            "by paper, at most 500mbit, at most what its path carries sport 80",
            "gaps 8 frames, 9594 bytes",
            "10.9.0.2:9000",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }

        let (code, said) = refused(&["pace", "del", DEVICE, "3"]);
        assert!(code == 2 && said.contains("no rule 3"), "{code} {said}");
        done(&["pace", "del", DEVICE, "1"]);
        assert_eq!(frames_for_a_datagram(), 1);
        assert_eq!(gso_max_segs(), 1, "there is another rule");
        assert_eq!(done(&ADD), "3\n", "a number isn't used again while there are later ones");
        done(&["pace", "del", DEVICE]);
        assert_eq!((gso_max_segs(), frames_for_a_datagram(), pins().len()), (17, 1, 0));
        let (code, said) = refused(&["pace", "del", DEVICE]);
        assert!(code == 1 && said.contains("nothing is paced on pace0"), "{code} {said}");
        assert_eq!(json(&["pace", "show", "--json"])["devices"], Value::Array(Vec::new()));
    });
}

#[test]
fn unpaceable_device_is_refused_and_left_unchanged() {
    with_device(|| {
        ip(&["link", "add", "many", "numtxqueues", "2", "type", "veth", "peer", "name", "many1"]);
        ip(&["link", "add", "slow", "type", "veth", "peer", "name", "slow1", "numtxqueues", "1"]);
        ip(&["link", "add", "shared", "type", "ifb"]);
        let htb = ["qdisc", "add", "dev", "slow1", "root", "handle", "1:", "htb"];
        assert!(Command::new("tc").args(htb).status().expect("iproute2").success());
        let line = &["--line", "1gbit"][..];
        for (device, more, code, expected) in [
            ("moon0", line, 2, "no device moon0"),
            ("lo", line, 2, "no Ethernet device (loopback)"),
            ("shared", &[], 2, "--line 1gbit"),
            ("many", line, 3, "ethtool -L many combined 1"),
            ("slow1", line, 3, "tc qdisc replace dev slow1 root pfifo"),
            (DEVICE, &["--line", "99mbit"], 2, "100mbit is more than the link has, 99mbit"),
            (DEVICE, &["--line", "100gbit"], 2, "--max-gap"),
            (DEVICE, &["--line", "1gbit", "--max-gap", "10"], 2, "the longest gap takes 84 to"),
            (DEVICE, &["--line", "1gbit", "--max-frame", "100"], 2, "168 to 9000"),
            (DEVICE, &["--line", "1gbit", "--overhead", "2000"], 2, "at most 1000"),
            (DEVICE, &["--line", "1gbit", "--auto"], 2, "cannot be used with"),
            (DEVICE, &["--line", "1gbit", "--max-rate", "1mbit"], 2, "cannot be used with"),
            (DEVICE, &["--line", "1gbit", "--match", "dport"], 2, "--match dport: expected"),
            (DEVICE, &["--line", "1gbit", "--match", "dport", "0"], 2, "--match dport 0: expected"),
            (
                DEVICE,
                &["--line", "1gbit", "--match", "dst", "moon"],
                2,
                "--match dst moon: expected",
            ),
            (DEVICE, &["--line", "1gbit", "--match", "port", "80"], 2, "--match port 80: expected"),
            (DEVICE, &["--line", "fast"], 2, "--line"),
        ] {
            let (ended, said) =
                refused(&[&["pace", "add", device, "--rate", "100mbit"][..], more].concat());
            assert_eq!(ended, code, "{device} {more:?}: {said}");
            assert!(said.contains(expected), "{device} {more:?}: {expected} is missing: {said}");
            assert!(!is_paced(), "{device} {more:?}");
        }
        let (code, said) = refused(&["pace", "add", DEVICE]);
        assert!(code == 2 && said.contains("--auto"), "{code} {said}");
        for wrong in [&["pace", "show", "moon0"][..], &["pace", "show", DEVICE]] {
            let (code, said) = refused(wrong);
            assert!(code == 1 && said.contains("nothing is paced on"), "{code} {said}");
        }
        for number in 1..=16 {
            assert_eq!(done(&ADD), format!("{number}\n"));
        }
        let (code, said) = refused(&ADD);
        assert!(code == 2 && said.contains("16 rules"), "{code} {said}");
        let (code, said) = refused(&["pace", "add", DEVICE, "--auto", "--line", "50mbit"]);
        assert!(code == 2, "{code} {said}");
        let (code, said) = refused(&[&ADD[..], &["--by", "edt"]].concat());
        assert!(code == 2 && said.contains("paced by gap packets already"), "{code} {said}");
        assert!(is_paced(), "a refusal changes nothing");
        done(&["pace", "del", DEVICE]);
        assert!(!is_paced());
    });
}

const BY_TIMES: [&str; 7] = ["pace", "add", DEVICE, "--rate", "100mbit", "--by", "edt"];

/// Paces by departure times, and deletes that, if the kernel has fq. Otherwise the command reports that fq is missing.
#[test]
fn departure_times_take_fq_and_leave_the_device_as_it_was() {
    with_device(|| {
        let wrong = ["pace", "add", DEVICE, "--rate", "100mbit", "--super-packets"];
        let (code, said) = refused(&wrong);
        assert!(code == 2 && said.contains("add --by edt"), "{code} {said}");
        let has_fq = pace::lacking(Method::EDT, None).is_none();
        let lack =
            if has_fq { "tc qdisc replace dev pace0 root fq" } else { "this kernel has no fq" };
        let (code, said) = refused(&BY_TIMES);
        assert!(code == 3 && said.contains(lack), "{code} {said}");
        assert!(!is_paced());
        if has_fq {
            tc(&["qdisc", "replace", "dev", DEVICE, "root", "fq"]);
            by_departure_times();
            tc(&["qdisc", "del", "dev", DEVICE, "root"]);
            assert!(!is_paced());
        }
    });
}

fn tc(arguments: &[&str]) {
    let status = Command::new("tc").args(arguments).status().expect("iproute2");
    assert!(status.success(), "tc {arguments:?}: {status}");
}

fn by_departure_times() {
    for (more, expected) in [
        (&["--max-gap", "1MB"][..], "no gap frames"),
        (&["--line", "99mbit"], "100mbit is more than the link has, 99mbit"),
    ] {
        let (code, said) = refused(&[&BY_TIMES[..], more].concat());
        assert!(code == 2 && said.contains(expected), "{more:?}: {code} {said}");
        assert_eq!((pins().len(), gso_max_segs()), (0, 65_535), "{more:?}");
    }
    assert_eq!(done(&BY_TIMES), "1\n");
    // As the device is paced already, without saying how.
    assert_eq!(done(&["pace", "add", DEVICE, "--auto", "--match", "dport", "80"]), "2\n");
    assert_eq!((pins().len(), gso_max_segs(), frames_for_a_datagram()), (5, 1, 1));
    for other in [&ADD[..], &BY_TIMES] {
        let way = if other == BY_TIMES { &["--super-packets"][..] } else { &["--by", "gap"] };
        let (code, said) = refused(&[other, way].concat());
        assert!(code == 2 && said.contains("paced by departure times already"), "{code} {said}");
    }
    let document = json(&["pace", "show", DEVICE, "--json"]);
    let shown = &document["devices"][0];
    assert_eq!((&shown["by"], &shown["single_segments"]), (&"edt".into(), &true.into()));
    assert_eq!((&shown["max_gap_bytes"], &shown["gap_frames"]), (&Value::Null, &0.into()));
    assert_eq!((&shown["paced_packets"], &shown["paced_bytes"]), (&1.into(), &1066.into()));
    assert_eq!(shown["beyond_horizon_packets"], 0);
    assert_eq!(shown["senders"][0]["target_bps"], 100_000_000);
    let text = done(&["pace", "show"]);
    assert!(text.contains("pace0: departure times, ") && !text.contains("gap"), "{text}");
    assert!(!text.contains("not kept") && shown["lacks"].is_null(), "{text} {shown}");
    tc(&["qdisc", "replace", "dev", DEVICE, "root", "pfifo"]);
    let text = done(&["pace", "show"]);
    assert!(text.contains("not in force: pace0 has the queueing discipline pfifo"), "{text}");
    tc(&["qdisc", "replace", "dev", DEVICE, "root", "fq"]);
    done(&["pace", "del", DEVICE]);
    assert_eq!((pins().len(), gso_max_segs(), frames_for_a_datagram()), (0, 65_535, 1));
    assert_eq!(done(&[&BY_TIMES[..], &["--super-packets"]].concat()), "1\n");
    assert_eq!((pins().len(), gso_max_segs()), (5, 65_535));
    let shown = json(&["pace", "show", DEVICE, "--json"]);
    assert_eq!(shown["devices"][0]["single_segments"], false);
    // A value that another program sets meanwhile stays.
    ip(&["link", "set", DEVICE, "gso_max_segs", "1"]);
    done(&["pace", "del", DEVICE]);
    assert_eq!((pins().len(), gso_max_segs()), (0, 1));
    ip(&["link", "set", DEVICE, "gso_max_segs", "65535"]);
}

#[test]
fn recreated_device_is_not_paced() {
    with_device(|| {
        done(&ADD);
        assert!(is_paced());
        ip(&["link", "del", DEVICE]);
        assert_eq!(pins().len(), 5, "no command has looked yet");
        make_device();
        assert_eq!(json(&["pace", "show", "--json"])["devices"], Value::Array(Vec::new()));
        assert!(!is_paced());
        done(&ADD);
        assert!(is_paced());
    });
}

fn start(arguments: &[&str]) -> Child {
    let mut command = longhaul();
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the binary that cargo built")
}

/// Random times. A failure prints their seed, with which they can be repeated.
struct Times(u64);

impl Times {
    fn new() -> Self {
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).expect("random");
        let seed = u64::from_ne_bytes(seed);
        println!("seed {seed}");
        Self(seed)
    }

    fn next(&mut self, most: Duration) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        most.mul_f64((self.0 >> 40) as f64 / (1u64 << 24) as f64)
    }
}

/// How long a change takes here, twice.
fn long_enough() -> Duration {
    let started = std::time::Instant::now();
    done(&ADD);
    done(&["pace", "del", DEVICE]);
    started.elapsed()
}

#[test]
fn change_killed_at_any_moment_is_complete_or_absent() {
    with_device(|| {
        let (mut times, most) = (Times::new(), long_enough());
        let mut became = [0, 0];
        for _ in 0..25 {
            for (command, paced) in [(&ADD[..], true), (&["pace", "del", DEVICE], false)] {
                if is_paced() == paced {
                    continue;
                }
                let mut child = start(command);
                thread::sleep(times.next(most / 2));
                child.kill().expect("it is ours");
                child.wait().expect("it is ours");
                let line = format!("{} --apart", command.join(" "));
                until("the change ends", || processes_with(&line).is_empty());
                became[usize::from(is_paced())] += 1;
            }
        }
        println!("paced after {} of these, not paced after {}", became[1], became[0]);
    });
}

/// The child that makes the change is killed too, which takes a deliberate search for it. The next command removes its
/// leftovers.
#[test]
fn leftovers_of_a_killed_change_are_removed_by_the_next() {
    with_device(|| {
        let (mut times, most) = (Times::new(), long_enough());
        for _ in 0..25 {
            for (command, paced) in [(&ADD[..], true), (&["pace", "del", DEVICE], false)] {
                if is_paced() == paced {
                    continue;
                }
                let mut child = start(&[command, &["--apart"]].concat());
                thread::sleep(times.next(most / 2));
                child.kill().expect("it is ours");
                child.wait().expect("it is ours");
                let shown = call(&["pace", "show", "--json"]);
                assert!(shown.status.success(), "{shown:?}");
                let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
                let shown = shown["devices"].as_array().expect("a list").len();
                assert_eq!(shown == 1, is_paced());
            }
        }
    });
}

#[test]
fn no_file_system_is_left_mounted_after_the_last() {
    with_device(|| {
        done(&ADD);
        done(&["pace", "del", DEVICE]);
        assert!(!Path::new("/run/longhaul/bpf").exists());
    });
}
