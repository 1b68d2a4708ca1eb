// SPDX-License-Identifier: GPL-2.0-or-later
//! One TCP connection of a flow as the closed forms take it: rates, round trip, queue, buffers and loss of its path,
//! and the law that its congestion control follows. What no form is for is named here.
//!
//! Buffers: a receive window is that of [`crate::buffers`] where the receive buffer is autotuned, and the whole of a fixed
//! one. The send buffer of a tuned Linux lets large writes out beyond it, so where a small one decides there is no form
//! ([`SMALLEST_SEND_BUFFER`]). Links in series lose by equation 4 of Augusto et al. 2008.

use crate::{
    bbr,
    buffers::{receive_window, send_window},
    rounds::{Losses, Path, Start},
    window::Rule,
};
use congestion::{Algorithm, response};
use scenario::{
    Direction, Discipline, Flow, FlowPacing, Heading, Hop, Leg, Loss, Profile, Queue, Routes, Run,
};
use units::{Bytes, Duration, Probability};

/// Segments that any window allows.
pub const LEAST_WINDOW: u64 = 2;
/// A tuned send buffer below this may hold more than its size.
const SMALLEST_SEND_BUFFER: Bytes = Bytes::new(512 * 1024);

/// How a sender finds its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// By losses, growing by a rule.
    Window(Rule),
    /// H-TCP: a response function for losses at regular intervals.
    Htcp,
    /// By the bottleneck's rate.
    Bbr,
}

/// A connection.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The path in segments and seconds.
    pub path: Path,
    /// Which segments are lost.
    pub losses: Losses,
    /// The sender's law.
    pub law: Law,
    /// The congestion control as the scenario names it.
    pub algorithm: String,
    /// How it begins.
    pub start: Start,
    /// Whether it was open before.
    pub is_warm: bool,
    /// Bits of payload in a segment.
    pub payload_bits: f64,
    /// Bits that a segment takes on the slowest link.
    pub link_bits: f64,
    /// The least retransmission timeout.
    pub least_timeout_s: f64,
    /// The links with a rate that data cross, in bit/s.
    pub rates: Vec<(Leg, f64)>,
}

/// The connection of a flow's hop, `n` counted in the direction of the data.
///
/// # Errors
/// No form is for it; the text says what of it.
pub fn connection(
    run: &Run,
    routes: &Routes,
    flow: &Flow,
    n: usize,
    hop: &Hop<'_>,
) -> Result<Connection, String> {
    let limits = run
        .path_limits(routes, hop.from, hop.to)
        .ok_or_else(|| format!("no links lead from {} to {} and back", hop.from, hop.to))?;
    let legs = routes.legs(hop.from, hop.to).unwrap_or_default();
    let links = || legs.iter().map(|leg| run.links[leg.link].direction(leg.heading));
    check_links(run, &legs)?;
    let payload = u64::from(run.tcp.header);
    let payload =
        limits.mtu.get().checked_sub(payload).filter(|bytes| *bytes > 0).ok_or_else(|| {
            format!(
                "a segment with headers of {} bytes does not fit an MTU of {}",
                run.tcp.header,
                limits.mtu.get()
            )
        })?;
    let losses = losses(links())?;
    let law = law(run, hop.cc, losses)?;
    let paced = paced_bps(hop)?;
    let link_bits = limits.segment.get() as f64 * 8.0;
    let by_link = limits.bottleneck.map_or(f64::INFINITY, |rate| rate.bps() as f64 / link_bits);
    let by_pacing = paced / link_bits;
    let rtt_s = limits.base_rtt.as_secs_f64();
    let path = Path {
        rtt_s,
        segments_per_s: by_link.min(by_pacing),
        queue: if by_pacing < by_link { f64::INFINITY } else { queue(links(), limits.segment) },
        limit: window_limit(run, flow, n, hop, payload, by_link.min(by_pacing) * rtt_s)?,
    };
    if path.most_per_s().is_infinite() && losses == Losses::None {
        return Err("nothing bounds its rate: no link, buffer or loss".to_owned());
    }
    let cold = Start {
        window: f64::from(run.tcp.initial_window),
        ssthresh: run.tcp.initial_ssthresh.map_or(f64::INFINITY, f64::from),
        hystart: law == Law::Window(Rule::Cubic)
            && run.tcp.hystart
            && run.tcp.profile == Profile::Linux,
    };
    // The client opens a connection for each transfer, the depots keep theirs.
    let is_warm = flow.after.is_some() && n < flow.via.len();
    Ok(Connection {
        path,
        losses,
        law,
        algorithm: hop.cc.to_owned(),
        start: if is_warm { warm_start(run, flow, hop, law, &path, payload, cold)? } else { cold },
        is_warm,
        payload_bits: payload as f64 * 8.0,
        link_bits,
        least_timeout_s: run.tcp.min_rto.as_secs_f64(),
        rates: legs
            .iter()
            .filter_map(|leg| {
                let rate = run.links[leg.link].direction(leg.heading).rate?;
                Some((*leg, rate.bps() as f64))
            })
            .collect(),
    })
}

impl Connection {
    /// The probability of a loss.
    pub fn loss(&self) -> f64 {
        match self.losses {
            Losses::None => 0.0,
            Losses::Periodic(every) => 1.0 / every,
            Losses::Random(probability) => probability,
        }
    }
}

/// How a connection goes on that an earlier flow has used. BBR keeps its rate over an idle time, but only once its start-up
/// and a cycle of gains are over: some 15 bandwidth-delay products. Another window falls back to the first one after an
/// idle time of a timeout (RFC 2861), unless the sender's kernel is told otherwise, and comes back in slow start.
fn warm_start(
    run: &Run,
    flow: &Flow,
    hop: &Hop<'_>,
    law: Law,
    path: &Path,
    payload: u64,
    cold: Start,
) -> Result<Start, String> {
    let plateau = path.limit.min(path.product()).max(cold.window);
    let grown = Start { window: plateau, ssthresh: plateau, hystart: false };
    let earlier = run.flows.iter().find(|other| flow.after.as_ref() == Some(&other.name));
    let carried =
        earlier.and_then(|earlier| earlier.bytes).map_or(f64::INFINITY, |bytes| bytes.get() as f64);
    if law == Law::Bbr {
        return if carried >= GROWN_PRODUCTS * path.product() * payload as f64 {
            Ok(grown)
        } else {
            Err(format!(
                "from {} to {}: what flow {} has carried leaves BBR in its start-up, for which no form is; it is over after {GROWN_PRODUCTS} bandwidth-delay products",
                hop.from,
                hop.to,
                flow.after.as_deref().unwrap_or_default()
            ))
        };
    }
    let timeout_s = run.tcp.min_rto.as_secs_f64() + path.rtt_s;
    let falls = run
        .node(hop.from)
        .and_then(|node| node.sysctl.get(SLOW_START_AFTER_IDLE))
        .is_none_or(|value| value != "0");
    let is_idle = flow.start.as_secs_f64() >= timeout_s;
    Ok(if falls && is_idle { Start { window: cold.window, ..grown } } else { grown })
}

/// Bandwidth-delay products after which BBR's start-up and a cycle of gains are over.
const GROWN_PRODUCTS: f64 = 15.0;
/// Whether a sender that was idle begins anew: "0" or "1".
const SLOW_START_AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";

fn check_links(run: &Run, legs: &[Leg]) -> Result<(), String> {
    for leg in legs {
        let link = &run.links[leg.link];
        let way = match leg.heading {
            Heading::Forward => "forward",
            Heading::Backward => "backward",
        };
        let direction = link.direction(leg.heading);
        if direction.discipline != Discipline::Taildrop {
            return Err(format!(
                "link {}/{way}: its queue drops by delay or by flow, of which no form knows; use a taildrop queue",
                link.name
            ));
        }
        if direction.mark.is_some() && run.tcp.ecn {
            return Err(format!("link {}/{way}: no form is for ECN marks", link.name));
        }
    }
    Ok(())
}

/// What links in series lose: equation 4.
fn losses<'l>(links: impl Iterator<Item = &'l Direction>) -> Result<Losses, String> {
    let (mut random, mut periodic) = (Vec::new(), None);
    for direction in links {
        match direction.loss {
            Loss::None => {}
            Loss::Uniform { probability } => random.push(probability),
            Loss::Periodic { every } if periodic.is_none() => periodic = Some(every as f64),
            Loss::Periodic { .. } => {
                return Err(
                    "two links lose at regular intervals, which is neither regular nor random"
                        .to_owned(),
                );
            }
            Loss::GilbertElliott { .. } => {
                return Err(
                    "losses in bursts (Gilbert-Elliott): the forms take losses as independent"
                        .to_owned(),
                );
            }
        }
    }
    let random = response::in_series(random).get();
    match (periodic, random > 0.0) {
        (None, false) => Ok(Losses::None),
        (Some(every), false) => Ok(Losses::Periodic(every)),
        (None, true) => Ok(Losses::Random(random)),
        (Some(_), true) => Err("regular and random losses on one path".to_owned()),
    }
}

fn law(run: &Run, cc: &str, losses: Losses) -> Result<Law, String> {
    if run.congestion.iter().any(|changed| changed.name == cc) {
        return Err(format!(
            "{cc} has parameters of its own, and the forms are for the default ones"
        ));
    }
    let law = law_of(cc, losses)?;
    match (law, losses) {
        (Law::Window(_), Losses::Random(p)) if p > MOST_LOSS => Err(format!(
            "{cc}: above a loss of {} many losses end in timeouts, which the forms do not count",
            Probability::new(MOST_LOSS).expect("a share")
        )),
        _ => Ok(law),
    }
}

/// Random losses up to which windows are followed. Here Reno is 5 to 8 % and CUBIC 12 to 18 % faster than simulated, where a
/// repeated segment that is lost again waits for a timeout; at 5 % they are 30 and 50 % faster.
const MOST_LOSS: f64 = 0.02;

/// The law of a congestion control with its default parameters.
///
/// # Errors
/// No form is for it under these losses.
pub fn law_of(cc: &str, losses: Losses) -> Result<Law, String> {
    let bare = cc.strip_prefix(Algorithm::PREFIX).unwrap_or(cc);
    if let Some(rule) = Rule::of(bare) {
        return Ok(Law::Window(rule));
    }
    match bare {
        "htcp" if matches!(losses, Losses::Random(_)) => Err(
            "htcp: the share that it keeps on a random loss depends on how its throughput moved, which no form has".to_owned(),
        ),
        "htcp" => Ok(Law::Htcp),
        "bbr" => match losses {
            Losses::Random(p) if p > bbr::MOST_LOSS => {
                Err(format!("bbr: above a loss of {} its estimate of the rate suffers", Probability::new(bbr::MOST_LOSS).expect("a share")))
            }
            _ => Ok(Law::Bbr),
        },
        "fast" => Err("fast: its window follows the queue's delay, and no form of loss and round trip has it".to_owned()),
        "libra" => Err("libra: its window grows by the link's capacity and queue, and no form of loss and round trip has it".to_owned()),
        other => Err(format!("{other}: no closed form is known for it")),
    }
}

/// The rate that the sender is paced at.
fn paced_bps(hop: &Hop<'_>) -> Result<f64, String> {
    match hop.pacing {
        FlowPacing::None | FlowPacing::Tcp => Ok(f64::INFINITY),
        FlowPacing::Rate(rate) => Ok(rate.bps() as f64),
        FlowPacing::Gap | FlowPacing::Edt => {
            Err("paced at an estimated rate, which no form has".to_owned())
        }
    }
}

/// Segments that the queue of the slowest link holds.
fn queue<'l>(links: impl Iterator<Item = &'l Direction>, segment: Bytes) -> f64 {
    let slowest = links.filter(|link| link.rate.is_some()).min_by_key(|link| link.rate);
    match slowest.and_then(|link| link.queue) {
        None => f64::INFINITY,
        Some(Queue::Packets(packets)) => packets as f64,
        Some(Queue::Bytes(bytes)) => (bytes.get() as f64 / segment.get() as f64).floor(),
    }
}

/// The largest window that the buffers of both ends allow, in segments. `product` is the path's.
fn window_limit(
    run: &Run,
    flow: &Flow,
    n: usize,
    hop: &Hop<'_>,
    payload: u64,
    product: f64,
) -> Result<f64, String> {
    let node = |name| run.node(name).expect("a checked scenario's flows join its nodes");
    // The kernel doubles what a program asks for.
    let asked =
        |size: Option<Bytes>, at_depot: bool| size.filter(|_| at_depot).map(|size| size.scale(2.0));
    let to_depot = n < flow.via.len();
    let receive = asked(flow.rcvbuf, to_depot)
        .unwrap_or_else(|| node(hop.to).tcp_rmem_max.unwrap_or(run.tcp.rcvbuf));
    let send = asked(flow.sndbuf, n > 0)
        .unwrap_or_else(|| node(hop.from).tcp_wmem_max.unwrap_or(run.tcp.sndbuf));
    let window = if run.tcp.autotuning { receive_window(receive) } else { receive };
    let segments = |bytes: Bytes| (bytes.get() / payload).max(LEAST_WINDOW) as f64;
    let (window, send_segments) = (segments(window), segments(send_window(send)));
    let decides = send_segments < window && send_segments < product;
    if decides && run.tcp.autotuning && send < SMALLEST_SEND_BUFFER {
        return Err(format!(
            "the send buffer of {} ({send}) decides, and the kernel lets large writes out beyond a small one; raise tcp_wmem_max",
            hop.from
        ));
    }
    Ok(window.min(send_segments))
}

/// Round trip of a connection between two nodes over empty queues.
pub fn round_trip_s(run: &Run, routes: &Routes, from: &str, to: &str) -> f64 {
    let rtt = run.path_limits(routes, from, to).map(|limits| limits.base_rtt);
    rtt.unwrap_or(Duration::ZERO).as_secs_f64()
}
