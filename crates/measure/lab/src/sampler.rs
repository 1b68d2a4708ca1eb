// SPDX-License-Identifier: GPL-2.0-or-later
//! Looks at the sending sockets of every hop, at the links' queues and at what the clients have, every
//! [`INTERVAL`], while a run lasts.

use crate::{error::LabError, phases::Phases, sender_limits::SenderLimits, stage::Stage};
use host::{TcpMemory, TcpSocket, TcpSockets};
use record::{Entity, Quantity, Series};
use std::{
    collections::HashMap,
    fs::Metadata,
    net::{IpAddr, SocketAddr},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};
use units::Rate;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(20);
/// What a file's blocks are counted in (stat(2)).
const BLOCK: u64 = 512;
/// How long after the clients' end the sockets are watched for their last acknowledgements.
const LINGER: Duration = Duration::from_secs(1);

/// Where a hop's sending socket is to be found.
#[derive(Debug, Clone)]
pub struct HopSockets {
    /// The flow.
    pub flow: String,
    /// Counted in the direction of the data, and from one stream to the next.
    pub index: u32,
    /// Which of the flow's streams, from 0.
    pub stream: u32,
    /// How many streams the flow has, all with the same addresses.
    pub streams: u32,
    /// The node that sends.
    pub node: String,
    /// Where it serves the data.
    pub local: SocketAddr,
    /// The node that takes them.
    pub peer: IpAddr,
    /// Its addresses once it has moved.
    pub moved: Vec<IpAddr>,
}

impl HopSockets {
    /// Whether the node that takes the data has that address at some time.
    fn is_peer(&self, address: IpAddr) -> bool {
        self.peer == address || self.moved.contains(&address)
    }

    /// Whether another flow has the same connections.
    fn is_taken_over(&self, other: &Self) -> bool {
        self.flow != other.flow
            && (&self.node, self.local, self.peer) == (&other.node, other.local, other.peer)
    }
}

/// What a flow's receiver has, as it arrives.
#[derive(Debug)]
pub struct Arriving {
    /// The flow.
    pub flow: String,
    /// Whether its receiver is on this machine.
    pub is_here: bool,
    /// Where it goes.
    pub path: PathBuf,
    /// How its bytes are counted.
    pub count: ArrivingCount,
}

/// How the bytes are counted that a receiver has.
#[derive(Debug)]
pub enum ArrivingCount {
    /// By its file's length.
    Length,
    /// By its file's blocks: its program writes at several places, so that the length says little.
    Blocks,
    /// By itself: it is longhaul's own.
    Counted(AtomicU64),
}

impl Arriving {
    /// How many bytes have come, once there is something.
    pub fn received(&self) -> Option<u64> {
        let held: fn(&Metadata) -> u64 = match &self.count {
            ArrivingCount::Counted(bytes) => return Some(bytes.load(Relaxed)),
            ArrivingCount::Length => |_| u64::MAX,
            ArrivingCount::Blocks => |file| file.blocks() * BLOCK,
        };
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some(metadata.len().min(held(&metadata)))
    }
}

/// Which of a flow's streams a connection belongs to. Streams share their addresses, so connections are dealt out in
/// the order in which they are seen; the streams are alike.
#[derive(Debug, Default)]
struct StreamAssignment {
    /// By flow, node and the socket's cookie.
    streams: HashMap<(String, String, u64), u32>,
    /// How many have been dealt out of a flow at a node.
    dealt: HashMap<(String, String), u32>,
}

impl StreamAssignment {
    fn has(&mut self, place: &HopSockets, socket: &TcpSocket) -> bool {
        if place.streams == 1 {
            return true;
        }
        let (flow, node) = (place.flow.clone(), place.node.clone());
        let dealt = &mut self.dealt;
        let stream = self.streams.entry((flow, node, socket.cookie)).or_insert_with_key(|key| {
            let next = dealt.entry((key.0.clone(), key.1.clone())).or_default();
            *next += 1;
            (*next - 1) % place.streams
        });
        *stream == place.stream
    }
}

/// What was seen of one hop.
#[derive(Debug, Clone, Default)]
pub struct HopObservation {
    /// The connections that carried it, as last seen; more than one where a client tried again, or depots keep some
    /// open.
    pub connections: Vec<TcpSocket>,
    /// Those that an earlier flow has left, as it left them.
    before: Vec<TcpSocket>,
    /// What held the one back that has carried most.
    pub limits: SenderLimits,
}

impl HopObservation {
    /// A count summed over the connections, of this flow alone.
    pub fn total(&self, count: impl Fn(&TcpSocket) -> u64) -> u64 {
        self.connections.iter().map(|socket| self.since_before(socket, &count)).sum()
    }

    /// The connection that has carried most of it.
    pub fn carrier(&self) -> Option<&TcpSocket> {
        self.carrier_of(|_| true)
    }

    fn carrier_of(&self, is_one: impl Fn(&TcpSocket) -> bool) -> Option<&TcpSocket> {
        let acked = |socket: &TcpSocket| socket.info.acked.get();
        let those = self.connections.iter().filter(|socket| is_one(socket));
        // Of equals the newest.
        those.max_by_key(|socket| self.since_before(socket, &acked))
    }

    fn since_before(&self, socket: &TcpSocket, count: &impl Fn(&TcpSocket) -> u64) -> u64 {
        let before = self.before.iter().find(|before| before.cookie == socket.cookie);
        count(socket).saturating_sub(before.map_or(0, count))
    }
}

/// What was seen in all.
pub struct Observations {
    /// Over time.
    pub series: Series,
    /// The hops, in the order of their places.
    pub hops: Vec<HopObservation>,
    /// The memory of all TCP sockets when the kernel may have been short of it.
    pub short_of_memory: Option<TcpMemory>,
}

/// Looks until `stop` is closed, and then until the hops' sockets are gone, so that what is under
/// way when a client ends is counted as well. Times are counted from the stage's time zero, as the links' are.
pub fn watch(
    stage: &dyn Stage,
    hops: &[HopSockets],
    arriving: &[Arriving],
    phases: &Phases,
    stop: &mpsc::Receiver<()>,
) -> Result<Observations, LabError> {
    let failed = |e| LabError::system("list the nodes' sockets", e);
    let mut views: HashMap<&str, TcpSockets> = HashMap::new();
    for hop in hops.iter().filter(|hop| stage.has(&hop.node)) {
        let view = TcpSockets::open_in(stage.namespace(&hop.node)?).map_err(failed)?;
        views.insert(&hop.node, view);
    }
    let directed_links: Vec<Entity> =
        stage.directed_links().iter().map(|name| link_entity(name)).collect();
    let mut before = vec![(0, 0); directed_links.len()];
    let mut seen = Observations {
        series: Series::default(),
        hops: vec![HopObservation::default(); hops.len()],
        short_of_memory: None,
    };
    let mut assignment = StreamAssignment::default();
    let mut linger = None;
    loop {
        let mut open = false;
        let memory = TcpMemory::read().ok().filter(TcpMemory::may_be_short);
        seen.short_of_memory = seen.short_of_memory.or(memory);
        for (node, view) in &mut views {
            let on_node = |hop: &&HopSockets| hop.node == **node;
            let Some(first) = hops.iter().find(on_node) else { continue };
            let sockets = view.connections(first.local.is_ipv6()).map_err(failed)?;
            let time_s = stage.started().elapsed().as_secs_f64();
            for (n, place) in hops.iter().enumerate().filter(|(_, hop)| on_node(hop)) {
                if !phases.is_carried(&place.flow) {
                    continue;
                }
                let (before, rest) = seen.hops.split_at_mut(n);
                let hop = &mut rest[0];
                if hop.connections.is_empty() {
                    let earlier = before.iter().zip(&hops[..n]).rev();
                    let earlier = earlier.filter(|(_, other)| place.is_taken_over(other));
                    hop.before = earlier.flat_map(|(seen, _)| seen.connections.clone()).collect();
                }
                let found =
                    sockets.iter().filter(|s| s.local == place.local && place.is_peer(s.peer.ip()));
                let found: Vec<&TcpSocket> =
                    found.filter(|socket| assignment.has(place, socket)).collect();
                if !found.is_empty() {
                    open = true;
                    hop.look(place, &found, time_s, &mut seen.series);
                }
            }
        }
        let time_s = stage.started().elapsed().as_secs_f64();
        for ((entity, before), directed_link) in
            directed_links.iter().zip(&mut before).zip(stage.link_states()?)
        {
            let counted = (directed_link.counters.queue_drops, directed_link.counters.losses);
            for (quantity, value) in [
                (Quantity::QueueBytes, directed_link.queue_bytes),
                (Quantity::Drops, counted.0 - before.0),
                (Quantity::Losses, counted.1 - before.1),
            ] {
                seen.series.push(entity, quantity, time_s, value as f64);
            }
            *before = counted;
        }
        let has_begun = |receiver: &&Arriving| receiver.is_here && phases.has_begun(&receiver.flow);
        for receiver in arriving.iter().filter(has_begun) {
            if let Some(bytes) = receiver.received() {
                let entity = Entity::Flow(receiver.flow.clone());
                seen.series.push(&entity, Quantity::ReceivedBytes, time_s, bytes as f64);
            }
        }
        if linger.is_some_and(|end| !open || Instant::now() > end) {
            return Ok(seen);
        }
        match (stop.recv_timeout(INTERVAL), linger) {
            (Err(mpsc::RecvTimeoutError::Timeout), _) => {}
            (_, None) => linger = Some(Instant::now() + LINGER),
            (_, Some(_)) => std::thread::sleep(INTERVAL),
        }
    }
}

/// The entity of a directed link named `LINK/forward` or `LINK/backward`.
pub fn link_entity(directed_link: &str) -> Entity {
    Entity::parse(&format!("link:{directed_link}"))
        .expect("directed_links are named LINK/DIRECTION")
}

impl HopObservation {
    /// One sample of all connections that the hop has now: totals are over all that it ever had, the
    /// rest is of the one that has carried most.
    fn look(&mut self, place: &HopSockets, found: &[&TcpSocket], time_s: f64, series: &mut Series) {
        for &socket in found {
            match self.connections.iter_mut().find(|known| known.cookie == socket.cookie) {
                Some(known) => *known = socket.clone(),
                None => self.connections.push(socket.clone()),
            }
        }
        let is_open = |known: &&TcpSocket| found.iter().any(|s| s.cookie == known.cookie);
        let Some(carrier) = self.carrier_of(|known| is_open(&known)).cloned() else { return };
        self.limits.look(&carrier, time_s);
        let info = &carrier.info;
        let entity = Entity::Hop { flow: place.flow.clone(), index: place.index };
        let mut push = |quantity, value| series.push(&entity, quantity, time_s, value);
        push(Quantity::AckedBytes, self.total(|s| s.info.acked.get()) as f64);
        push(Quantity::DeliveredBytes, self.total(|s| s.info.delivered.get()) as f64);
        push(Quantity::Retransmits, self.total(|s| s.info.retransmits.into()) as f64);
        push(Quantity::CwndSegments, info.cwnd_segments.into());
        if let Some(ssthresh) = info.ssthresh_segments {
            push(Quantity::SsthreshSegments, ssthresh.into());
        }
        push(Quantity::SrttUs, info.rtt_us.into());
        if let Some(min_rtt_us) = info.min_rtt_us {
            push(Quantity::MinRttUs, min_rtt_us.into());
        }
        let bps = |rate: Rate| rate.bps() as f64;
        push(Quantity::DeliveryRateBps, info.delivery_rate.map_or(0.0, bps));
        if let Some(rate) = info.pacing_rate {
            push(Quantity::PacingRateBps, bps(rate));
        }
    }
}
