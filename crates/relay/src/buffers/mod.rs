// SPDX-License-Identifier: GPL-2.0-or-later
//! Buffers that follow the path: what `governor` decides, seen and done for all connections that
//! have a transfer, by one task.
//!
//! The kernel tunes buffers by itself, up to `net.ipv4.tcp_wmem` and `tcp_rmem`. Only where that is
//! too little for a connection does the depot raise a buffer, as far as the kernel lets it, and
//! `limits.memory` together with all pipes. A send buffer is the kernel's to tune again when the
//! transfer is over. A receive buffer stays as it is until the connection closes, because its
//! window has been offered, and counts for as long.

mod governor;
mod kernel_memory;
mod system;

pub use kernel_memory::{KernelMemory, Transfer};

use crate::{
    copy::pipe::{Pipes, Share},
    shrink,
    tcp::{
        MemoryLevel, Wire,
        info::{self, SocketMemory, is_mptcp_socket, is_sndbuf_fixed, tcp_info},
        socket_options::{HopOptions, raise_rcvbuf, raise_sndbuf, tuned_sndbuf},
    },
};
use governor::{Bounds, Decision, Governor, Seen};
use std::{
    collections::{HashMap, HashSet},
    io,
    net::IpAddr,
    sync::{Arc, Weak},
    time::Duration,
};
use system::Limits;
use tokio::net::TcpStream;
use units::Bytes;

/// How often [`BufferTuner::look`] is to be called.
pub const PERIOD: Duration = Duration::from_millis(250);

/// All connections that are looked after, by the address at which their sockets lie.
#[derive(Debug, Default)]
pub struct BufferTuner {
    connections: HashMap<usize, Connection>,
    /// Whether a refusal by the kernel was logged.
    complained: bool,
}

/// One that is looked after.
#[derive(Debug)]
struct Connection {
    socket: Weak<Wire>,
    governor: Governor,
    /// What had moved over it, either way, at the last look.
    moved: Option<u64>,
    /// Of a send buffer that was raised.
    sending: Option<Raised>,
    /// Of a receive buffer that was: its part of the memory.
    receiving: Option<Share>,
}

/// A send buffer that was raised.
#[derive(Debug)]
struct Raised {
    /// What it was before.
    from: Bytes,
    /// Its part of the memory.
    share: Share,
}

impl BufferTuner {
    /// Looks at the connections that have a transfer, and lets go of the others. `options` are those for
    /// the peer at an address, `unsent` is how much is kept unsent at most, and `memory` is what all
    /// sockets share with the pipes.
    pub fn look<'o>(
        &mut self,
        live: &[Weak<Wire>],
        at: Duration,
        options: impl Fn(IpAddr) -> HopOptions<'o>,
        unsent: Bytes,
        memory: &KernelMemory,
    ) {
        let working: HashSet<usize> = live.iter().map(|socket| socket.as_ptr().addr()).collect();
        self.connections
            .retain(|address, connection| working.contains(address) || connection.rests());
        shrink(&mut self.connections);
        let sockets: Vec<_> = live.iter().filter_map(Weak::upgrade).map(with_memory).collect();
        let mut levels = memory.measured(sockets.iter().map(|(_, memory)| memory.held).sum());
        if sockets.is_empty() {
            return;
        }
        let system = Limits::read();
        for (socket, held) in sockets {
            let Some((seen, window)) = see(&socket, held, at) else { continue };
            // An address is not reused while another task still has it.
            let connection = self
                .connections
                .entry(Arc::as_ptr(&socket).addr())
                .or_insert_with(|| Connection::new(&socket));
            let level = levels.level(socket.memory_level(), connection.moved(&seen));
            // A socket that cannot be restricted goes on without.
            let _ = socket.set_memory_level(level);
            let Some(of) = Governed::by(&socket, &options(socket.peer().ip())) else { continue };
            let of = if level == MemoryLevel::Free { of } else { Governed::NOTHING };
            let look = Look { of, unsent, memory: memory.pipes(), system };
            if !connection.look(&socket, (seen, window), &look) && !self.complained {
                self.complained = true;
                tracing::warn!(
                    "the kernel does not let this depot raise a buffer as the path needs it: raise \
                     net.ipv4.tcp_wmem and tcp_rmem (docs/depot/configuration.md, Buffers), or give it CAP_NET_ADMIN"
                );
            }
        }
    }
}

/// What of a connection is to be looked after.
#[derive(Debug, Clone, Copy)]
struct Governed {
    sndbuf: bool,
    rcvbuf: bool,
    unsent: bool,
}

impl Governed {
    /// For a connection that is to get no more memory.
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

/// What is the same for a connection throughout a look.
#[derive(Debug, Clone, Copy)]
struct Look<'a> {
    of: Governed,
    unsent: Bytes,
    memory: &'a Arc<Pipes>,
    system: Limits,
}

impl Connection {
    fn new(socket: &Arc<Wire>) -> Self {
        let (socket, governor) = (Arc::downgrade(socket), Governor::default());
        Self { socket, governor, moved: None, sending: None, receiving: None }
    }

    /// How many bytes have moved since the last look, if there was one.
    fn moved(&mut self, seen: &Seen) -> Option<u64> {
        let moved = seen.sent.get() + seen.received.get();
        self.moved.replace(moved).map(|before| moved.saturating_sub(before))
    }

    /// Gives back what can be; says whether there is something left to remember.
    fn rests(&mut self) -> bool {
        let Some(socket) = self.socket.upgrade() else { return false };
        let _ = socket.set_memory_level(MemoryLevel::Free);
        if let Some(Raised { from, .. }) = &self.sending
            && tuned_sndbuf(socket.socket(), *from).is_ok()
        {
            self.sending = None;
        }
        // What was seen belongs to a transfer that is over.
        self.governor = Governor::default();
        self.sending.is_some() || self.receiving.is_some()
    }

    /// Looks and acts; false where the kernel refused.
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

    /// What the buffers may be: raised ones have their part of the memory already.
    fn bounds(&self, seen: &Seen, window: Bytes, look: &Look<'_>) -> Bounds {
        let room = look.memory.room();
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

/// A socket with its memory; none where the kernel does not tell.
fn with_memory(socket: Arc<Wire>) -> (Arc<Wire>, SocketMemory) {
    let memory = info::memory(&*socket).unwrap_or_default();
    (socket, memory)
}

/// What there is to be seen of a connection, and the largest window that it can offer.
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
