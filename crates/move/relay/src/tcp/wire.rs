// SPDX-License-Identifier: GPL-2.0-or-later
//! A TCP socket with what was found out about it.
//!
//! Every option of an open connection is set through [`Wire`], so that what it remembers stays true.

use crate::tcp::{
    info::{InForce, Settled, SocketPacing, reset_on_close, set_spacing, tcp_info},
    memory_level::{MemoryLevel, Restriction},
    socket_options,
};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::net::TcpStream;
use units::Bytes;

/// How old what the kernel said of a connection may be where a request's line quotes it. Short requests
/// follow each other on a connection faster than its figures change.
const RECENT: Duration = Duration::from_millis(100);

/// A TCP connection, with what was found out about it: it serves one request after another.
#[derive(Debug)]
pub struct Wire {
    tcp: TcpStream,
    /// Kept: of a connection that has broken the kernel knows it no more.
    peer: SocketAddr,
    known: Mutex<Known>,
    /// The pacing rate in the kernel. It is kept apart from the rest, so that the usual case (no
    /// pacing) is seen without a lock.
    paced: AtomicU64,
    /// The segments sent again so far, when they were last looked at.
    resent: AtomicU32,
    /// For how long it has crept, in microseconds.
    crept_us: AtomicU64,
}

/// What is known of a connection. Whatever is set on it is set by way of [`Wire`], so that this is true.
#[derive(Debug, Default)]
struct Known {
    settled: Option<Settled>,
    /// What was in force when that was last looked at.
    seen: Option<(Instant, InForce)>,
    restriction: Restriction,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream, peer: SocketAddr) -> Arc<Self> {
        let info = tcp_info(&tcp).unwrap_or_default();
        Arc::new(Self {
            tcp,
            peer,
            known: Mutex::default(),
            paced: AtomicU64::new(SocketPacing::Free.to_kernel()),
            resent: info.retransmits.into(),
            crept_us: AtomicU64::new(0),
        })
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        &self.tcp
    }

    /// Who is at its other end, also after that is gone.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The segments sent again so far, when they were last looked at.
    pub fn resent(&self) -> u32 {
        self.resent.load(Relaxed)
    }

    /// For how long the kernel has offered the peer less than an initial window, although all that came was read, in
    /// microseconds; as far as anybody looked.
    pub fn crept_us(&self) -> u64 {
        self.crept_us.load(Relaxed)
    }

    /// It has crept for so much longer.
    pub(crate) fn has_crept(&self, time: Duration) {
        self.crept_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(0), Relaxed);
    }

    /// What is in force on it now.
    pub fn in_force(&self) -> InForce {
        self.known().look(&self.tcp, &self.resent)
    }

    /// What was in force lately: it was looked at now, or not long ago.
    pub fn recently_in_force(&self) -> InForce {
        let mut known = self.known();
        let seen = known.seen.as_ref().filter(|(when, _)| when.elapsed() < RECENT);
        let seen = seen.map(|(_, in_force)| in_force.clone());
        seen.unwrap_or_else(|| known.look(&self.tcp, &self.resent))
    }

    /// Has TCP space this connection's packets as given.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pace(&self, spacing: SocketPacing) -> io::Result<()> {
        let wanted = spacing.to_kernel();
        if self.paced.load(Relaxed) != wanted {
            let mut known = self.known();
            set_spacing(&self.tcp, spacing)?;
            self.paced.store(wanted, Relaxed);
            known.seen = None;
        }
        Ok(())
    }

    /// Sets the congestion control.
    ///
    /// # Errors
    /// The kernel lacks it, or this user may not have it.
    pub fn set_congestion(&self, name: &str) -> io::Result<()> {
        let mut known = self.known();
        (known.settled, known.seen) = (None, None);
        Ok(rustix::net::sockopt::set_tcp_congestion(&self.tcp, name)?)
    }

    /// Sets how much is kept unsent.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn keep_unsent(&self, bytes: Bytes) -> io::Result<()> {
        let mut known = self.known();
        (known.settled, known.seen) = (None, None);
        socket_options::keep_unsent(&self.tcp, bytes)
    }

    /// How much memory the kernel may use for it.
    pub fn memory_level(&self) -> MemoryLevel {
        self.known().restriction.level
    }

    /// Sets how much memory the kernel may use for it.
    ///
    /// # Errors
    /// The kernel refuses, as older ones do for Multipath TCP.
    pub fn set_memory_level(&self, level: MemoryLevel) -> io::Result<()> {
        let mut known = self.known();
        if known.restriction.level == level {
            return Ok(());
        }
        (known.settled, known.seen) = (None, None);
        known.restriction.set(&self.tcp, level)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn look(&mut self, tcp: &TcpStream, resent: &AtomicU32) -> InForce {
        let settled = self.settled.get_or_insert_with(|| Settled::read(tcp));
        let in_force = InForce::read(tcp, settled);
        resent.fetch_max(in_force.retransmits, Relaxed);
        self.seen = Some((Instant::now(), in_force.clone()));
        in_force
    }
}

impl Drop for Wire {
    /// What breaks off by a panic must not look as if it had ended in order.
    fn drop(&mut self) {
        if std::thread::panicking() {
            reset_on_close(&self.tcp, true);
        }
    }
}

impl std::ops::Deref for Wire {
    type Target = TcpStream;
    fn deref(&self) -> &TcpStream {
        &self.tcp
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use crate::tcp::{
        Stream,
        info::{SocketPacing, max_pacing_rate},
    };
    use tokio::net::TcpStream;
    use units::Rate;

    #[tokio::test]
    async fn connection_of_a_task_that_panics_is_reset() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for panics in [false, true] {
            let tcp = TcpStream::connect(address).await.unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            let task = tokio::spawn(async move {
                let _stream = Stream::new(tcp, address);
                assert!(!panics, "as this test wants it");
            });
            assert_eq!(task.await.is_err(), panics);
            let read = std::io::Read::read(&mut peer, &mut [0]);
            assert_eq!(read.is_err(), panics, "{read:?}");
        }
    }

    #[tokio::test]
    async fn connection_rate_is_set_and_cleared() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tcp = TcpStream::connect(address).await.unwrap();
        let stream = Stream::new(tcp, address);
        let held_to = |spacing: SocketPacing| {
            stream.wire().pace(spacing).unwrap();
            assert_eq!(stream.wire().in_force().spacing, spacing);
            max_pacing_rate(stream.tcp()).unwrap()
        };
        assert_eq!(held_to(SocketPacing::Free), u64::MAX);
        assert_eq!(held_to(SocketPacing::AtMost(Rate::bits_per_second(8_000_000))), 1_000_000);
        assert_eq!(held_to(SocketPacing::Free), u64::MAX);
        // Nothing but all ones leaves a socket unpaced.
        assert_eq!(held_to(SocketPacing::Own), u64::MAX - 1);
    }
}
