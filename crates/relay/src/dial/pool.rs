// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections to peers that wait for their next use.
//!
//! A connection that is used again needs no handshake and begins with the window that the last
//! transfer left it. Which ones there are follows from use; how many, and for how long, is bounded.
//!
//! Connections are kept by peer and by the leave under which they were opened (`L`), and carry a
//! generation: that of the rules that allowed them. New rules start a new generation; what they still
//! allow is taken over into it ([`Pool::readmit`]), and the rest is closed. A connection of an older
//! generation is neither kept nor used.

use crate::{
    dial::PeerAddr,
    tcp::{Stream, info::reset_on_close},
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

/// Whose connections are alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key<L> {
    /// The peer, as it was asked for.
    pub peer: PeerAddr,
    /// By whose leave it was opened: what one has opened is not open to all.
    pub leave: L,
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections of one key; 0 keeps none.
    pub per_key: usize,
    /// For how long one may wait.
    pub idle: Duration,
}

/// Idle connections.
#[derive(Debug)]
pub struct Pool<L> {
    state: Mutex<State<L>>,
}

#[derive(Debug)]
struct State<L> {
    generation: Generation,
    idle: HashMap<Key<L>, Vec<Idle>>,
}

/// A connection on which an exchange has ended in good order. It is to be reset if it is given up in
/// the middle of the next one, and stays so set, because it is soon in one again; what is closed here
/// ended in good order, and so does its connection.
#[derive(Debug)]
struct Idle {
    stream: Option<Stream>,
    /// What is read into, with the room that it has.
    ahead: BytesMut,
    since: Instant,
}

impl Idle {
    fn wake(mut self) -> Option<(Stream, BytesMut)> {
        Some((self.stream.take()?, std::mem::take(&mut self.ahead)))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            reset_on_close(stream.tcp(), false);
        }
    }
}

impl<L> Default for Pool<L> {
    fn default() -> Self {
        let state = State { generation: Generation::default(), idle: HashMap::new() };
        Self { state: Mutex::new(state) }
    }
}

impl<L: Eq + Hash> Pool<L> {
    /// The connection that was used last, if it still stands; with what was read from it before, and
    /// the generation that it belongs to.
    pub fn take(&self, key: &Key<L>, limits: Limits) -> Option<(Stream, BytesMut, Generation)> {
        loop {
            let (idle, generation) = {
                let mut state = self.state();
                let generation = state.generation;
                (state.idle.get_mut(key)?.pop()?, generation)
            };
            if idle.since.elapsed() < limits.idle
                && let Some((mut stream, ahead)) = idle.wake()
                && stands(&mut stream)
            {
                return Some((stream, ahead, generation));
            }
        }
    }

    /// Keeps a connection on which an exchange has ended in good order, unless the rules that allowed
    /// it have been replaced.
    pub fn put(
        &self,
        key: Key<L>,
        (stream, ahead): (Stream, BytesMut),
        generation: Generation,
        limits: Limits,
    ) {
        let idle = Idle { stream: Some(stream), ahead, since: Instant::now() };
        let mut state = self.state();
        // Under the lock: else all could be looked at in between, and this one be kept.
        if state.generation != generation {
            return;
        }
        let of_key = state.idle.entry(key).or_default();
        if of_key.len() < limits.per_key {
            of_key.push(idle);
        }
    }

    /// Starts a new generation. Connections that `is_allowed` are taken over into it, all others are
    /// closed.
    pub fn readmit(
        &self,
        generation: Generation,
        mut is_allowed: impl FnMut(&Key<L>, &Stream) -> bool,
    ) {
        let mut state = self.state();
        state.generation = generation;
        state.idle.retain(|key, of_key| {
            of_key
                .retain(|idle| idle.stream.as_ref().is_some_and(|stream| is_allowed(key, stream)));
            !of_key.is_empty()
        });
    }

    /// Closes those that have waited for too long.
    pub fn tidy(&self, limits: Limits) {
        self.state().idle.retain(|_, of_key| {
            of_key.retain(|idle| idle.since.elapsed() < limits.idle);
            !of_key.is_empty()
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.state().idle.values().map(Vec::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nothing has come on an idle connection: an end, an error, or bytes that nobody asked for. The
/// kernel is asked, and not the runtime, which may not have been told yet of what has come; and TLS, which may
/// have taken more from the kernel than was read.
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
    use std::io::Write;
    use tokio::net::TcpStream;

    const LIMITS: Limits = Limits { per_key: 2, idle: Duration::from_secs(60) };

    fn key(leave: &'static str) -> Key<&'static str> {
        Key { peer: PeerAddr::new("192.0.2.1", 80, false), leave }
    }

    /// A connection, and the listener that keeps it open.
    async fn connection() -> (Stream, std::net::TcpListener) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (Stream::new(TcpStream::connect(address).await.unwrap(), address), listener)
    }

    #[tokio::test]
    async fn new_rules_keep_what_they_allow_and_close_the_rest() {
        let (pool, first) = (Pool::default(), Generation::default());
        let (a, _a) = connection().await;
        let (b, _b) = connection().await;
        let (late, _late) = connection().await;
        pool.put(key("rules"), (a, BytesMut::new()), first, LIMITS);
        pool.put(key("ticket"), (b, BytesMut::new()), first, LIMITS);
        let second = first.next();
        pool.readmit(second, |key, _| key.leave == "ticket");
        assert_eq!(pool.len(), 1);
        assert!(pool.take(&key("rules"), LIMITS).is_none(), "no longer allowed");
        // One that was in use meanwhile may not be allowed either.
        pool.put(key("rules"), (late, BytesMut::new()), first, LIMITS);
        assert_eq!(pool.len(), 1);
        let (stream, ahead, generation) = pool.take(&key("ticket"), LIMITS).unwrap();
        assert_eq!(generation, second, "it belongs to the new rules");
        pool.put(key("ticket"), (stream, ahead), generation, LIMITS);
        assert_eq!(pool.len(), 1);
    }

    #[tokio::test]
    async fn leave_and_number_bound_what_is_kept() {
        let (pool, generation) = (Pool::default(), Generation::default());
        let mut listeners = Vec::new();
        for _ in 0..3 {
            let (stream, listener) = connection().await;
            listeners.push(listener);
            pool.put(key("ticket"), (stream, BytesMut::new()), generation, LIMITS);
        }
        assert_eq!(pool.len(), LIMITS.per_key);
        assert!(pool.take(&key("rules"), LIMITS).is_none(), "opened by another leave");
        let at_once = Limits { idle: Duration::ZERO, ..LIMITS };
        assert!(pool.take(&key("ticket"), at_once).is_none(), "idle for too long");
        pool.tidy(at_once);
        assert!(pool.is_empty());
    }

    #[tokio::test]
    async fn what_has_just_come_is_seen() {
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
