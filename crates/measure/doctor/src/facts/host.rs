// SPDX-License-Identifier: GPL-2.0-or-later
//! Facts of this host: kernel, settings, routes, memory, processors. Settings, routes and the device are those of the
//! calling thread's network namespace.

use super::device::Device;
use host::{TcpMemory, iproute, sysctl};
use serde::Serialize;
use std::{collections::BTreeMap, fs, net::IpAddr, thread};

/// A kernel's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KernelVersion {
    /// As 6 of 6.17.3.
    pub major: u32,
    /// As 17 of 6.17.3.
    pub minor: u32,
    /// As 3 of 6.17.3.
    pub patch: u32,
}

impl KernelVersion {
    /// So written.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The version in a release such as `6.1.0-18-amd64`.
    pub fn parse(release: &str) -> Option<Self> {
        let plain = release.find(|c: char| !c.is_ascii_digit() && c != '.');
        let mut numbers = release[..plain.unwrap_or(release.len())].split('.');
        let mut next = || numbers.next().filter(|number| !number.is_empty());
        let (major, minor) = (next()?.parse().ok()?, next()?.parse().ok()?);
        Some(Self { major, minor, patch: next().map_or(Some(0), |patch| patch.parse().ok())? })
    }
}

/// What all TCP sockets hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// In bytes.
    pub held_bytes: u64,
    /// Above this many bytes the kernel saves.
    pub begins_bytes: u64,
}

/// A route, as `ip route` prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Its words.
    pub text: String,
}

impl Route {
    /// The number behind a word, as in `window 65536` or `mtu lock 1400`.
    pub fn number(&self, word: &str) -> Option<u64> {
        self.value(word)?.parse().ok()
    }

    /// The word behind a word.
    pub fn value(&self, word: &str) -> Option<&str> {
        let mut words = self.text.split_whitespace().skip_while(|other| *other != word).skip(1);
        words.find(|value| *value != "lock")
    }

    /// Whether a number is locked, as in `cwnd lock 10`.
    pub fn is_locked(&self, word: &str) -> bool {
        let mut words = self.text.split_whitespace().skip_while(|other| *other != word).skip(1);
        words.next() == Some("lock")
    }

    /// The route without a word and its value.
    #[must_use]
    pub fn without(&self, word: &str) -> Self {
        let mut kept = Vec::new();
        let mut words = self.text.split_whitespace();
        while let Some(next) = words.next() {
            if next != word {
                kept.push(next);
            } else if words.next() == Some("lock") {
                words.next();
            }
        }
        Self { text: kept.join(" ") }
    }
}

/// This host.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Host {
    /// The running kernel's version.
    pub kernel: Option<KernelVersion>,
    /// Settings by their names, as sysctl(8) writes them. What this kernel does not have, or this user may not read, is
    /// absent.
    pub settings: BTreeMap<String, String>,
    /// The device that packets to the target leave by.
    pub device: Option<Device>,
    /// The route to the target.
    pub route: Option<Route>,
    /// What TCP sockets hold, where the kernel says from where on it saves.
    pub memory: Option<Memory>,
    /// Processors.
    pub processors: usize,
    /// How the first processor's speed is governed; none where nothing governs it.
    pub governor: Option<String>,
    /// Packets that the kernel dropped because a processor did not take them in time, since it started.
    pub backlog_drops: Option<u64>,
    /// The slow-start threshold in segments that the kernel remembers of connections to the peer.
    pub remembered_ssthresh: Option<u32>,
}

/// The settings that rules look at.
pub const SETTINGS: [&str; 35] = [
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_frto",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_low_latency",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_no_ssthresh_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_pacing_ca_ratio",
    "net.ipv4.tcp_pacing_ss_ratio",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_recycle",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
];

impl Host {
    /// Reads the facts of this host, towards `peer` if there is one and else along the default route.
    pub fn gather(peer: Option<IpAddr>) -> Self {
        let settings =
            SETTINGS.iter().filter_map(|key| Some(((*key).to_owned(), sysctl::read(key).ok()?)));
        let route = route_to(peer);
        let device = route.as_ref().and_then(|route| route.value("dev")).and_then(Device::gather);
        let memory = TcpMemory::read().ok();
        Self {
            kernel: sysctl::read("kernel.osrelease").ok().and_then(|it| KernelVersion::parse(&it)),
            settings: settings.collect(),
            device,
            route,
            memory: memory.and_then(|memory| {
                let begins_bytes = memory.pressure?.begins.get();
                Some(Memory { held_bytes: memory.held.get(), begins_bytes })
            }),
            processors: thread::available_parallelism().map_or(1, usize::from),
            governor: fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .ok()
                .map(|text| text.trim().to_owned()),
            backlog_drops: fs::read_to_string("/proc/net/softnet_stat")
                .ok()
                .and_then(|text| backlog_drops(&text)),
            remembered_ssthresh: peer.and_then(remembered_ssthresh),
        }
    }

    /// A setting of one number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.settings.get(key)?.parse().ok()
    }

    /// A setting of three numbers.
    pub fn three(&self, key: &str) -> Option<[u64; 3]> {
        let words = self.settings.get(key)?.split(' ').map(str::parse);
        let numbers: Vec<u64> = words.collect::<Result<_, _>>().ok()?;
        numbers.try_into().ok()
    }
}

/// The line of the routing table that leads there, or to most destinations.
fn route_to(peer: Option<IpAddr>) -> Option<Route> {
    let family = if peer.is_some_and(|peer| peer.is_ipv6()) { "-6" } else { "-4" };
    let lines = |arguments: &[&str]| {
        let text = iproute::ip(&[&[family, "route", "show"][..], arguments].concat()).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    let shown = match peer {
        // The most specific one is last.
        Some(peer) => lines(&["match", &peer.to_string()])?.lines().last()?.to_owned(),
        None => lines(&["default"])
            .filter(|text| !text.trim().is_empty())
            .or_else(|| lines(&[]))?
            .lines()
            .next()?
            .to_owned(),
    };
    // What ip prints and does not take back.
    let words = shown.split_whitespace().filter(|word| !matches!(*word, "linkdown" | "dead"));
    Some(Route { text: words.collect::<Vec<_>>().join(" ") })
}

/// Drops of all processors in `/proc/net/softnet_stat`.
fn backlog_drops(table: &str) -> Option<u64> {
    let of_line = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    table.lines().map(of_line).try_fold(0, |sum: u64, drops| sum.checked_add(drops?))
}

/// What `ip tcp_metrics` shows of a peer.
fn remembered_ssthresh(peer: IpAddr) -> Option<u32> {
    let shown = iproute::ip(&["tcp_metrics", "show", &peer.to_string()]).ok()?;
    ssthresh_in(&String::from_utf8_lossy(&shown))
}

fn ssthresh_in(shown: &str) -> Option<u32> {
    let mut words = shown.split_whitespace().skip_while(|word| *word != "ssthresh").skip(1);
    words.find(|word| *word != "lock")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_read_from_releases() {
        for (release, version) in [
            ("6.1.0-18-amd64", Some(KernelVersion::new(6, 1, 0))),
            ("4.19.86", Some(KernelVersion::new(4, 19, 86))),
            ("7.0", Some(KernelVersion::new(7, 0, 0))),
            ("6.17.3+", Some(KernelVersion::new(6, 17, 3))),
            ("", None),
            ("6", None),
            ("linux", None),
            ("99999999999.1.1", None),
        ] {
            assert_eq!(KernelVersion::parse(release), version, "{release:?}");
        }
        assert!(KernelVersion::new(6, 9, 9) < KernelVersion::new(6, 10, 0));
    }

    #[test]
    fn values_of_a_route_are_found_and_removed() {
        let route =
            Route { text: "default via 10.0.0.1 dev v0 mtu lock 1400 window 65536".to_owned() };
        assert_eq!((route.number("mtu"), route.number("window")), (Some(1400), Some(65536)));
        assert_eq!((route.value("dev"), route.number("cwnd")), (Some("v0"), None));
        assert!(route.is_locked("mtu") && !route.is_locked("window"));
        assert_eq!(route.without("mtu").text, "default via 10.0.0.1 dev v0 window 65536");
        assert_eq!(route.without("window").text, "default via 10.0.0.1 dev v0 mtu lock 1400");
        assert_eq!(route.without("advmss"), route);
    }

    #[test]
    fn tables_of_the_kernel_are_read() {
        assert_eq!(backlog_drops("0a 00000002 00\n0b 0000000f 00\n"), Some(17));
        assert_eq!(backlog_drops("0a\n"), None);
        let shown = "10.0.0.2 age 3.2sec ssthresh 21 cwnd 42 rtt 100us source 10.0.0.1";
        assert_eq!(ssthresh_in(shown), Some(21));
        assert_eq!(ssthresh_in("10.0.0.2 age 3.2sec cwnd 42"), None);
    }

    #[test]
    fn this_host_tells_its_kernel_and_settings() {
        let host = Host::gather(None);
        assert!(host.kernel.is_some() && host.processors > 0);
        let [least, first, most] = host.three("net.ipv4.tcp_rmem").unwrap();
        assert!(least <= first && first <= most);
        assert!(host.number("net.ipv4.tcp_sack").is_some());
        assert_eq!(host.number("net.ipv4.tcp_rmem"), None);
    }
}
