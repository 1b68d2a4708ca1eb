// SPDX-License-Identifier: GPL-2.0-or-later
//! Watching a client that has nothing more to say.
//!
//! After its request a client may shut its sending side and still wants the answer (`nc -N`);
//! it may send bytes that nobody asked for; or it may go away. A reset shows at once. A client
//! that closed in good order looks just like one that only shut its sending side, until bytes
//! are sent to it; so once that is seen, patience is shorter.

use std::{io, time::Duration};
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, sleep_until},
};

/// A client's socket, watched while something else is waited for.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    socket: &'a TcpStream,
    half_closed: bool,
}

/// What became of the client.
#[derive(Debug)]
pub(crate) enum Change {
    /// Its connection failed.
    Gone(io::Error),
    /// It closed its sending side; reported once.
    HalfClosed,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(socket: &'a TcpStream) -> Self {
        Self { socket, half_closed: false }
    }

    /// Whether the client has closed its sending side.
    pub(crate) fn half_closed(&self) -> bool {
        self.half_closed
    }

    /// Waits for a change. What the client sends meanwhile is thrown away: left unread, it would
    /// turn our close into a reset that may overtake the answer's last bytes.
    ///
    /// May be dropped at any time without loss.
    pub(crate) async fn change(&mut self) -> Change {
        let mut scrap = [0; 4096];
        loop {
            let interest = if self.half_closed {
                Interest::ERROR
            } else {
                Interest::READABLE | Interest::ERROR
            };
            match self.socket.ready(interest).await {
                Err(error) => return Change::Gone(error),
                Ok(ready) if ready.is_error() => {
                    let error = self.socket.take_error().ok().flatten();
                    return Change::Gone(
                        error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()),
                    );
                }
                Ok(_) => {}
            }
            match self.socket.try_read(&mut scrap) {
                Ok(0) => {
                    self.half_closed = true;
                    return Change::HalfClosed;
                }
                // A sender of endless scrap must not keep its thread to itself.
                Ok(_) => tokio::task::consume_budget().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Change::Gone(error),
            }
        }
    }

    /// Waits until the client is gone, or has been half-closed for `patience`.
    pub(crate) async fn gone(&mut self, patience: Duration) -> io::Error {
        let mut limit = self.half_closed.then(|| Instant::now() + patience);
        loop {
            let expired = async {
                match limit {
                    Some(limit) => sleep_until(limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                change = self.change() => match change {
                    Change::Gone(error) => return error,
                    Change::HalfClosed => limit = Some(Instant::now() + patience),
                },
                () = expired => return out_of_patience(),
            }
        }
    }
}

/// Why a client that may still be there is given up.
pub(crate) fn out_of_patience() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it closed its sending side and nothing moved since")
}
