// SPDX-License-Identifier: GPL-2.0-or-later
//! Each rule with facts made up for it, and their silence on a tuned host.

#[path = "../../tests/doctor/tuned.rs"]
mod tuned_settings;

use super::{all, find};
use crate::{
    Target,
    facts::{
        Device, Discipline, Facts, KernelVersion, Memory, Path, Route, Socket,
        path::{Burst, Sent},
    },
    finding::{Finding, Remedy},
};
use std::collections::BTreeSet;

/// Settings that a machine has once, and those that not every kernel has in a namespace.
const OF_MACHINE: [(&str, &str); 11] = [
    ("net.core.rmem_max", "67108864"),
    ("net.core.wmem_max", "67108864"),
    ("net.core.netdev_max_backlog", "1000"),
    ("net.ipv4.tcp_adv_win_scale", "1"),
    ("net.ipv4.tcp_allowed_congestion_control", "reno cubic"),
    ("net.ipv4.tcp_available_congestion_control", "reno cubic bbr"),
    ("net.ipv4.tcp_congestion_control", "cubic"),
    ("net.ipv4.tcp_mem", "287898 383866 575796"),
    ("net.ipv4.tcp_no_metrics_save", "0"),
    ("net.netfilter.nf_conntrack_count", "7"),
    ("net.netfilter.nf_conntrack_max", "262144"),
];

/// A host on which nothing is wrong for a gigabit over 90 ms.
pub fn tuned() -> Facts {
    let mut facts = Facts::default();
    for (key, value) in tuned_settings::OF_NAMESPACE.into_iter().chain(OF_MACHINE) {
        set(&mut facts, key, value);
    }
    facts.host.kernel = Some(KernelVersion::new(6, 18, 0));
    facts.host.route = Some(Route { text: "default via 10.0.0.1 dev v0".to_owned() });
    facts.host.memory = Some(Memory { held_bytes: 1 << 20, begins_bytes: 383_866 << 12 });
    facts.host.processors = 8;
    facts.host.governor = Some("performance".to_owned());
    facts.host.backlog_drops = Some(0);
    facts.host.device = Some(Device {
        name: "v0".to_owned(),
        is_ethernet: true,
        mtu: 1500,
        line_rate_bps: Some(10_000_000_000),
        queue_length: Some(1000),
        segments_per_packet: 65_535,
        discipline: Discipline { is_default: true, ..Discipline::default() },
        offloads: ["rx", "tx", "sg", "tso", "gso", "gro"]
            .map(|name| (name.to_owned(), true))
            .into(),
        receive_ring: Some((256, 4096)),
        transmit_ring: Some((256, 4096)),
        ..Device::default()
    });
    facts
}

/// Gives a setting a value.
pub fn set(facts: &mut Facts, key: &str, value: &str) {
    facts.host.settings.insert(key.to_owned(), value.to_owned());
}

fn kernel(facts: &mut Facts, major: u32, minor: u32, patch: u32) {
    facts.host.kernel = Some(KernelVersion::new(major, minor, patch));
}

fn device(facts: &mut Facts) -> &mut Device {
    facts.host.device.as_mut().unwrap()
}

/// A path of which a download at a few megabits a second has told much, and nothing bad.
fn path(facts: &mut Facts) -> &mut Path {
    let mut path = Path {
        peer: "10.0.0.2:80".to_owned(),
        handshake_rtt_us: 90_000,
        window_scaling: true,
        sack: true,
        timestamps: true,
        offered: [true; 3],
        receive_mss: 1448,
        segments: 100_000,
        loss: Some(0.0),
        ..Path::default()
    };
    path.shape.steady_bps = Some(900_000_000);
    path.shape.steady_rtt_us = 91_000;
    path.shape.is_even = true;
    facts.path.insert(path)
}

/// The same of an upload.
fn sent(facts: &mut Facts) -> &mut Sent {
    let sent = Sent {
        peer: "10.0.0.2:80".to_owned(),
        handshake_rtt_us: 90_000,
        segments: 100_000,
        loss: Some(0.0),
        ..Sent::default()
    };
    facts.sent.insert(sent)
}

fn at_rate(facts: &mut Facts, bps: u64, queued: bool, events: u32) {
    let path = path(facts);
    path.shape.steady_bps = Some(bps);
    path.shape.loss_events = events;
    path.rate_bps = Some(bps);
    path.shape.steady_rtt_us = if queued { 150_000 } else { 91_000 };
}

fn socket(facts: &mut Facts) -> &mut Socket {
    facts.sockets.push(Socket { pid: 7, program: "rsync".to_owned(), ..Socket::default() });
    facts.sockets.last_mut().unwrap()
}

type Plant = fn(&mut Facts);

/// Each rule with what plants its cause.
#[rustfmt::skip]
const PLANTED: [(&str, Plant); 65] = [
    ("window-scaling", |f| set(f, "net.ipv4.tcp_window_scaling", "0")),
    ("receive-autotuning", |f| set(f, "net.ipv4.tcp_moderate_rcvbuf", "0")),
    ("window-share", |f| { kernel(f, 6, 1, 0); set(f, "net.ipv4.tcp_adv_win_scale", "-3"); }),
    ("sack", |f| set(f, "net.ipv4.tcp_sack", "0")),
    ("timestamps", |f| set(f, "net.ipv4.tcp_timestamps", "0")),
    ("loss-detection", |f| set(f, "net.ipv4.tcp_recovery", "0")),
    ("tail-loss", |f| set(f, "net.ipv4.tcp_early_retrans", "0")),
    ("duplicate-sack", |f| set(f, "net.ipv4.tcp_dsack", "0")),
    ("false-timeout", |f| set(f, "net.ipv4.tcp_frto", "0")),
    ("reordering", |f| set(f, "net.ipv4.tcp_reordering", "127")),
    ("ecn", |f| set(f, "net.ipv4.tcp_ecn", "0")),
    ("mtu-discovery", |f| set(f, "net.ipv4.ip_no_pmtu_disc", "1")),
    ("mtu-always-probed", |f| set(f, "net.ipv4.tcp_mtu_probing", "2")),
    ("idle-restart", |f| set(f, "net.ipv4.tcp_slow_start_after_idle", "1")),
    ("remembered-metrics", |f| set(f, "net.ipv4.tcp_no_ssthresh_metrics_save", "0")),
    ("remembered-metrics-old", |f| kernel(f, 4, 19, 0)),
    ("output-limit", |f| set(f, "net.ipv4.tcp_limit_output_bytes", "4096")),
    ("unsent-limit", |f| set(f, "net.ipv4.tcp_notsent_lowat", "4096")),
    ("pacing-ratio", |f| set(f, "net.ipv4.tcp_pacing_ca_ratio", "50")),
    ("pacing-start", |f| set(f, "net.ipv4.tcp_pacing_ss_ratio", "100")),
    ("low-latency", |f| set(f, "net.ipv4.tcp_low_latency", "1")),
    ("receive-buffer", |f| set(f, "net.ipv4.tcp_rmem", "4096 131072 6291456")),
    ("send-buffer", |f| set(f, "net.ipv4.tcp_wmem", "4096 16384 4194304")),
    ("fixed-receive-buffer", |f| set(f, "net.core.rmem_max", "212992")),
    ("fixed-send-buffer", |f| set(f, "net.core.wmem_max", "212992")),
    ("memory", |f| f.host.memory = Some(Memory { held_bytes: 383_866 << 12, begins_bytes: 383_866 << 12 })),
    ("first-receive-buffer", |f| { kernel(f, 5, 9, 15); device(f).mtu = 9000; set(f, "net.ipv4.tcp_mtu_probing", "1"); }),
    ("slow-autotuning", |f| kernel(f, 6, 17, 9)),
    ("backlog", |f| f.host.backlog_drops = Some(12)),
    ("connection-tracking", |f| set(f, "net.netfilter.nf_conntrack_count", "262000")),
    ("congestion-control", |f| set(f, "net.ipv4.tcp_congestion_control", "reno")),
    ("congestion-control", |f| f.host.route = Some(Route { text: "default dev v0 congctl reno".to_owned() })),
    ("loss-and-window", |_| {}),
    ("unpaced-bbr", |f| { kernel(f, 4, 9, 0); set(f, "net.ipv4.tcp_no_metrics_save", "1"); set(f, "net.ipv4.tcp_congestion_control", "bbr"); }),
    ("remembered-threshold", |f| { f.host.remembered_ssthresh = Some(20); f.host.settings.remove("net.ipv4.tcp_no_ssthresh_metrics_save"); }),
    ("line-rate", |f| device(f).line_rate_bps = Some(100_000_000)),
    ("half-duplex", |f| device(f).is_half_duplex = true),
    ("small-mtu", |f| device(f).mtu = 576),
    ("large-mtu", |f| device(f).mtu = 9000),
    ("shaper", |f| device(f).discipline = Discipline::parse("qdisc tbf 1: root rate 100Mbit burst 32Kb lat 50ms").unwrap()),
    ("shaper", |f| device(f).discipline = Discipline::parse("qdisc fq 1: root limit 10000p maxrate 50Mbit").unwrap()),
    ("emulated-path", |f| device(f).discipline = Discipline::parse("qdisc netem 1: root limit 1000 delay 50ms").unwrap()),
    ("short-queue", |f| device(f).discipline = Discipline::parse("qdisc pfifo 1: root limit 5p").unwrap()),
    ("short-queue", |f| { device(f).queue_length = Some(2); device(f).discipline.kind = "pfifo_fast".to_owned(); }),
    ("segmentation-offload", |f| { device(f).offloads.insert("tso".to_owned(), false); }),
    ("segmentation-offload", |f| { device(f).offloads.insert("gso".to_owned(), false); }),
    ("receive-offload", |f| { device(f).offloads.insert("gro".to_owned(), false); }),
    ("checksum-offload", |f| { device(f).offloads.insert("tx".to_owned(), false); }),
    ("single-segments", |f| device(f).segments_per_packet = 1),
    ("receive-ring", |f| device(f).receive_drops = 3),
    ("route-window", |f| f.host.route = Some(Route { text: "default dev v0 window 65536".to_owned() })),
    ("route-cwnd", |f| f.host.route = Some(Route { text: "default dev v0 cwnd lock 20".to_owned() })),
    ("route-initcwnd", |f| f.host.route = Some(Route { text: "default dev v0 initcwnd 1".to_owned() })),
    ("route-mtu", |f| f.host.route = Some(Route { text: "default dev v0 mtu 600".to_owned() })),
    ("route-advmss", |f| f.host.route = Some(Route { text: "default dev v0 advmss 536".to_owned() })),
    ("program-receive-buffer", |f| { let s = socket(f); s.sets_receive_buffer = true; s.receive_buffer_bytes = 425_984; }),
    ("program-send-buffer", |f| { let s = socket(f); s.sets_send_buffer = true; s.send_buffer_bytes = 425_984; }),
    ("program-processor", |f| socket(f).busiest_thread = 0.99),
    ("program-disk", |f| socket(f).disk_wait = 0.8),
    ("path-black-hole", |f| path(f).small_segments_pass = Some(true)),
    ("path-window-scaling", |f| { let p = path(f); p.window_scaling = false; p.is_unscaled = true; }),
    ("path-sack", |f| path(f).sack = false),
    ("path-loss", |f| { let p = path(f); p.loss = Some(1e-4); p.shape.loss_events = 10; p.shape.is_even = false; }),
    ("path-rate", |f| at_rate(f, 50_000_000, true, 0)),
    ("peer-window", |f| path(f).peer_window_bytes = Some(1_000_000)),
];

/// Those whose facts need more words.
#[rustfmt::skip]
const PLANTED_TOO: [(&str, Plant); 10] = [
    ("largest-window", |f| { set(f, "net.ipv4.tcp_rmem", "4096 131072 2147483647"); set(f, "net.ipv4.tcp_wmem", "4096 16384 2147483647"); set(f, "net.core.rmem_max", "2147483647"); set(f, "net.core.wmem_max", "2147483647"); f.host.memory = None; device(f).line_rate_bps = None; }),
    ("sent-loss", |f| { let s = sent(f); s.loss = Some(1e-4); s.shape.loss_events = 10; }),
    ("sent-rate", |f| { let s = sent(f); s.rate_bps = Some(50_000_000); s.shape.steady_rtt_us = 150_000; }),
    ("acknowledgements", |_| {}),
    ("path-bursts", |f| { let p = path(f); p.loss = Some(1e-4); p.shape.loss_events = 10; p.burst = Some(Burst { link_bps: 1_000_000_000, window_bytes: 60_000, least_segments: 70, most_segments: 70 }); }),
    ("path-timestamps", |f| path(f).timestamps = false),
    ("path-packets", |f| { let p = path(f); p.receive_mss = 500; p.packet_bytes = Some(552); }),
    ("path-policer", |f| at_rate(f, 50_000_000, false, 20)),
    ("interrupts", |f| device(f).interrupt_processors = Some(1)),
    ("governor", |f| f.host.governor = Some("powersave".to_owned())),
];

fn target(id: &str) -> Target {
    let target: Target = "1gbit@90ms".parse().unwrap();
    match id {
        "loss-and-window" => Target { loss: "0.01%".parse().unwrap(), ..target },
        "acknowledgements" => "1gbit/10mbit@90ms".parse().unwrap(),
        "governor" | "interrupts" => "10gbit@1ms".parse().unwrap(),
        "largest-window" => "100gbit@90ms".parse().unwrap(),
        _ => target,
    }
}

#[test]
fn each_planted_cause_is_the_only_finding() {
    for (id, plant) in PLANTED.iter().chain(&PLANTED_TOO) {
        let mut facts = tuned();
        plant(&mut facts);
        let found = find(&facts, &target(id));
        let ids: Vec<_> = found.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, [*id]);
    }
}

#[test]
fn tuned_host_and_good_path_are_silent() {
    let mut facts = tuned();
    assert_eq!(find(&facts, &target("")), []);
    path(&mut facts);
    socket(&mut facts);
    assert_eq!(find(&facts, &target("")), []);
    assert_eq!(find(&Facts::default(), &target("")), [], "what is not known is not blamed");
}

#[test]
fn every_rule_has_a_planted_cause() {
    let planted: BTreeSet<_> = PLANTED.iter().chain(&PLANTED_TOO).map(|(id, _)| *id).collect();
    let rules: BTreeSet<_> = all().map(|rule| rule.id).collect();
    assert_eq!(planted, rules);
    assert_eq!(rules.len(), all().count(), "names are unique");
    assert!(all().all(|rule| !rule.about.is_empty() && !rule.source.is_empty()));
}

/// Settings of buffers are of C's `int`: the kernel refuses what does not fit (a 2 GB `tcp_rmem` became negative in
/// bpftune's issue 36).
#[test]
fn no_target_asks_for_more_than_the_kernel_takes() {
    for target in ["100gbit@300ms", "400gbit@600ms", "10tbit@2s"] {
        let mut facts = tuned();
        set(&mut facts, "net.core.rmem_max", "212992");
        set(&mut facts, "net.core.wmem_max", "212992");
        let target: Target = target.parse().unwrap();
        let found = find(&facts, &target);
        let ids: Vec<_> = found.iter().map(|finding| finding.id).collect();
        for id in ["receive-buffer", "send-buffer", "largest-window", "fixed-send-buffer"] {
            assert!(ids.contains(&id), "{id}: {ids:?}");
        }
        for change in found.iter().flat_map(Finding::changes) {
            let command = change.command();
            if command.contains("mem") && !command.contains("tcp_mem") {
                let values = command.split(|c: char| !c.is_ascii_digit());
                assert!(values.filter_map(|it| it.parse().ok()).all(|it: u64| it <= 0x7fff_ffff));
            }
        }
        // Once all is done, nothing of it is left but TCP's own limit.
        let fixed = found.iter().fold(facts, |facts, finding| finding.fixed(&facts));
        let left: Vec<_> = find(&fixed, &target).iter().map(|finding| finding.id).collect();
        assert!(!left.iter().any(|id| id.ends_with("-buffer")), "{left:?}");
        assert!(left.contains(&"largest-window"));
    }
}

/// Linux 5.10 repaired it, and 4.19.164, 5.4.85 and 5.9.16.
#[test]
fn first_receive_buffer_is_blamed_before_its_repair() {
    for (version, is_found) in [
        ((4, 19, 85), false),
        ((4, 19, 86), true),
        ((4, 19, 163), true),
        ((4, 19, 164), false),
        ((4, 20, 0), true),
        ((5, 4, 84), true),
        ((5, 4, 85), false),
        ((5, 9, 15), true),
        ((5, 9, 16), false),
        ((5, 10, 0), false),
    ] {
        let mut facts = tuned();
        kernel(&mut facts, version.0, version.1, version.2);
        device(&mut facts).mtu = 9000;
        let found = find(&facts, &target(""));
        let ids: Vec<_> = found.iter().map(|finding| finding.id).collect();
        assert_eq!(ids.contains(&"first-receive-buffer"), is_found, "{version:?}: {ids:?}");
    }
}

/// The remedy leaves nothing to find, and its inverse leaves the facts as they were.
#[test]
fn remedies_help_and_their_inverses_restore() {
    for (id, plant) in PLANTED.iter().chain(&PLANTED_TOO) {
        let mut facts = tuned();
        plant(&mut facts);
        let found = find(&facts, &target(id)).remove(0);
        let Remedy::Changes(changes) = &found.remedy else { continue };
        let inverses: Option<Vec<_>> =
            changes.iter().map(|change| change.inverse(&facts)).collect();
        let mut fixed = found.fixed(&facts);
        for inverse in inverses.unwrap_or_else(|| panic!("{id} cannot be taken back")) {
            inverse.apply(&mut fixed);
        }
        assert_eq!(fixed, facts, "{id}");
        // Counters stay, and what was remembered, too.
        let stays = ["backlog", "remembered-threshold"];
        let left = find(&found.fixed(&facts), &target(id));
        assert!(left.is_empty() || stays.contains(id), "{id}: {left:?}");
    }
}

/// The page lists each rule with its source.
#[test]
fn page_lists_every_rule() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/doctor.md");
    let page = std::fs::read_to_string(path).unwrap();
    for rule in all() {
        let row = format!("| `{}` | {} | {} |", rule.id, rule.about, rule.source);
        assert!(page.contains(&row), "docs/doctor.md lacks this row:\n{row}");
    }
}
