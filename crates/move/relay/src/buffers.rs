// SPDX-License-Identifier: GPL-2.0-or-later
//! Buffers that follow the path: one task measures all connections with a transfer, and carries out what
//! `governor` decides.
//!
//! The kernel tunes buffers up to `net.ipv4.tcp_wmem` and `tcp_rmem`. Only if that is too little for a
//! connection does the depot raise a buffer, within the kernel's limit and within `limits.memory`, which pipes
//! share. After the transfer the kernel tunes the send buffer again. A receive buffer keeps its size, and is
//! charged, until the connection closes, because its window has been offered.

mod creep;
mod governor;
mod kernel_memory;
mod system;

pub use kernel_memory::{KernelMemory, LargestClient, NoMemory, Transfer};

use crate::{
    client_key::host_key,
    copy::pipe::{Pipes, Share},
    shrink,
    tcp::{
        MemoryLevel, Wire,
        info::{self, SocketMemory, is_mptcp_socket, is_sndbuf_fixed, tcp_info},
        socket_options::{HopOptions, raise_rcvbuf, raise_sndbuf, tuned_sndbuf},
    },
};
use creep::Creep;
use governor::{Bounds, Decision, Governor, Seen};
use host::TcpMemory;
use std::{
    collections::{HashMap, HashSet},
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Weak},
    time::Duration,
};
use system::Limits;
use tokio::net::TcpStream;
use units::Bytes;

/// How often the log says at most that connections creep.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// How often to call [`BufferTuner::look`].
pub const PERIOD: Duration = Duration::from_millis(250);

/// All tuned connections, by the address of their socket objects.
#[derive(Debug, Default)]
pub struct BufferTuner {
    connections: HashMap<usize, Connection>,
    /// Whether a refusal by the kernel was logged.
    complained: bool,
    /// When the log last said that connections creep.
    said_creeping: Option<Duration>,
}

/// A transfer under way, as a look needs it.
#[derive(Debug)]
pub struct Holding {
    /// The client that it counts for.
    pub client: IpAddr,
    /// What is in its pipes, in bytes.
    pub piped: usize,
    /// Its sockets.
    pub sockets: Vec<Weak<Wire>>,
}

/// A tuned connection.
#[derive(Debug)]
struct Connection {
    socket: Weak<Wire>,
    /// The client that it last had a transfer for, as [`host_key`] has it.
    client: IpAddr,
    governor: Governor,
    creep: Creep,
    /// Bytes moved over it, in both directions, at the last look.
    moved: Option<u64>,
    /// Its send buffer, if it was raised.
    sending: Option<Raised>,
    /// Its receive buffer's share of the memory, if it was raised.
    receiving: Option<Share>,
}

/// A send buffer that was raised.
#[derive(Debug)]
struct Raised {
    /// Its size before.
    from: Bytes,
    /// Its share of the memory.
    share: Share,
}

impl BufferTuner {
    /// Tunes the connections with a transfer, and forgets the others. `options` are those for the peer at an
    /// address, `unsent` is the maximum kept unsent, and sockets share `memory` with the pipes, of which a client has
    /// `share` bytes.
    pub fn look<'o>(
        &mut self,
        live: &[Holding],
        at: Duration,
        options: impl Fn(IpAddr) -> HopOptions<'o>,
        unsent: Bytes,
        (memory, share): (&KernelMemory, usize),
    ) {
        let sockets = || live.iter().flat_map(|transfer| &transfer.sockets);
        let working: HashSet<usize> = sockets().map(|socket| socket.as_ptr().addr()).collect();
        self.connections
            .retain(|address, connection| working.contains(address) || connection.rests());
        shrink(&mut self.connections);
        let (sockets, by_client) = held_by(live);
        let held = sockets.iter().map(|(_, _, memory)| memory.held).sum();
        // Where it cannot be read, there is the depot's own limit alone.
        let host = TcpMemory::read().ok();
        let of_host = host.map_or(0, |host| host.part_of(memory.limit()));
        let mut levels = memory.measured(held, of_host, &by_client, share);
        if sockets.is_empty() {
            return;
        }
        let mut creeping = None;
        let system = Limits::read();
        let raised = self.raised_by_client();
        for (client, socket, held) in sockets {
            let Some((seen, window)) = see(&socket, held, at) else { continue };
            // An address is not reused while another task still has it.
            let connection = self
                .connections
                .entry(Arc::as_ptr(&socket).addr())
                .or_insert_with(|| Connection::new(&socket, client));
            connection.client = client;
            let crept = connection.creep.look(&seen, held.received);
            if !crept.is_zero() {
                socket.has_crept(crept);
                creeping = Some((socket.peer(), seen.window));
            }
            let level = levels.level(client, socket.memory_level(), connection.moved(&seen));
            // A socket that cannot be restricted goes on without.
            let _ = socket.set_memory_level(level);
            let Some(of) = Governed::by(&socket, &options(socket.peer().ip())) else { continue };
            let of = if level == MemoryLevel::Free { of } else { Governed::NOTHING };
            let pipes = memory.pipes();
            let raised = raised.get(&client).copied().unwrap_or(0);
            let room = pipes.room_for(share.saturating_sub(raised));
            let look = Look { of, unsent, memory: pipes, room, system };
            if !connection.look(&socket, (seen, window), &look) && !self.complained {
                self.complained = true;
                tracing::warn!(
                    "the kernel does not let this depot raise a buffer as the path needs it: raise \
                     net.ipv4.tcp_wmem and tcp_rmem (docs/depot/configuration.md, Buffers), or give it CAP_NET_ADMIN"
                );
            }
        }
        if let Some((peer, window)) = creeping {
            self.say_creeping(at, peer, window, host);
        }
    }

    /// Says once a minute that connections creep, of which this is one.
    fn say_creeping(
        &mut self,
        at: Duration,
        peer: SocketAddr,
        window: Bytes,
        host: Option<TcpMemory>,
    ) {
        if self.said_creeping.is_some_and(|said| at.saturating_sub(said) < SAID_AGAIN) {
            return;
        }
        self.said_creeping = Some(at);
        let pressure = host.and_then(|host| host.pressure);
        tracing::warn!(
            %peer,
            window = window.get(),
            tcp_memory = host.map(|host| host.held.get()),
            pressure_begins = pressure.map(|pressure| pressure.begins.get()),
            "the kernel offers this peer a few segments at a time, although all that comes is read: it is short of memory for \
             TCP (net.ipv4.tcp_mem), or this control group is near its limit, or the receive buffer is fixed and tiny \
             (docs/troubleshooting.md, A hop creeps)"
        );
    }

    /// What each client's raised buffers have of the memory.
    fn raised_by_client(&self) -> HashMap<IpAddr, usize> {
        let mut raised = HashMap::new();
        for connection in self.connections.values() {
            let sending = connection.sending.as_ref().map(|raised| &raised.share);
            let shares = sending.into_iter().chain(&connection.receiving);
            *raised.entry(connection.client).or_default() +=
                shares.map(Share::bytes).sum::<usize>();
        }
        raised
    }
}

/// The sockets of all transfers with their clients and their memory, and what each client's transfers hold.
#[expect(clippy::type_complexity, reason = "taken apart at once")]
fn held_by(live: &[Holding]) -> (Vec<(IpAddr, Arc<Wire>, SocketMemory)>, HashMap<IpAddr, usize>) {
    let (mut sockets, mut by_client) = (Vec::new(), HashMap::new());
    for transfer in live {
        let client = host_key(transfer.client);
        let own = by_client.entry(client).or_default();
        *own += transfer.piped;
        for socket in transfer.sockets.iter().filter_map(Weak::upgrade) {
            // None where the kernel does not report it.
            let memory = info::memory(&*socket).unwrap_or_default();
            *own += memory.held;
            sockets.push((client, socket, memory));
        }
    }
    (sockets, by_client)
}

/// What to tune of a connection.
#[derive(Debug, Clone, Copy)]
struct Governed {
    sndbuf: bool,
    rcvbuf: bool,
    unsent: bool,
}

impl Governed {
    /// For a connection that gets no more memory.
    const NOTHING: Self = Self { sndbuf: false, rcvbuf: false, unsent: false };

    /// The settings that the configuration leaves open.
    fn by(socket: &Wire, options: &HopOptions<'_>) -> Option<Self> {
        // What the kernel tells of a connection over several paths is of one of them.
        if !options.raise_buffers || is_mptcp_socket(socket) {
            return None;
        }
        Some(Self {
            sndbuf: options.sndbuf.is_none(),
            rcvbuf: options.rcvbuf.is_none(),
            unsent: options.notsent_lowat.is_none(),
        })
    }
}

/// The values that stay the same for a connection throughout a look.
#[derive(Debug, Clone, Copy)]
struct Look<'a> {
    of: Governed,
    unsent: Bytes,
    memory: &'a Arc<Pipes>,
    /// How much more of it the connection's client may have.
    room: usize,
    system: Limits,
}

impl Connection {
    fn new(socket: &Arc<Wire>, client: IpAddr) -> Self {
        let (socket, governor) = (Arc::downgrade(socket), Governor::default());
        let creep = Creep::default();
        Self { socket, client, governor, creep, moved: None, sending: None, receiving: None }
    }

    /// Bytes moved since the last look, if there was one.
    fn moved(&mut self, seen: &Seen) -> Option<u64> {
        let moved = seen.sent.get() + seen.received.get();
        self.moved.replace(moved).map(|before| moved.saturating_sub(before))
    }

    /// Returns the memory that can be returned. Returns whether any remains.
    fn rests(&mut self) -> bool {
        let Some(socket) = self.socket.upgrade() else { return false };
        let _ = socket.set_memory_level(MemoryLevel::Free);
        if let Some(Raised { from, .. }) = &self.sending
            && tuned_sndbuf(socket.socket(), *from).is_ok()
        {
            self.sending = None;
        }
        // What was seen belongs to a transfer that is over.
        (self.governor, self.creep) = (Governor::default(), Creep::default());
        self.sending.is_some() || self.receiving.is_some()
    }

    /// Measures and acts. `false` if the kernel refused.
    fn look(&mut self, socket: &Wire, (seen, window): (Seen, Bytes), look: &Look<'_>) -> bool {
        let bounds = self.bounds(&seen, window, look);
        let Decision { sndbuf, rcvbuf, unsent } = self.governor.look(seen, &bounds);
        if let Some(unsent) = unsent.filter(|_| look.of.unsent) {
            // A kernel that does not take it keeps what there was.
            let _ = socket.keep_unsent(unsent);
        }
        let sent = sndbuf.is_none_or(|size| self.raise_sndbuf(socket, &seen, size, look.memory));
        let received = rcvbuf.is_none_or(|size| self.raise_rcvbuf(socket, size, look.memory));
        sent && received
    }

    /// The bounds of the buffers. Raised ones have their share of the memory already.
    fn bounds(&self, seen: &Seen, window: Bytes, look: &Look<'_>) -> Bounds {
        let room = look.room;
        let most = |governed: bool, share: Option<&Share>| {
            let bytes = share.map_or(0, Share::bytes) + room;
            Bytes::new(if governed { bytes as u64 } else { 0 })
        };
        // One that was raised counts as tuned so far, by the depot.
        let tuned = |raised: bool, now: Bytes, tuned| if raised { Some(now) } else { tuned };
        let sending = self.sending.as_ref().map(|raised| &raised.share);
        let receiving = self.receiving.as_ref();
        Bounds {
            tuned_sndbuf: tuned(sending.is_some(), seen.sndbuf, look.system.tuned_sndbuf),
            tuned_rcvbuf: tuned(receiving.is_some(), seen.rcvbuf, look.system.tuned_rcvbuf),
            sndbuf: most(look.of.sndbuf, sending),
            rcvbuf: most(look.of.rcvbuf, receiving),
            window,
            unsent: look.unsent,
        }
    }

    fn raise_sndbuf(
        &mut self,
        socket: &Wire,
        seen: &Seen,
        size: Bytes,
        memory: &Arc<Pipes>,
    ) -> bool {
        if self.sending.is_none() && is_sndbuf_fixed(socket).unwrap_or(false) {
            // By settings that have been replaced since.
            return true;
        }
        let mut raised = self
            .sending
            .take()
            .unwrap_or_else(|| Raised { from: seen.sndbuf, share: Share::of(memory) });
        let done = raise(&mut raised.share, size, || raise_sndbuf(socket, size));
        said("send buffer raised", socket, &done);
        // One that could not be raised at all has no part.
        self.sending = Some(raised).filter(|raised| raised.share.bytes() > 0);
        done.is_ok()
    }

    fn raise_rcvbuf(&mut self, socket: &Wire, size: Bytes, memory: &Arc<Pipes>) -> bool {
        let mut share = self.receiving.take().unwrap_or_else(|| Share::of(memory));
        let done = raise(&mut share, size, || raise_rcvbuf(socket, size));
        said("receive buffer raised", socket, &done);
        self.receiving = Some(share).filter(|share| share.bytes() > 0);
        done.is_ok()
    }
}

/// Raises a buffer within its share of the memory, and sets the share to the buffer's new size. `None` if
/// another connection has just taken the memory.
fn raise(
    share: &mut Share,
    size: Bytes,
    act: impl FnOnce() -> io::Result<Bytes>,
) -> io::Result<Option<Bytes>> {
    let before = share.bytes();
    if !share.resize(size.get() as usize) {
        return Ok(None);
    }
    let now = act();
    share.resize(now.as_ref().map_or(before, |now| now.get() as usize));
    now.map(Some)
}

fn said(what: &str, socket: &Wire, done: &io::Result<Option<Bytes>>) {
    if let Ok(Some(now)) = done {
        tracing::debug!(peer = %socket.peer(), bytes = now.get(), "{what}");
    }
}

/// The measured values of a connection, and the largest window that it can offer.
fn see(socket: &TcpStream, memory: SocketMemory, at: Duration) -> Option<(Seen, Bytes)> {
    let info = tcp_info(socket).ok()?;
    let seen = Seen {
        at,
        delivery_rate: info.delivery_rate,
        min_rtt: info.min_rtt_us.map(|us| Duration::from_micros(us.into())),
        unsent: info.unsent,
        sent: info.sent,
        received: info.received,
        sndbuf_limited: info.sndbuf_limited,
        window: info.window,
        sndbuf: Bytes::new(memory.sndbuf as u64),
        rcvbuf: Bytes::new(memory.rcvbuf as u64),
    };
    Some((seen, Bytes::new(0xffff << info.rcv_wscale)))
}

#[cfg(test)]
mod tests;
