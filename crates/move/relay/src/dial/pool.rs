// SPDX-License-Identifier: GPL-2.0-or-later
//! Idle connections to peers, kept for reuse.
//!
//! A reused connection needs no handshake and begins with the window that its last transfer left. Which
//! connections exist follows from use. Their number and age are bounded.
//!
//! Connections are kept by peer and by the grant under which they were opened (`L`). Each carries the
//! generation of the rules that allowed it. The one whose windows have grown most is taken first (`growth`), and
//! of equal ones the most recently used. A peer may have agreed to hold a connection for longer than others are kept; such connections
//! are also opened ahead of need ([`Pool::put_unused`]). New rules start a new generation. Connections that
//! they still allow move to it ([`Pool::readmit`]), and the rest is closed. A connection of an older
//! generation is neither kept nor used.

use super::growth::{Growth, restarts_after_idle};
use crate::{
    dial::PeerAddr,
    tcp::{
        Stream,
        info::{reset_on_close, tcp_info},
    },
};
use bytes::BytesMut;
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};
use tokio::time::Instant;

/// Which rules allowed a connection. Later rules have a larger number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generation(u64);

impl Generation {
    /// That of the rules that follow.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The key of interchangeable connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key<L> {
    /// The peer, as the request names it.
    pub peer: PeerAddr,
    /// The grant that it was opened under. A request under another grant cannot use it.
    pub leave: L,
}

/// Limits of the pool.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of connections of one key. 0 keeps none.
    pub per_key: usize,
    /// Maximum idle time of a connection that its peer has not agreed to hold for longer.
    pub idle: Duration,
}

/// A connection between two uses.
#[derive(Debug)]
pub struct Kept {
    /// The connection.
    pub stream: Stream,
    /// Its read buffer, for reuse.
    pub ahead: BytesMut,
    /// How long the peer has agreed to hold it while idle. `None`: the peer was not asked, and
    /// [`Limits::idle`] applies.
    pub held: Option<Duration>,
    /// When an exchange ended on it last; `None` before the first.
    pub used: Option<Instant>,
}

/// Idle connections.
#[derive(Debug)]
pub struct Pool<L> {
    state: Mutex<State<L>>,
}

#[derive(Debug)]
struct State<L> {
    generation: Generation,
    /// Of each key, the most recently used one last.
    idle: HashMap<Key<L>, Vec<Idle>>,
    /// Whether windows shrink while a connection is idle.
    restarts: bool,
}

/// A connection on which an exchange has ended in good order. It is set to reset on close, because aborting
/// the next exchange must reset it. Closed while idle, it ends in good order.
#[derive(Debug)]
struct Idle {
    kept: Option<Kept>,
    since: Instant,
    growth: Growth,
}

impl Idle {
    fn new(kept: Kept) -> Self {
        let growth =
            tcp_info(kept.stream.tcp()).map_or_else(|_| Growth::default(), |it| Growth::of(&it));
        Self { kept: Some(kept), since: Instant::now(), growth }
    }

    /// By which of several is preferred.
    fn rank(&self, restarts: bool) -> impl Ord + use<> {
        (self.growth.windows(self.since.elapsed(), restarts), self.used())
    }

    fn used(&self) -> Option<Instant> {
        self.kept.as_ref()?.used
    }

    fn stream(&self) -> Option<&Stream> {
        Some(&self.kept.as_ref()?.stream)
    }

    fn held(&self) -> Option<Duration> {
        self.kept.as_ref()?.held
    }

    fn is_in_time(&self, limits: Limits) -> bool {
        self.since.elapsed() < self.held().unwrap_or(limits.idle)
    }

    /// Whether it has received nothing.
    fn stands(&mut self) -> bool {
        self.kept.as_mut().is_some_and(|kept| stands(&mut kept.stream))
    }

    fn wake(mut self) -> Option<Kept> {
        self.kept.take()
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(stream) = self.stream() {
            reset_on_close(stream.tcp(), false);
        }
    }
}

impl<L> Default for Pool<L> {
    fn default() -> Self {
        let (generation, idle) = (Generation::default(), HashMap::new());
        let state = State { generation, idle, restarts: restarts_after_idle() };
        Self { state: Mutex::new(state) }
    }
}

impl<L: Eq + Hash> Pool<L> {
    /// The connection that has grown most of those that are still usable, and its generation.
    pub fn take(&self, key: &Key<L>, limits: Limits) -> Option<(Kept, Generation)> {
        loop {
            let (mut idle, generation) = {
                let mut state = self.state();
                let (generation, restarts) = (state.generation, state.restarts);
                let of_key = state.idle.get_mut(key)?;
                let places = of_key.iter().enumerate();
                let (best, _) = places.max_by_key(|(at, idle)| (idle.rank(restarts), *at))?;
                (of_key.remove(best), generation)
            };
            if idle.is_in_time(limits)
                && idle.stands()
                && let Some(kept) = idle.wake()
            {
                return Some((kept, generation));
            }
        }
    }

    /// Keeps a connection on which an exchange has ended in good order, unless the rules that allowed it were
    /// replaced.
    pub fn put(&self, key: Key<L>, kept: Kept, generation: Generation, limits: Limits) {
        self.put_unused(key, Kept { used: Some(Instant::now()), ..kept }, generation, limits);
    }

    /// Like [`put`](Self::put), for a connection on which no exchange has ended.
    pub fn put_unused(&self, key: Key<L>, kept: Kept, generation: Generation, limits: Limits) {
        let idle = Idle::new(kept);
        let mut state = self.state();
        // Under the lock. Otherwise a sweep of all connections could pass in between and miss this one.
        if state.generation != generation {
            return;
        }
        let of_key = state.idle.entry(key).or_default();
        if of_key.len() < limits.per_key {
            let at = of_key.partition_point(|other| other.used() <= idle.used());
            of_key.insert(at, idle);
        }
    }

    /// Closes the unusable connections of a key, and counts the others.
    pub fn standing(&self, key: &Key<L>, limits: Limits) -> usize {
        let mut state = self.state();
        let Some(of_key) = state.idle.get_mut(key) else { return 0 };
        of_key.retain_mut(|idle| idle.is_in_time(limits) && idle.stands());
        of_key.len()
    }

    /// A connection that the peer should be asked to hold: for the first time, or again, if it is among the
    /// `lasting` that are taken first and half of its time is over.
    pub fn take_due(&self, key: &Key<L>, lasting: usize) -> Option<(Kept, Generation)> {
        let mut state = self.state();
        let (generation, restarts) = (state.generation, state.restarts);
        let of_key = state.idle.get_mut(key)?;
        let mut ranked: Vec<usize> = (0..of_key.len()).collect();
        ranked.sort_by_cached_key(|at| (of_key[*at].rank(restarts), *at));
        let lasting = &ranked[ranked.len().saturating_sub(lasting)..];
        let is_due = |at: &usize| {
            let idle = &of_key[*at];
            let is_half_over = |held| lasting.contains(at) && idle.since.elapsed() > held / 2;
            idle.held().is_none_or(is_half_over)
        };
        let at = (0..of_key.len()).find(is_due)?;
        Some((of_key.remove(at).wake()?, generation))
    }

    /// Closes the connections of a key.
    pub fn forget(&self, key: &Key<L>) {
        self.state().idle.remove(key);
    }

    /// Starts a new generation. Connections that `is_allowed` move to it, all others are closed.
    pub fn readmit(
        &self,
        generation: Generation,
        mut is_allowed: impl FnMut(&Key<L>, &Stream) -> bool,
    ) {
        let mut state = self.state();
        state.generation = generation;
        state.idle.retain(|key, of_key| {
            of_key.retain(|idle| idle.stream().is_some_and(|stream| is_allowed(key, stream)));
            !of_key.is_empty()
        });
    }

    /// Closes those that have been idle for too long.
    pub fn tidy(&self, limits: Limits) {
        let restarts = restarts_after_idle();
        let mut state = self.state();
        state.restarts = restarts;
        state.idle.retain(|_, of_key| {
            of_key.retain(|idle| idle.is_in_time(limits));
            !of_key.is_empty()
        });
    }

    /// The number of idle connections.
    pub fn len(&self) -> usize {
        self.state().idle.values().map(Vec::len).sum()
    }

    /// Whether there are no idle connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an idle connection has received nothing: no end, no error and no unrequested bytes. It asks the
/// kernel, because the runtime may not know yet of new bytes, and TLS, which may have taken more from the
/// kernel than was read.
fn stands(stream: &mut Stream) -> bool {
    let tls = stream.is_tls();
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    let peeked = rustix::net::recv(stream.tcp(), &mut [0; 1], flags);
    let empty = matches!(peeked, Err(error) if error == rustix::io::Errno::WOULDBLOCK);
    let mut nothing_left = || {
        let mut context = Context::from_waker(Waker::noop());
        stream.poll_read(&mut context, &mut BytesMut::new(), 1).is_pending()
    };
    empty && (!tls || nothing_left())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, io::Write};
    use tokio::net::TcpStream;

    const LIMITS: Limits = Limits { per_key: 2, idle: Duration::from_secs(60) };

    fn key(leave: &'static str) -> Key<&'static str> {
        Key { peer: PeerAddr::new("192.0.2.1", 80, false), leave }
    }

    /// A connection, and the listener that keeps it open.
    async fn connection() -> (Kept, std::net::TcpListener) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = Stream::new(TcpStream::connect(address).await.unwrap(), address);
        (Kept { stream, ahead: BytesMut::new(), held: None, used: None }, listener)
    }

    #[tokio::test]
    async fn reload_keeps_only_permitted_connections() {
        let (pool, first) = (Pool::default(), Generation::default());
        let (a, _a) = connection().await;
        let (b, _b) = connection().await;
        let (late, _late) = connection().await;
        pool.put(key("rules"), a, first, LIMITS);
        pool.put(key("ticket"), b, first, LIMITS);
        let second = first.next();
        pool.readmit(second, |key, _| key.leave == "ticket");
        assert_eq!(pool.len(), 1);
        assert!(pool.take(&key("rules"), LIMITS).is_none(), "no longer allowed");
        // One that was in use meanwhile may not be allowed either.
        pool.put(key("rules"), late, first, LIMITS);
        assert_eq!(pool.len(), 1);
        let (kept, generation) = pool.take(&key("ticket"), LIMITS).unwrap();
        assert_eq!(generation, second, "it belongs to the new rules");
        pool.put(key("ticket"), kept, generation, LIMITS);
        assert_eq!(pool.len(), 1);
    }

    #[tokio::test]
    async fn pool_is_bounded_by_grant_and_count() {
        let (pool, generation) = (Pool::default(), Generation::default());
        let mut listeners = Vec::new();
        for _ in 0..3 {
            let (kept, listener) = connection().await;
            listeners.push(listener);
            pool.put(key("ticket"), kept, generation, LIMITS);
        }
        assert_eq!(pool.len(), LIMITS.per_key);
        assert!(pool.take(&key("rules"), LIMITS).is_none(), "opened by another leave");
        let at_once = Limits { idle: Duration::ZERO, ..LIMITS };
        assert!(pool.take(&key("ticket"), at_once).is_none(), "idle for too long");
        pool.tidy(at_once);
        assert!(pool.is_empty());
    }

    /// The local port, by which tests tell connections apart.
    fn port(kept: &Kept) -> u16 {
        kept.stream.tcp().local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn pool_prefers_recently_used_connections() {
        let (pool, generation) = (Pool::default(), Generation::default());
        let limits = Limits { per_key: 9, ..LIMITS };
        let mut listeners = Vec::new();
        let mut ports = Vec::new();
        for is_used in [true, false, true, false] {
            let (kept, listener) = connection().await;
            listeners.push(listener);
            ports.push(port(&kept));
            if is_used {
                pool.put(key("rules"), kept, generation, limits);
            } else {
                pool.put_unused(key("rules"), kept, generation, limits);
            }
        }
        let mut taken = Vec::new();
        while let Some((kept, _)) = pool.take(&key("rules"), limits) {
            taken.push(port(&kept));
        }
        assert_eq!(taken[..2], [ports[2], ports[0]]);
        assert_eq!(taken.len(), 4);
    }

    #[tokio::test]
    async fn pool_takes_the_connection_that_has_grown_most() {
        let (pool, generation) = (Pool::default(), Generation::default());
        let limits = Limits { per_key: 9, ..LIMITS };
        let (mut ports, mut peers) = (Vec::new(), Vec::new());
        // Only the last one was used; the second one has received most.
        for (bytes, is_used) in [(100_000, false), (2_000_000, false), (10_000, true)] {
            let (mut kept, listener) = connection().await;
            let (mut peer, _) = listener.accept().unwrap();
            let sending = std::thread::spawn(move || {
                peer.write_all(&vec![0; bytes]).unwrap();
                peer
            });
            let (mut received, mut buffer) = (0, BytesMut::new());
            while received < bytes {
                let read = poll_fn(|cx| kept.stream.poll_read(cx, &mut buffer, 1 << 16)).await;
                received += read.unwrap();
                buffer.clear();
            }
            peers.push(sending.join().unwrap());
            ports.push(port(&kept));
            if is_used {
                pool.put(key("rules"), kept, generation, limits);
            } else {
                pool.put_unused(key("rules"), kept, generation, limits);
            }
        }
        let due = pool.take_due(&key("rules"), 1).map(|(kept, _)| port(&kept));
        assert_eq!(due, Some(ports[0]), "none is held yet; it was used longest ago");
        let take = || pool.take(&key("rules"), limits).map(|(kept, _)| port(&kept));
        assert_eq!([take(), take(), take()], [Some(ports[1]), Some(ports[2]), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn held_connections_outlast_others() {
        let (pool, generation) = (Pool::default(), Generation::default());
        let limits = Limits { per_key: 9, idle: Duration::from_secs(4) };
        let mut listeners = Vec::new();
        let mut ports = Vec::new();
        for held in [None, Some(600), Some(600), Some(600)] {
            let (kept, listener) = connection().await;
            listeners.push(listener);
            ports.push(port(&kept));
            let held = held.map(Duration::from_secs);
            pool.put(key("rules"), Kept { held, ..kept }, generation, limits);
        }
        let due = || pool.take_due(&key("rules"), 2).map(|(kept, _)| kept);
        assert_eq!(due().map(|kept| port(&kept)), Some(ports[0]), "it has not been requested");
        assert!(due().is_none());
        tokio::time::advance(Duration::from_secs(301)).await;
        pool.tidy(limits);
        assert_eq!(pool.standing(&key("rules"), limits), 3);
        let renewed = due().expect("half of its time is over");
        assert_eq!(port(&renewed), ports[2], "of the two that were used last");
        pool.put_unused(key("rules"), renewed, generation, limits);
        assert_eq!(due().map(|kept| port(&kept)), Some(ports[3]));
        tokio::time::advance(Duration::from_secs(300)).await;
        pool.tidy(limits);
        let left = pool.take(&key("rules"), limits).map(|(kept, _)| port(&kept));
        assert_eq!(left, Some(ports[2]), "the surplus is closed");
        assert!(pool.is_empty());
    }

    #[tokio::test]
    async fn pool_sees_bytes_that_just_arrived() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut stream = Stream::new(TcpStream::connect(address).await.unwrap(), address);
        let (mut peer, _) = listener.accept().unwrap();
        assert!(stands(&mut stream));
        // The runtime, which has this one thread, hears of it later.
        peer.write_all(b"x").unwrap();
        assert!(!stands(&mut stream));
    }
}
