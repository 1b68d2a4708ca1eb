// SPDX-License-Identifier: GPL-2.0-or-later
//! A network namespace with a tuned host in it: a veth pair `v0`, `v1` whose second end is nobody's, and a default route.

use host::{Namespace, iproute, sysctl};
use longhaul_doctor::{
    Target,
    facts::{Facts, Host},
};
use std::io;

/// What each test is for.
pub fn target() -> Target {
    "1gbit@90ms".parse().unwrap()
}

/// Settings of a host that reaches the target. Those that this kernel does not have are left out.
const TUNED: [(&str, &str); 22] = [
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
    ("net.ipv6.conf.all.disable_ipv6", "1"),
];

/// Runs a test in a namespace of its own with a tuned host.
pub fn tuned<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    let namespace = Namespace::new().expect("root");
    let ran = namespace.run(|| {
        for (key, value) in TUNED {
            if sysctl::read(key).is_ok() {
                sysctl::write(key, value).unwrap_or_else(|error| panic!("{key}: {error}"));
            }
        }
        ip("link add v0 type veth peer name v1");
        ip("address add 10.9.0.1/24 dev v0");
        ip("link set lo up");
        ip("link set v0 up");
        ip("link set v1 up");
        ip("route add default via 10.9.0.2 dev v0");
        Ok(test())
    });
    ran.expect("a thread in the namespace")
}

/// Runs `ip` with these words.
pub fn ip(words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    iproute::ip(&words).unwrap_or_else(|error| panic!("{error}"));
}

/// Runs `tc` with these words.
pub fn tc(words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    iproute::tc(&words).unwrap_or_else(|error| panic!("{error}"));
}

/// Gives a setting of this namespace a value.
pub fn set(key: &str, value: &str) {
    let written: io::Result<()> = sysctl::write(key, value);
    written.unwrap_or_else(|error| panic!("{key}: {error}"));
}

/// The facts of the calling thread's namespace.
pub fn facts() -> Facts {
    Facts { host: Host::gather(None), ..Facts::default() }
}
