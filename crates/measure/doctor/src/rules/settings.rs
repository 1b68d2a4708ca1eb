// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings of one number that are wrong by themselves: switched off by folklore, or out of their range.

use crate::{
    facts::KernelVersion,
    finding::{Direction, Gain, Scope},
    rule::{Check, Rule, SettingRule},
};

const ANY: (KernelVersion, KernelVersion) =
    (KernelVersion::new(0, 0, 0), KernelVersion::new(u32::MAX, 0, 0));
/// The setting of its own for remembered thresholds is from Linux 5.6.
const BEFORE_5_6: (KernelVersion, KernelVersion) =
    (KernelVersion::new(0, 0, 0), KernelVersion::new(5, 6, 0));
/// `tcp_adv_win_scale` has no effect from Linux 6.6 on.
const BEFORE_6_6: (KernelVersion, KernelVersion) =
    (KernelVersion::new(0, 0, 0), KernelVersion::new(6, 6, 0));

const IP_SYSCTL: &str = "Linux, ip-sysctl.rst";
const NO_RECOVERY: Gain = Gain::NoForm("no closed form has this kind of recovery from losses");

/// The rules of the table.
pub fn rules() -> impl Iterator<Item = Rule> {
    SETTINGS.iter().map(|rule| Rule {
        id: rule.id,
        about: rule.key,
        source: rule.source,
        check: Check::Setting(rule),
    })
}

/// One of the table, for what is usual: no kernel in particular.
const fn rule(
    id: &'static str,
    key: &'static str,
    is_wrong: fn(i64) -> bool,
    right: i64,
) -> SettingRule {
    SettingRule {
        id,
        key,
        source: IP_SYSCTL,
        is_wrong,
        right,
        cause: "",
        direction: Direction::Both,
        scope: Scope::Always,
        gain: NO_RECOVERY,
        kernels: ANY,
    }
}

const fn is_zero(value: i64) -> bool {
    value == 0
}

const fn is_set(value: i64) -> bool {
    value != 0
}

static SETTINGS: [SettingRule; 21] = [
    SettingRule {
        source: "RFC 7323 section 2",
        cause: "window scaling is off: a connection has 65535 bytes under way at most",
        gain: Gain::Modelled,
        ..rule("window-scaling", "net.ipv4.tcp_window_scaling", is_zero, 1)
    },
    SettingRule {
        cause: "receive buffers are not tuned: they stay at the second figure of tcp_rmem",
        direction: Direction::Receive,
        gain: Gain::Modelled,
        ..rule("receive-autotuning", "net.ipv4.tcp_moderate_rcvbuf", is_zero, 1)
    },
    SettingRule {
        cause: "less than half of each receive buffer is window",
        direction: Direction::Receive,
        gain: Gain::Modelled,
        kernels: BEFORE_6_6,
        ..rule("window-share", "net.ipv4.tcp_adv_win_scale", |value| value < -1, 1)
    },
    SettingRule {
        source: "RFC 2018, RFC 6675",
        cause: "selective acknowledgements are off: each lost segment of a window takes a round trip of its own to repair",
        ..rule("sack", "net.ipv4.tcp_sack", is_zero, 1)
    },
    SettingRule {
        source: "RFC 7323 section 5",
        cause: "timestamps are off: the round trip is measured once a window, and sequence numbers are not protected where \
                they wrap, which takes 34 s at 1 Gb/s",
        gain: Gain::NoForm("the model takes round trips as known"),
        ..rule("timestamps", "net.ipv4.tcp_timestamps", is_zero, 1)
    },
    SettingRule {
        source: "RFC 8985",
        cause: "RACK is off: losses are found by duplicate acknowledgements alone, and lost retransmissions by timeouts",
        direction: Direction::Send,
        ..rule("loss-detection", "net.ipv4.tcp_recovery", |value| value & 1 == 0, 1)
    },
    SettingRule {
        source: "RFC 8985 section 7",
        cause: "tail loss probes are off: a loss at the end of a file waits for a timeout",
        direction: Direction::Send,
        scope: Scope::Sometimes,
        ..rule("tail-loss", "net.ipv4.tcp_early_retrans", is_zero, 3)
    },
    SettingRule {
        source: "RFC 2883",
        cause: "duplicate SACKs are off: a sender cannot take back a window that it cut for nothing",
        scope: Scope::Sometimes,
        ..rule("duplicate-sack", "net.ipv4.tcp_dsack", is_zero, 1)
    },
    SettingRule {
        source: "RFC 5682",
        cause: "F-RTO is off: a timeout that was too early sends a whole window again",
        direction: Direction::Send,
        scope: Scope::Sometimes,
        ..rule("false-timeout", "net.ipv4.tcp_frto", is_zero, 2)
    },
    SettingRule {
        cause: "losses are believed only after many later segments, which small windows do not have",
        direction: Direction::Send,
        scope: Scope::Sometimes,
        ..rule("reordering", "net.ipv4.tcp_reordering", |value| value > 10, 3)
    },
    SettingRule {
        source: "RFC 3168",
        cause: "ECN is refused: queues that could mark have to drop",
        scope: Scope::Sometimes,
        ..rule("ecn", "net.ipv4.tcp_ecn", is_zero, 2)
    },
    SettingRule {
        source: "RFC 1191",
        cause: "path MTU discovery is off: one small link makes segments of 512 bytes",
        scope: Scope::Sometimes,
        gain: Gain::NoForm("the path's MTU is not known"),
        ..rule("mtu-discovery", "net.ipv4.ip_no_pmtu_disc", is_set, 0)
    },
    SettingRule {
        source: "RFC 4821",
        cause: "each connection begins with small segments (tcp_base_mss) and probes for larger ones",
        direction: Direction::Send,
        gain: Gain::NoForm("no closed form has probes of the path's MTU"),
        ..rule("mtu-always-probed", "net.ipv4.tcp_mtu_probing", |value| value > 1, 1)
    },
    SettingRule {
        source: "RFC 2861",
        cause: "a connection that was idle for a timeout begins with a small window again (not with BBR)",
        direction: Direction::Send,
        scope: Scope::Sometimes,
        gain: Gain::NoForm("it depends on how a program pauses"),
        ..rule("idle-restart", "net.ipv4.tcp_slow_start_after_idle", is_set, 0)
    },
    SettingRule {
        cause: "a connection that lost packets ends the slow start of the next ones to the same peer early",
        direction: Direction::Send,
        scope: Scope::Sometimes,
        gain: Gain::NoForm("it depends on the connections before"),
        ..rule("remembered-metrics", "net.ipv4.tcp_no_ssthresh_metrics_save", is_zero, 1)
    },
    SettingRule {
        cause: "a connection that lost packets ends the slow start of the next ones to the same peer early",
        direction: Direction::Send,
        scope: Scope::Sometimes,
        gain: Gain::NoForm("it depends on the connections before"),
        kernels: BEFORE_5_6,
        ..rule("remembered-metrics-old", "net.ipv4.tcp_no_metrics_save", is_zero, 1)
    },
    SettingRule {
        cause: "TCP hands the device less at a time than a packet with segmentation offload holds",
        direction: Direction::Send,
        gain: Gain::NoForm("the model has no queue between TCP and the device"),
        ..rule(
            "output-limit",
            "net.ipv4.tcp_limit_output_bytes",
            |value| value < 131_072,
            1_048_576,
        )
    },
    SettingRule {
        cause: "a socket takes new data only when hardly any are left to send, so it runs dry",
        direction: Direction::Send,
        gain: Gain::NoForm("it depends on how fast a program answers"),
        ..rule("unsent-limit", "net.ipv4.tcp_notsent_lowat", |value| value < 65_536, 4_294_967_295)
    },
    SettingRule {
        cause: "a paced sender sends less than its window each round trip",
        direction: Direction::Send,
        scope: Scope::Sometimes,
        gain: Gain::NoForm("the model's senders are not paced"),
        ..rule("pacing-ratio", "net.ipv4.tcp_pacing_ca_ratio", |value| value < 100, 120)
    },
    SettingRule {
        cause: "a paced sender cannot double its window in a round trip of slow start",
        direction: Direction::Send,
        scope: Scope::Sometimes,
        gain: Gain::NoForm("the model's senders are not paced"),
        ..rule("pacing-start", "net.ipv4.tcp_pacing_ss_ratio", |value| value < 200, 200)
    },
    SettingRule {
        cause: "tcp_low_latency is an old recipe: it does nothing since Linux 4.14, and before it cost throughput",
        direction: Direction::Receive,
        scope: Scope::Sometimes,
        gain: Gain::NoForm("it does nothing since Linux 4.14"),
        ..rule("low-latency", "net.ipv4.tcp_low_latency", is_set, 0)
    },
];
