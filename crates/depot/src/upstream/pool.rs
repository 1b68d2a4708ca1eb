// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections to next hops that wait for their next request.
//!
//! A connection that is used again needs no handshake and begins with the window that the last
//! transfer left it. Which ones there are follows from use; how many, and for how long, is bounded.
//! One that was opened before the settings were read again is not kept, nor used: they may forbid it.

use crate::{
    admission::Grant, config::Reuse, exchange::reset_on_close, settings::Settings, stream::Stream,
};
use bytes::BytesMut;
use session::{Authority, Fetch, Scheme};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};
use tokio::time::Instant;

/// Whose connections are alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Host and port, as the route names them.
    next: Authority,
    /// With TLS or without.
    scheme: Scheme,
    /// By whose leave it was opened: what a ticket has opened is not open to all.
    grant: Grant,
}

impl Key {
    /// The key of what is asked of a next hop.
    pub(super) fn of(fetch: &Fetch, grant: Grant) -> Self {
        Self { next: fetch.next.clone(), scheme: fetch.scheme, grant }
    }
}

/// Idle connections.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
}

/// A connection that waits. It is to be reset if it is given up in the middle of an exchange, and
/// stays so set, because it is soon in one again; what is closed here ended in good order, and so does
/// its connection.
#[derive(Debug)]
pub(super) struct Idle {
    stream: Option<Stream>,
    /// What is read into, with the room that it has.
    ahead: BytesMut,
    /// By whose rules it was opened.
    settings: Arc<Settings>,
    since: Instant,
}

impl Idle {
    /// A connection on which an exchange has ended in good order.
    pub(super) fn new(stream: Stream, ahead: BytesMut, settings: Arc<Settings>) -> Self {
        Self { stream: Some(stream), ahead, settings, since: Instant::now() }
    }

    fn wake(mut self) -> Option<(Stream, BytesMut, Arc<Settings>)> {
        let stream = self.stream.take()?;
        Some((stream, std::mem::take(&mut self.ahead), Arc::clone(&self.settings)))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            reset_on_close(stream.tcp(), false);
        }
    }
}

impl Pool {
    /// The connection used last, if it still stands.
    pub(super) fn take(
        &self,
        key: &Key,
        limits: &Reuse,
    ) -> Option<(Stream, BytesMut, Arc<Settings>)> {
        loop {
            let idle = {
                let mut all = self.idle();
                let of_key = all.get_mut(key)?;
                of_key.pop()?
            };
            if idle.since.elapsed() < Duration::from(limits.idle)
                && idle.settings.are_current()
                && let Some(mut woken) = idle.wake()
                && stands(&mut woken.0)
            {
                return Some(woken);
            }
        }
    }

    /// Keeps a connection.
    pub(super) fn put(&self, key: Key, idle: Idle, limits: &Reuse) {
        let mut all = self.idle();
        // Under the lock: else all could be closed in between, and this one be kept.
        if !idle.settings.are_current() {
            return;
        }
        let of_key = all.entry(key).or_default();
        if of_key.len() < limits.per_hop {
            of_key.push(idle);
        }
    }

    /// Closes those that have waited for too long.
    pub(crate) fn tidy(&self, limits: &Reuse) {
        self.idle().retain(|_, of_key| {
            of_key.retain(|idle| idle.since.elapsed() < Duration::from(limits.idle));
            !of_key.is_empty()
        });
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        self.idle().clear();
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.idle().values().map(Vec::len).sum()
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Key, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nothing has come on an idle connection: an end, an error, or bytes that nobody asked for. The
/// kernel is asked, and not the runtime, which may not have been told yet of what has come; and TLS, which may
/// have taken more from the kernel than was read.
fn stands(stream: &mut Stream) -> bool {
    let scheme = stream.scheme();
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    let peeked = rustix::net::recv(stream.tcp(), &mut [0; 1], flags);
    let empty = matches!(peeked, Err(error) if error == rustix::io::Errno::WOULDBLOCK);
    let mut nothing_left = || {
        let mut context = Context::from_waker(Waker::noop());
        stream.poll_read(&mut context, &mut BytesMut::new(), 1).is_pending()
    };
    empty && (scheme == Scheme::Http || nothing_left())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use tokio::net::TcpStream;

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
