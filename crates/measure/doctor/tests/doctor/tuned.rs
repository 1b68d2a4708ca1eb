// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings of a host on which nothing is wrong for a gigabit over 90 ms: those of the namespaces that tests make, and, with
//! the machine's own, those of the made-up facts in `src/rules/tests.rs`, which has this file as a module, too.

/// Settings that each network namespace has.
pub const OF_NAMESPACE: [(&str, &str); 21] = [
    ("net.ipv4.ip_no_pmtu_disc", "0"),
    ("net.ipv4.tcp_dsack", "1"),
    ("net.ipv4.tcp_early_retrans", "3"),
    ("net.ipv4.tcp_ecn", "2"),
    ("net.ipv4.tcp_frto", "2"),
    ("net.ipv4.tcp_limit_output_bytes", "4194304"),
    ("net.ipv4.tcp_low_latency", "0"),
    ("net.ipv4.tcp_moderate_rcvbuf", "1"),
    ("net.ipv4.tcp_mtu_probing", "0"),
    ("net.ipv4.tcp_no_ssthresh_metrics_save", "1"),
    ("net.ipv4.tcp_notsent_lowat", "4294967295"),
    ("net.ipv4.tcp_pacing_ca_ratio", "120"),
    ("net.ipv4.tcp_pacing_ss_ratio", "200"),
    ("net.ipv4.tcp_recovery", "1"),
    ("net.ipv4.tcp_reordering", "3"),
    ("net.ipv4.tcp_rmem", "4096 131072 67108864"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_window_scaling", "1"),
    ("net.ipv4.tcp_wmem", "4096 16384 67108864"),
];
