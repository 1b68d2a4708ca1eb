// SPDX-License-Identifier: GPL-2.0-or-later
//! Buffers against the bandwidth-delay product, and what else bounds memory.

use crate::{
    Target,
    change::Change,
    facts::{Facts, KernelVersion},
    finding::{Direction, Finding, Gain, Remedy, Scope},
    limits,
    rule::{Check, Rule, finding},
};
use model::buffers;
use units::{Bytes, Rate, Rounded};

pub const RULES: &[Rule] = &[
    Rule {
        id: "receive-buffer",
        about: "the largest receive buffer (tcp_rmem) against the bandwidth-delay product",
        source: "RFC 7323; crate model, buffers",
        check: Check::Facts(receive_buffer),
    },
    Rule {
        id: "send-buffer",
        about: "the largest send buffer (tcp_wmem) against the bandwidth-delay product",
        source: "crate model, buffers",
        check: Check::Facts(send_buffer),
    },
    Rule {
        id: "largest-window",
        about: "the largest window of TCP against the bandwidth-delay product",
        source: "RFC 7323 section 2.3",
        check: Check::Facts(largest_window),
    },
    Rule {
        id: "fixed-receive-buffer",
        about: "the largest buffer that a program may set (rmem_max)",
        source: "socket(7)",
        check: Check::Facts(fixed_receive_buffer),
    },
    Rule {
        id: "fixed-send-buffer",
        about: "the largest buffer that a program may set (wmem_max)",
        source: "socket(7)",
        check: Check::Facts(fixed_send_buffer),
    },
    Rule {
        id: "memory",
        about: "the memory of all TCP sockets (tcp_mem)",
        source: "Linux, tcp_adjust_rcv_ssthresh",
        check: Check::Facts(memory),
    },
    Rule {
        id: "first-receive-buffer",
        about: "the first receive buffer with large packets, Linux 4.19.86 to 5.9.15",
        source: "Linux 5.10, commit 72d05c00d7ec",
        check: Check::Facts(first_receive_buffer),
    },
    Rule {
        id: "slow-autotuning",
        about: "receive autotuning of Linux 6.16 and 6.17",
        source: "Linux 6.18, commit aa251c84636c",
        check: Check::Facts(slow_autotuning),
    },
    Rule {
        id: "backlog",
        about: "drops before the protocol stack (netdev_max_backlog)",
        source: "Linux, net.rst",
        check: Check::Facts(backlog),
    },
    Rule {
        id: "connection-tracking",
        about: "room for connections in conntrack",
        source: "Linux, nf_conntrack-sysctl.rst",
        check: Check::Facts(connection_tracking),
    },
];

const RMEM: &str = "net.ipv4.tcp_rmem";
const WMEM: &str = "net.ipv4.tcp_wmem";
/// The share of a receive buffer that is window: of kernels with a fixed one, and before a later one has measured it.
const LEAST_SHARE: f64 = 0.5;
/// The kernel's own maximum of `tcp_rmem`, before Linux 6.16 and from then on (572be9bf9d0d), and of `tcp_wmem`.
const USUAL_RMEM: [u64; 2] = [6 << 20, 32 << 20];
const USUAL_WMEM: u64 = 4 << 20;

/// The largest value that the kernel takes for a buffer: these settings are of C's `int`.
const LARGEST_BUFFER: u64 = i32::MAX as u64;
/// The same for what a program asks for, which the kernel doubles (`sock_setsockopt`).
const LARGEST_FIXED_BUFFER: u64 = LARGEST_BUFFER / 2;

/// A buffer with room for the product twice: for a window that grows while losses are repaired.
fn wanted(target: &Target, direction: Direction, share: f64) -> u64 {
    let product = target.product(direction).get() as f64;
    let bytes = (2.0 * product / share).min(LARGEST_BUFFER as f64) as u64;
    bytes.next_power_of_two().clamp(1 << 20, LARGEST_BUFFER)
}

fn limit_of(window: Bytes, target: &Target) -> Rate {
    let bps = window.get() as f64 * 8.0 / target.round_trip.as_secs_f64();
    Rate::bits_per_second(bps as u64)
}

fn megabits(rate: Rate) -> String {
    format!("{:.0} Mb/s", rate.bps() as f64 / 1e6)
}

fn is_enough(window: Bytes, target: &Target, direction: Direction) -> bool {
    window >= target.product(direction).min(limits::LARGEST_WINDOW)
}

/// What a maximum is worth, with the word that fits it.
fn too_small(most: u64, usual: u64) -> &'static str {
    if most > usual { "was raised and is still too small" } else { "is too small" }
}

fn receive_buffer(facts: &Facts, target: &Target) -> Option<Finding> {
    // A smaller share has a rule of its own.
    let share = limits::receive_share(facts).max(LEAST_SHARE);
    let window = |most: Bytes| most.scale(share);
    let is_new = facts.host.kernel.is_none_or(|kernel| kernel >= KernelVersion::new(6, 16, 0));
    let usual = USUAL_RMEM[usize::from(is_new)];
    let side = Side { key: RMEM, usual, direction: Direction::Receive, share };
    tuned_buffer(facts, target, &side, window, |cause, window, rate| {
        format!(
            "the largest receive buffer {cause}: {window} of it are window, which is {rate} over this round trip"
        )
    })
}

fn send_buffer(facts: &Facts, target: &Target) -> Option<Finding> {
    let share = buffers::AUTOTUNED_SHARE;
    let side = Side { key: WMEM, usual: USUAL_WMEM, direction: Direction::Send, share };
    tuned_buffer(facts, target, &side, buffers::send_window, |cause, window, rate| {
        format!(
            "the largest send buffer {cause}: it lets {window} out before they are acknowledged, which is {rate} over this round trip"
        )
    })
}

/// A buffer that the kernel tunes.
struct Side {
    /// Its setting of three sizes.
    key: &'static str,
    /// The kernel's own maximum.
    usual: u64,
    direction: Direction,
    /// The part of it that is window.
    share: f64,
}

fn tuned_buffer(
    facts: &Facts,
    target: &Target,
    side: &Side,
    window_of: impl Fn(Bytes) -> Bytes,
    cause: impl Fn(&str, Rounded, String) -> String,
) -> Option<Finding> {
    let &Side { key, usual, direction, share } = side;
    let [least, first, most] = facts.host.three(key)?;
    let window = window_of(Bytes::new(most));
    if is_enough(window, target, direction) {
        return None;
    }
    let wanted = wanted(target, direction, share);
    Some(finding! {
        cause: cause(too_small(most, usual), window.rounded(), megabits(limit_of(window, target))),
        evidence: format!(
            "{key} is \"{least} {first} {most}\"; the bandwidth-delay product is {}",
            target.product(direction).rounded()
        ),
        scope: Scope::Always,
        direction: direction,
        remedy: Remedy::Changes(vec![Change::setting(key, format!("{least} {first} {wanted}"))]),
        gain: Gain::Modelled,
    })
}

fn fixed_receive_buffer(facts: &Facts, target: &Target) -> Option<Finding> {
    fixed_buffer(
        facts,
        target,
        "net.core.rmem_max",
        Direction::Receive,
        limits::receive_share(facts),
    )
}

fn fixed_send_buffer(facts: &Facts, target: &Target) -> Option<Finding> {
    fixed_buffer(facts, target, "net.core.wmem_max", Direction::Send, buffers::AUTOTUNED_SHARE)
}

fn fixed_buffer(
    facts: &Facts,
    target: &Target,
    key: &str,
    direction: Direction,
    share: f64,
) -> Option<Finding> {
    let most = u64::try_from(facts.host.number(key)?).ok()?;
    // The kernel doubles what a program asks for.
    let window = Bytes::new(most.saturating_mul(2)).scale(share);
    if is_enough(window, target, direction) {
        return None;
    }
    let wanted = wanted(target, direction, share).min(LARGEST_FIXED_BUFFER);
    let option = if direction == Direction::Receive { "SO_RCVBUF" } else { "SO_SNDBUF" };
    Some(finding! {
        cause: format!(
            "a program that sets {option} gets {} under way at most, which is {} over this round trip",
            window.rounded(), megabits(limit_of(window, target))
        ),
        evidence: format!("{key} is {most}"),
        scope: Scope::Sometimes,
        direction: direction,
        remedy: Remedy::Changes(vec![Change::setting(key, wanted)]),
        gain: Gain::NoForm("it concerns programs that set the option"),
    })
}

fn largest_window(_: &Facts, target: &Target) -> Option<Finding> {
    let product = target.product(Direction::Both);
    (product > limits::LARGEST_WINDOW).then(|| finding! {
        cause: format!(
            "a connection has {} under way at most, which is {} over this round trip",
            limits::LARGEST_WINDOW.rounded(), megabits(limit_of(limits::LARGEST_WINDOW, target))
        ),
        evidence: format!("the bandwidth-delay product is {}; a window of TCP is 65535 bytes, shifted by 14 at most", product.rounded()),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: Remedy::Advice("use several connections, or depots on the way, which make the round trips short".to_owned(), None),
        gain: Gain::NoForm("it is a limit of each connection"),
    })
}

fn memory(facts: &Facts, target: &Target) -> Option<Finding> {
    let memory = facts.host.memory?;
    let window = target.product(Direction::Both).min(limits::LARGEST_WINDOW);
    let wanted = window.scale(1.0 / buffers::AUTOTUNED_SHARE);
    let is_short = memory.held_bytes >= memory.begins_bytes;
    if !is_short && memory.begins_bytes >= wanted.get() {
        return None;
    }
    let when = if is_short { "is" } else { "becomes" };
    let key = "net.ipv4.tcp_mem";
    let [_, pressure, _] = facts.host.three(key)?;
    let page = (memory.begins_bytes / pressure.max(1)).max(1);
    let begins = wanted.get().saturating_mul(4).max(memory.held_bytes.saturating_mul(2)) / page;
    let value = format!("{} {begins} {}", begins / 4 * 3, begins / 2 * 3);
    Some(finding! {
        cause: format!(
            "the kernel {when} short of memory for TCP: then no window grows, and full ones shrink to four segments"
        ),
        evidence: format!(
            "all TCP sockets hold {}, and the kernel saves from {} on ({key})",
            Bytes::new(memory.held_bytes).rounded(), Bytes::new(memory.begins_bytes).rounded()
        ),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: Remedy::Changes(vec![Change::setting(key, value)]),
        gain: Gain::Modelled,
    })
}

/// Packets above this are large.
const LARGE_MTU: u32 = 4000;

/// A first buffer with which such a connection's window grows, by the same commit.
const ROOMY: u64 = 196_608;

/// From the kernel that raised the first buffer to 128 KB and no longer looked at the size of packets (a337531b942b, in
/// 4.19.86, too) to those with "tcp: select sane initial `rcvq_space.space` for big MSS".
fn loses_first_window(kernel: KernelVersion) -> bool {
    let KernelVersion { major, minor, patch } = kernel;
    let repaired = match (major, minor) {
        (4, 19) => 164,
        (5, 4) => 85,
        (5, 9) => 16,
        _ => u32::MAX,
    };
    let affected = KernelVersion::new(4, 19, 86)..KernelVersion::new(5, 10, 0);
    affected.contains(&kernel) && patch < repaired
}

fn first_receive_buffer(facts: &Facts, _: &Target) -> Option<Finding> {
    let kernel = facts.host.kernel.filter(|kernel| loses_first_window(*kernel))?;
    let mtu = facts.host.device.as_ref().filter(|device| device.is_ethernet)?.mtu;
    let [least, first, most] = facts.host.three(RMEM)?;
    if mtu < LARGE_MTU || first >= ROOMY || most < ROOMY {
        return None;
    }
    let KernelVersion { major, minor, patch } = kernel;
    Some(finding! {
        cause: "connections that bring packets smaller than this host's own keep their first window: this kernel does not tune it".to_owned(),
        evidence: format!("{RMEM} is \"{least} {first} {most}\", with packets of {mtu} bytes, in Linux {major}.{minor}.{patch}"),
        scope: Scope::Sometimes,
        direction: Direction::Receive,
        remedy: Remedy::Changes(vec![Change::setting(RMEM, format!("{least} {ROOMY} {most}"))]),
        gain: Gain::NoForm("no closed form has the kernel's accounting of packets"),
    })
}

/// Since "tcp: fix `sk_rcvbuf` overshoot" (65c5287892e9, Linux 6.16) a receive buffer grows by what one round trip brought, so a
/// sender in slow start waits for it. No 6.17 up to 6.17.9 has the repair.
fn slow_autotuning(facts: &Facts, target: &Target) -> Option<Finding> {
    let kernel = facts.host.kernel?;
    let is_slow = KernelVersion::new(6, 16, 0) <= kernel && kernel < KernelVersion::new(6, 18, 0);
    let product = target.product(Direction::Receive);
    if !is_slow || product < Bytes::new(1 << 20) {
        return None;
    }
    let KernelVersion { major, minor, patch } = kernel;
    Some(finding! {
        cause: "this kernel's receive buffers do not double in a round trip, so that a sender in slow start waits for them".to_owned(),
        evidence: format!("the kernel is {major}.{minor}.{patch}"),
        scope: Scope::Sometimes,
        direction: Direction::Receive,
        remedy: Remedy::Advice("run Linux 6.18 or later".to_owned(), None),
        gain: Gain::NoForm("no closed form has receive autotuning"),
    })
}

fn backlog(facts: &Facts, _: &Target) -> Option<Finding> {
    let key = "net.core.netdev_max_backlog";
    let (drops, most) = (facts.host.backlog_drops?, facts.host.number(key)?);
    let wanted = (most.max(500) * 4).min(250_000);
    (drops > 0 && most < wanted).then(|| {
        finding! {
            cause: "packets were dropped because a processor did not take them in time".to_owned(),
            evidence: format!("{drops} drops in /proc/net/softnet_stat; {key} is {most}"),
            scope: Scope::Sometimes,
            direction: Direction::Receive,
            remedy: Remedy::Changes(vec![Change::setting(key, wanted)]),
            gain: Gain::NoForm("when they were dropped is not known"),
        }
    })
}

fn connection_tracking(facts: &Facts, _: &Target) -> Option<Finding> {
    let key = "net.netfilter.nf_conntrack_max";
    let count = facts.host.number("net.netfilter.nf_conntrack_count")?;
    let most = facts.host.number(key).filter(|most| *most > 0)?;
    (count > most / 10 * 9).then(|| finding! {
        cause: "connection tracking is full or nearly so: packets of new connections are dropped".to_owned(),
        evidence: format!("{count} connections of {most} ({key})"),
        scope: Scope::Sometimes,
        direction: Direction::Both,
        remedy: Remedy::Changes(vec![Change::setting(key, most.saturating_mul(4).min(i32::MAX.into()))]),
        gain: Gain::NoForm("it concerns new connections"),
    })
}
