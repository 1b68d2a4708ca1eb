// SPDX-License-Identifier: GPL-2.0-or-later
//! The relay engine: a body from the next hop's socket to the client's.
//!
//! ```text
//!            fill: at most what is left          drain: all that is held
//! upstream ──────────────────────────▶ pipe ──────────────────────────▶ client
//!      ◀── wait for bytes, and see whether the client goes away
//!                          wait for room, and see whether upstream fails ──▶
//! ```
//! Rules:
//! - One fill, then drained whole, then the next ([`mover`] says why).
//! - A slow client stops the drain, so the fill, so the next hop's sender: what is held is one
//!   pipe and the kernel's socket buffers, never more.
//! - A body with a length: exactly that many bytes. If upstream ends earlier, the caller closes
//!   the client's connection early, which the client sees as an error.
//! - A body without one: only upstream's orderly end completes it; after anything else the
//!   caller resets the client's connection, for a close would make the body look whole.
//! - Each wait has an end: an upstream that sends nothing for `idle`, or a client that takes
//!   nothing for `client_idle`, has stalled. A client whose kernel still acknowledges queued bytes
//!   is slow, not stalled ([`taking`]).

mod mover;
mod taking;
mod watch;

pub(crate) use mover::Mover;
pub(crate) use watch::{Change, Watch};

use crate::config::Timeouts;
use std::{io, time::Duration};
use taking::Taking;
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, sleep_until},
};

/// How a transfer ended, and so whose fault it is if it is not whole.
#[derive(Debug)]
pub(crate) enum End {
    /// The client's kernel has every byte.
    Complete,
    /// The client closed or reset its connection.
    ClientGone(io::Error),
    /// The client took nothing for its idle time.
    ClientStalled,
    /// Upstream closed before the body's length was reached.
    UpstreamCutOff,
    /// Upstream's connection failed.
    UpstreamFailed(io::Error),
    /// Upstream sent nothing for the idle time.
    UpstreamStalled,
}

/// A body under way.
#[derive(Debug)]
pub(crate) struct Relay<'a, 'w> {
    upstream: &'a TcpStream,
    client: &'a TcpStream,
    watch: &'a mut Watch<'w>,
    mover: Mover,
    /// Bytes still to be taken in; `None` until upstream closes.
    left: Option<u64>,
    timeouts: &'a Timeouts,
    /// Upstream's connection has failed, but all that is left has arrived.
    upstream_done: bool,
}

impl<'a, 'w> Relay<'a, 'w> {
    /// A relay of `left` bytes, or of all until upstream closes.
    pub(crate) fn new(
        upstream: &'a TcpStream,
        client: &'a TcpStream,
        watch: &'a mut Watch<'w>,
        mover: Mover,
        left: Option<u64>,
        timeouts: &'a Timeouts,
    ) -> Self {
        Self { upstream, client, watch, mover, left, timeouts, upstream_done: false }
    }

    /// Moves the body; `moved` counts the bytes handed to the client's kernel, also when this is
    /// dropped on the way. [`End::Complete`] here means: handed over.
    pub(crate) async fn run(&mut self, moved: &mut u64) -> End {
        match self.pump(moved).await {
            Ok(()) => End::Complete,
            Err(end) => end,
        }
    }

    /// How bytes were moved, for the log.
    pub(crate) fn mode(&self) -> &'static str {
        self.mover.name()
    }

    async fn pump(&mut self, moved: &mut u64) -> Result<(), End> {
        while self.left != Some(0) {
            if !self.take_in().await? {
                return if self.left.is_none() { Ok(()) } else { Err(End::UpstreamCutOff) };
            }
            while self.mover.held() > 0 {
                match self.mover.drain(self.client) {
                    Ok(bytes) => *moved += bytes as u64,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.until_client_takes().await?;
                    }
                    Err(error) => return Err(End::ClientGone(error)),
                }
            }
            // Both sockets may be ready for ever; others share this thread.
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    /// Fills the mover; false at the end of upstream's stream.
    async fn take_in(&mut self) -> Result<bool, End> {
        let at_most = self.left.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX));
        loop {
            match self.mover.fill(self.upstream, at_most) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.left = self.left.map(|left| left - bytes as u64);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.until_upstream_sends().await?;
                }
                Err(error) => return Err(End::UpstreamFailed(error)),
            }
        }
    }

    /// Waits for bytes from upstream while watching the client.
    async fn until_upstream_sends(&mut self) -> Result<(), End> {
        let start = Instant::now();
        let Timeouts { idle, half_closed, .. } = *self.timeouts;
        loop {
            let impatient = self.watch.half_closed() && half_closed < idle;
            let limit = Duration::from(if impatient { half_closed } else { idle });
            tokio::select! {
                biased;
                ready = self.upstream.ready(Interest::READABLE) => {
                    return ready.map(drop).map_err(End::UpstreamFailed);
                }
                change = self.watch.change() => match change {
                    Change::Gone(error) => return Err(End::ClientGone(error)),
                    Change::HalfClosed => {}
                },
                () = sleep_until(start + limit) => return Err(if impatient {
                    End::ClientGone(watch::out_of_patience())
                } else {
                    End::UpstreamStalled
                }),
            }
        }
    }

    /// Waits for room towards the client while watching upstream.
    async fn until_client_takes(&mut self) -> Result<(), End> {
        let mut taking = Taking::new(self.client, self.timeouts);
        let mut look = taking.next_look();
        loop {
            tokio::select! {
                biased;
                ready = self.client.ready(Interest::WRITABLE) => {
                    return ready.map(drop).map_err(End::ClientGone);
                }
                _ = self.upstream.ready(Interest::ERROR), if !self.upstream_done => {
                    self.check_upstream()?;
                }
                () = sleep_until(look) => {
                    taking.look()?;
                    look = taking.next_look();
                }
            }
        }
    }

    /// Upstream's connection has failed: worth going on only if the rest has arrived already.
    fn check_upstream(&mut self) -> Result<(), End> {
        let arrived = rustix::io::ioctl_fionread(self.upstream).unwrap_or(0);
        if self.left.is_some_and(|left| left <= arrived) {
            self.upstream_done = true;
            return Ok(());
        }
        let error = self.upstream.take_error().ok().flatten();
        let error = error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
        Err(End::UpstreamFailed(error))
    }
}

/// Closes a client's connection in good order and waits until its kernel has everything, so that
/// "complete" in the log is true and nothing left unread resets the answer's last bytes.
pub(crate) async fn close(client: &TcpStream, watch: &mut Watch<'_>, timeouts: &Timeouts) -> End {
    /// How long a client that has everything may take to close its side.
    const GRACE: Duration = Duration::from_secs(1);
    /// How often to look whether it has everything.
    const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

    if let Err(error) = rustix::net::shutdown(client, rustix::net::Shutdown::Write) {
        return End::ClientGone(error.into());
    }
    let (mut taking, mut pause) = (Taking::new(client, timeouts), LOOK[0]);
    loop {
        match taking.look() {
            Ok(0) if watch.half_closed() || taking.unchanged_for() >= GRACE => {
                return End::Complete;
            }
            Ok(_) => {}
            Err(end) => return end,
        }
        tokio::select! {
            change = watch.change() => if let Change::Gone(error) = change {
                // All but the mark of the close itself was acknowledged.
                let left = taking.look().unwrap_or(usize::MAX);
                return if left <= 1 { End::Complete } else { End::ClientGone(error) };
            },
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LOOK[1]),
        }
    }
}

/// Makes a close of this connection a reset, whoever closes it and however this process ends,
/// or takes that back.
pub(crate) fn reset_on_close(socket: &TcpStream, on: bool) {
    let linger = on.then_some(Duration::ZERO);
    // A socket that cannot be told so is closed already.
    let _ = rustix::net::sockopt::set_socket_linger(socket, linger);
}
