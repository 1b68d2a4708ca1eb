// SPDX-License-Identifier: GPL-2.0-or-later
//! A measured path, from the server to this host.

use crate::{
    Target,
    change::Change,
    facts::{Facts, Path},
    finding::{Direction, Finding, Gain, Limit, Remedy, Scope},
    limits,
    rule::{Check, Rule, finding},
};
use units::{Bytes, Duration, Rate};

pub const RULES: &[Rule] = &[
    Rule {
        id: "path-black-hole",
        about: "large packets that vanish",
        source: "RFC 2923, RFC 4821",
        check: Check::Facts(black_hole),
    },
    Rule {
        id: "path-window-scaling",
        about: "window scaling that the peer or a middlebox removes",
        source: "RFC 7323",
        check: Check::Facts(window_scaling),
    },
    Rule {
        id: "path-sack",
        about: "selective acknowledgements that the peer or a middlebox removes",
        source: "RFC 2018",
        check: Check::Facts(sack),
    },
    Rule {
        id: "path-timestamps",
        about: "timestamps that the peer or a middlebox removes",
        source: "RFC 7323",
        check: Check::Facts(timestamps),
    },
    Rule {
        id: "path-packets",
        about: "packets smaller than usual",
        source: "RFC 1191; crate model",
        check: Check::Facts(packets),
    },
    Rule {
        id: "path-loss",
        about: "losses",
        source: "RFC 9438; crate model",
        check: Check::Facts(loss),
    },
    Rule {
        id: "sent-loss",
        about: "losses of what this host sends",
        source: "RFC 9438; crate model",
        check: Check::Facts(sent_loss),
    },
    Rule {
        id: "sent-rate",
        about: "a rate of what this host sends: a slow link, shaper or policer",
        source: "Flach et al., SIGCOMM 2016",
        check: Check::Facts(sent_rate),
    },
    Rule {
        id: "path-bursts",
        about: "bursts lost at a shallow buffer before a slower link (10G to 1G)",
        source: "Dovrolis et al., INFOCOM 2001",
        check: Check::Facts(bursts),
    },
    Rule {
        id: "acknowledgements",
        about: "acknowledgements that fill the slower direction",
        source: "RFC 3449, section 2; RFC 9293, section 3.8.6.3",
        check: Check::Facts(acknowledgements),
    },
    Rule {
        id: "path-policer",
        about: "a rate that drops without a queue",
        source: "Flach et al., SIGCOMM 2016",
        check: Check::Facts(policer),
    },
    Rule {
        id: "path-rate",
        about: "a rate with a queue: a slow link or a shaper",
        source: "Flach et al., SIGCOMM 2016",
        check: Check::Facts(rate),
    },
    Rule {
        id: "peer-window",
        about: "the sender's window or buffer",
        source: "RFC 9293; crate model",
        check: Check::Facts(peer_window),
    },
];

/// A segment for paths with tunnels: the least MTU of IPv6, less headers.
const PASSES: u64 = 1220;
/// The share of the target that counts as reached.
const REACHED: f64 = 0.9;

/// Whether payload at that rate is too little for the target, which counts headers too.
fn below(bps: u64, facts: &Facts, target: &Target, direction: Direction) -> bool {
    (bps as f64)
        < REACHED * payload_share(facts, direction) * target.rate_of(direction).bps() as f64
}

/// The share of packets that is payload.
fn payload_share(facts: &Facts, direction: Direction) -> f64 {
    let (payload, packet) = limits::segment(facts, direction);
    payload.get() as f64 / packet.get() as f64
}

fn megabits(bps: u64) -> String {
    format!("{:.1} Mb/s", bps as f64 / 1e6)
}

fn advised(text: &str, limit: Option<Limit>) -> Remedy {
    Remedy::Advice(text.to_owned(), limit)
}

fn black_hole(facts: &Facts, _: &Target) -> Option<Finding> {
    let path = facts.path.as_ref().filter(|path| path.small_segments_pass == Some(true))?;
    let route = facts.host.route.as_ref()?;
    if route.number("advmss").is_some_and(|most| most <= PASSES) {
        return None;
    }
    let words = format!("{} advmss {PASSES}", route.without("advmss").text);
    Some(finding! {
        cause: "large packets vanish on this path, and no router says so: transfers stall after their first bytes".to_owned(),
        evidence: format!("a download from {} stalled; the same with segments of 536 bytes went on", path.peer),
        scope: Scope::Always,
        direction: Direction::Receive,
        remedy: Remedy::Changes(vec![Change::Route { words, before: route.text.clone() }]),
        gain: Gain::Modelled,
    })
}

/// An option that this host offers and that is not in force.
fn stripped(path: &Path, which: usize, in_force: bool) -> bool {
    path.offered[which] && !in_force
}

fn window_scaling(facts: &Facts, _: &Target) -> Option<Finding> {
    let path = facts.path.as_ref().filter(|path| stripped(path, 0, path.window_scaling))?;
    Some(finding! {
        cause: "the peer or a middlebox removes window scaling: 65535 bytes are under way at most".to_owned(),
        evidence: format!("this host offers it, and the connection to {} does not have it", path.peer),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: advised("have the firewall or load balancer before the peer pass TCP options; meanwhile use several connections", Some(Limit::Options)),
        gain: Gain::Modelled,
    })
}

fn sack(facts: &Facts, _: &Target) -> Option<Finding> {
    let path = facts.path.as_ref().filter(|path| stripped(path, 1, path.sack))?;
    Some(finding! {
        cause: "the peer or a middlebox removes selective acknowledgements: each lost segment takes a round trip to repair".to_owned(),
        evidence: format!("this host offers them, and the connection to {} does not have them", path.peer),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: advised("have the firewall or load balancer before the peer pass TCP options", None),
        gain: Gain::NoForm("no closed form has recovery without them"),
    })
}

fn timestamps(facts: &Facts, _: &Target) -> Option<Finding> {
    let path = facts.path.as_ref().filter(|path| stripped(path, 2, path.timestamps))?;
    Some(finding! {
        cause: "the peer or a middlebox removes timestamps".to_owned(),
        evidence: format!("this host offers them, and the connection to {} does not have them", path.peer),
        scope: Scope::Sometimes,
        direction: Direction::Both,
        remedy: advised("have the firewall or load balancer before the peer pass TCP options", None),
        gain: Gain::NoForm("the model takes round trips as known"),
    })
}

fn packets(facts: &Facts, _: &Target) -> Option<Finding> {
    let path = facts.path.as_ref()?;
    let packet = path.packet_bytes?;
    // This host's own doing has rules of its own.
    let own = limits::segment(&Facts { path: None, ..facts.clone() }, Direction::Receive).1;
    (Bytes::new(packet.into()) < own && packet < 1280).then(|| finding! {
        cause: format!("packets of {packet} bytes come: headers take more of each, and each loss costs more of the window"),
        evidence: format!("the longest segments from {} have {} bytes", path.peer, path.receive_mss),
        scope: Scope::Always,
        direction: Direction::Receive,
        remedy: advised("look for a tunnel with a small MTU, or a router that clamps the segment size", Some(Limit::PacketSize)),
        gain: Gain::Modelled,
    })
}

fn loss(facts: &Facts, _: &Target) -> Option<Finding> {
    let path = facts.path.as_ref().filter(|path| path.shape.loses_often())?;
    let loss = path.loss.filter(|loss| *loss > 0.0)?;
    // A policer's, a full queue's, or too few to be what holds an even rate.
    if path.rate_bps.is_some() || path.peer_window_bytes.is_some() || path.burst.is_some() {
        return None;
    }
    Some(finding! {
        cause: format!("the path loses packets: once in {:.0} segments", 1.0 / loss),
        evidence: format!("{} round trips with losses among {} segments from {}", path.shape.loss_events, path.segments, path.peer),
        scope: Scope::Always,
        direction: Direction::Receive,
        remedy: advised("find the faulty link; meanwhile BBR at the server, several connections, or a depot near this host", Some(Limit::Loss)),
        gain: Gain::Modelled,
    })
}

fn sent_loss(facts: &Facts, _: &Target) -> Option<Finding> {
    let sent =
        facts.sent.as_ref().filter(|sent| sent.shape.loses_often() && sent.rate_bps.is_none())?;
    let loss = sent.loss.filter(|loss| *loss > 0.0)?;
    Some(finding! {
        cause: format!("the path loses packets that this host sends: once in {:.0} segments", 1.0 / loss),
        evidence: format!("{} round trips with losses among {} segments to {}", sent.shape.loss_events, sent.segments, sent.peer),
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: advised("find the faulty link; meanwhile BBR on this host, several connections, or a depot near it", Some(Limit::SentLoss)),
        gain: Gain::Modelled,
    })
}

fn sent_rate(facts: &Facts, target: &Target) -> Option<Finding> {
    let sent = facts.sent.as_ref()?;
    let is_below = |bps: &u64| below(*bps, facts, target, Direction::Send);
    let rate = sent.rate_bps.filter(is_below)?;
    let kind = if sent.shape.is_queued(sent.handshake_rtt_us) {
        "with a queue"
    } else {
        "and drops the rest"
    };
    Some(finding! {
        cause: format!("a link, shaper or policer passes {} of what this host sends, {kind}", megabits(rate)),
        evidence: format!(
            "an upload to {}: {} round trips with losses, and the round trip went from {:.1} to {:.1} ms",
            sent.peer, sent.shape.loss_events, f64::from(sent.handshake_rtt_us) / 1e3, f64::from(sent.shape.steady_rtt_us) / 1e3
        ),
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: advised("it is full: more needs a faster link or another rate limit", Some(Limit::SentRate)),
        gain: Gain::Modelled,
    })
}

fn bursts(facts: &Facts, _: &Target) -> Option<Finding> {
    let path = facts.path.as_ref()?;
    let burst = path.burst?;
    let link = megabits(burst.link_bps);
    let holds = Rate::bits_per_second(burst.link_bps)
        .times(Duration::from_micros(path.handshake_rtt_us.into()));
    Some(finding! {
        cause: format!("bursts of the server are lost at a shallow buffer, where a fast link meets one of about {link}: slow start ends far below that rate"),
        evidence: format!(
            "six connections lost their first segment after {} to {} segments, with {} under way, and without a queue; the path holds {}",
            burst.least_segments, burst.most_segments, Bytes::new(burst.window_bytes).rounded(), holds.rounded()
        ),
        scope: Scope::Always,
        direction: Direction::Receive,
        remedy: advised(&format!("at the server: pace below that rate (tc qdisc replace dev DEV root fq maxrate {}mbit) or use BBR; in the network: a larger buffer at the slower port", burst.link_bps / 1_000_000), Some(Limit::Loss)),
        gain: Gain::NoForm("the model takes losses as independent"),
    })
}

fn acknowledgements(facts: &Facts, target: &Target) -> Option<Finding> {
    let narrow = |direction: &Direction| {
        limits::acknowledged_rate(facts, target, *direction) < target.rate_of(*direction)
    };
    let direction = [Direction::Receive, Direction::Send].into_iter().find(|it| narrow(it))?;
    let rate = limits::acknowledged_rate(facts, target, direction);
    let back = target.rate_of(direction.other());
    let share = limits::acknowledged_share(facts, direction);
    Some(finding! {
        cause: format!("acknowledgements fill the slower direction at {}", megabits(rate.bps())),
        evidence: format!("one for every second segment is {:.1} % of the data's rate, and the other direction has {back}", share * 100.0),
        scope: Scope::Always,
        direction: direction,
        remedy: advised("have acknowledgements merged before the slow link (tc-cake(8), ack-filter), or get a faster return path", Some(Limit::Acknowledgements)),
        gain: Gain::Modelled,
    })
}

fn policer(facts: &Facts, target: &Target) -> Option<Finding> {
    let path = facts.path.as_ref()?;
    let steady = path.rate_bps.filter(|bps| below(*bps, facts, target, Direction::Receive))?;
    let drops = path.shape.loses_often() && !path.shape.is_queued(path.handshake_rtt_us);
    drops.then(|| finding! {
        cause: format!("the path drops what exceeds {}, without a queue, as a policer does", megabits(steady)),
        evidence: format!(
            "an even rate, {} round trips with losses, and a round trip of {:.1} ms as at the start{}",
            path.shape.loss_events, f64::from(path.shape.steady_rtt_us) / 1e3,
            path.shape.burst_bps.map_or_else(String::new, |bps| format!("; {} at first", megabits(bps)))
        ),
        scope: Scope::Always,
        direction: Direction::Receive,
        remedy: advised("ask the network's operator for a shaper or a higher rate; pace the sender just below that rate", Some(Limit::Rate)),
        gain: Gain::Modelled,
    })
}

fn rate(facts: &Facts, target: &Target) -> Option<Finding> {
    let path = facts.path.as_ref()?;
    let steady = path.rate_bps.filter(|bps| below(*bps, facts, target, Direction::Receive))?;
    path.shape.is_queued(path.handshake_rtt_us).then(|| finding! {
        cause: format!("a link or shaper of the path passes {}", megabits(steady)),
        evidence: format!(
            "a steady rate, while the round trip grew from {:.1} to {:.1} ms by a queue",
            f64::from(path.handshake_rtt_us) / 1e3, f64::from(path.shape.steady_rtt_us) / 1e3
        ),
        scope: Scope::Always,
        direction: Direction::Receive,
        remedy: advised(&format!("it is full: {} is what this path has", Rate::bits_per_second(steady / 1_000_000 * 1_000_000)), Some(Limit::Rate)),
        gain: Gain::Modelled,
    })
}

fn few_losses(path: &Path) -> String {
    match path.shape.loss_events {
        0 => "without losses".to_owned(),
        1 => "losses in one round trip alone".to_owned(),
        events => format!("losses in {events} round trips alone"),
    }
}

fn peer_window(facts: &Facts, target: &Target) -> Option<Finding> {
    let path = facts.path.as_ref()?;
    let bytes = path.peer_window_bytes.filter(|_| path.burst.is_none())?;
    let payload = limits::segment(facts, Direction::Receive).0;
    let own = limits::window(&Facts { path: None, ..facts.clone() }, payload, Direction::Receive);
    let product =
        target.product(Direction::Receive).get() as f64 * payload_share(facts, Direction::Receive);
    // A window of this host's own has rules of its own.
    let is_own = own.is_some_and(|own| bytes as f64 > REACHED * own.get() as f64);
    let is_unscaled = stripped(path, 0, path.window_scaling);
    (!is_own && !is_unscaled && (bytes as f64) < REACHED * product).then(|| finding! {
        cause: format!("the server has {} under way at most: its send buffer, or its congestion window", Bytes::new(bytes).rounded()),
        evidence: format!("an even rate of {} without a queue, over {:.1} ms, and {}", megabits(path.shape.steady_bps.unwrap_or(0)), f64::from(path.handshake_rtt_us) / 1e3, few_losses(path)),
        scope: Scope::Always,
        direction: Direction::Receive,
        remedy: advised("at the server: longhaul doctor --target, for tcp_wmem and SO_SNDBUF; or a depot near it", Some(Limit::PeerWindow)),
        gain: Gain::Modelled,
    })
}
