// SPDX-License-Identifier: GPL-2.0-or-later
//! Misconfigurations planted in a namespace: each is found and ranked first, its fix helps, and its undo leaves all as it
//! was.

use crate::site::{facts, ip, set, target, tc, tuned};
use host::ethtool::{self, Offload};
use longhaul_doctor::{
    diagnosis::{Ranked, diagnose},
    facts::Facts,
};

/// What is the machine's and not a namespace's, and need not be tuned there.
const OF_MACHINE: [&str; 7] = [
    "fixed-receive-buffer",
    "fixed-send-buffer",
    "memory",
    "backlog",
    "connection-tracking",
    "slow-autotuning",
    "governor",
];

fn found(facts: &Facts) -> Vec<Ranked> {
    let mut findings = diagnose(facts, &target()).findings;
    findings.retain(|ranked| !OF_MACHINE.contains(&ranked.finding.id));
    findings
}

fn off(offload: Offload) {
    ethtool::set_offload("v0", offload, false)
        .unwrap_or_else(|error| panic!("{offload:?}: {error}"));
}

/// A cause by the id of its rule.
type Cause = (&'static str, fn());

const ROUTE: &str = "route replace default via 10.9.0.2 dev v0";

fn route(metric: &str) {
    ip(&format!("{ROUTE} {metric}"));
}

#[rustfmt::skip]
const CAUSES: [Cause; 36] = [
    ("window-scaling", || set("net.ipv4.tcp_window_scaling", "0")),
    ("receive-autotuning", || set("net.ipv4.tcp_moderate_rcvbuf", "0")),
    ("receive-buffer", || set("net.ipv4.tcp_rmem", "4096 131072 6291456")),
    ("receive-buffer", || set("net.ipv4.tcp_rmem", "4096 131072 8388608")),
    ("send-buffer", || set("net.ipv4.tcp_wmem", "4096 16384 4194304")),
    ("sack", || set("net.ipv4.tcp_sack", "0")),
    ("timestamps", || set("net.ipv4.tcp_timestamps", "0")),
    ("loss-detection", || set("net.ipv4.tcp_recovery", "0")),
    ("tail-loss", || set("net.ipv4.tcp_early_retrans", "0")),
    ("duplicate-sack", || set("net.ipv4.tcp_dsack", "0")),
    ("false-timeout", || set("net.ipv4.tcp_frto", "0")),
    ("reordering", || set("net.ipv4.tcp_reordering", "127")),
    ("ecn", || set("net.ipv4.tcp_ecn", "0")),
    ("mtu-discovery", || set("net.ipv4.ip_no_pmtu_disc", "1")),
    ("mtu-always-probed", || set("net.ipv4.tcp_mtu_probing", "2")),
    ("idle-restart", || set("net.ipv4.tcp_slow_start_after_idle", "1")),
    ("remembered-metrics", || set("net.ipv4.tcp_no_ssthresh_metrics_save", "0")),
    ("output-limit", || set("net.ipv4.tcp_limit_output_bytes", "4096")),
    ("unsent-limit", || set("net.ipv4.tcp_notsent_lowat", "4096")),
    ("pacing-ratio", || set("net.ipv4.tcp_pacing_ca_ratio", "50")),
    ("pacing-start", || set("net.ipv4.tcp_pacing_ss_ratio", "100")),
    ("congestion-control", || set("net.ipv4.tcp_congestion_control", "reno")),
    ("small-mtu", || ip("link set dev v0 mtu 576")),
    ("large-mtu", || ip("link set dev v0 mtu 9000")),
    ("shaper", || tc("qdisc add dev v0 root tbf rate 100mbit burst 32kb latency 50ms")),
    ("short-queue", || tc("qdisc add dev v0 root pfifo limit 5")),
    ("short-queue", || { ip("link set dev v0 txqueuelen 2"); tc("qdisc add dev v0 root pfifo_fast"); }),
    ("segmentation-offload", || off(Offload::TcpSegmentation)),
    ("segmentation-offload", || off(Offload::GenericSegmentation)),
    ("checksum-offload", || off(Offload::TransmitChecksum)),
    ("single-segments", || ip("link set dev v0 gso_max_segs 1")),
    ("route-window", || route("window 65536")),
    ("route-cwnd", || route("cwnd lock 20")),
    ("route-initcwnd", || route("initcwnd 1")),
    ("route-mtu", || route("mtu 600")),
    ("route-advmss", || route("advmss 536")),
];

/// What a cause can change of a host, without what counts on by itself or others change.
fn shape(facts: &Facts) -> String {
    let mut facts = facts.clone();
    (facts.host.memory, facts.host.backlog_drops) = (None, None);
    // All namespaces share the list of congestion controls, and another test may load one meanwhile.
    for key in ["nf_conntrack_count", "available_congestion_control", "allowed_congestion_control"]
    {
        facts.host.settings.retain(|name, _| !name.ends_with(key));
    }
    if let Some(device) = &mut facts.host.device {
        device.receive_drops = 0;
    }
    serde_json::to_string_pretty(&facts).unwrap()
}

#[test]
fn tuned_namespace_is_silent() {
    tuned(|| {
        let facts = facts();
        assert_eq!(facts.host.device.as_ref().map(|device| device.name.as_str()), Some("v0"));
        assert_eq!(found(&facts), []);
    });
}

#[test]
fn each_planted_cause_is_found_first_and_fixed() {
    for (id, plant) in CAUSES {
        tuned(|| {
            let before = facts();
            plant();
            let planted = facts();
            assert_ne!(shape(&planted), shape(&before), "{id} is planted");
            let findings = found(&planted);
            let first = findings.first().unwrap_or_else(|| panic!("{id}: nothing is found"));
            assert_eq!(first.finding.id, id, "{findings:#?}");
            let changes = first.finding.changes();
            let undo = first.undo.as_ref().unwrap_or_else(|| panic!("{id}: no undo"));
            for change in changes {
                change.make().unwrap_or_else(|error| panic!("{}: {error}", change.command()));
                assert_eq!(change.holds(), Some(true), "{}", change.command());
            }
            let left = found(&facts());
            assert!(left.iter().all(|ranked| ranked.finding.id != id), "{id} is still there");
            for change in undo {
                change.make().unwrap_or_else(|error| panic!("{}: {error}", change.command()));
            }
            assert_eq!(shape(&facts()), shape(&planted), "{id} is taken back");
        });
    }
}

/// The commands that are printed do the same as the fix.
#[test]
fn printed_commands_fix_by_hand() {
    for (id, plant) in CAUSES {
        tuned(|| {
            plant();
            let findings = found(&facts());
            for change in findings[0].finding.changes() {
                let command = change.command();
                // ethtool(8) is not needed by longhaul, so it need not be installed.
                if command.starts_with("ethtool") {
                    return;
                }
                let ran = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
                let said = String::from_utf8_lossy(&ran.stderr);
                assert!(ran.status.success(), "{command}: {said}");
                assert_eq!(change.holds(), Some(true), "{id}: {command}");
            }
        });
    }
}
