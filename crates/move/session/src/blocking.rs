// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions for programs without tokio: the calls block, and a [`Session`] reads and writes as a
//! [`TcpStream`](std::net::TcpStream) does.
//!
//! ```text
//! thread of the program ── waits ──▶ Session ◀── one runtime on background threads, for all sessions of the process
//! ```
//! The runtime starts with the first use and lasts until the process ends. A session that was dropped goes on in it
//! until everything that was [ended](Session::end) has arrived, but only while the process lives: wait with
//! [`Session::sent`] before it exits.
//!
//! Limits: the calls panic in a task of tokio. They start no thread of their own.

use crate::{Error, ListenOptions, Options, Route, Statistics};
use protocol::session::SessionId;
use std::{
    future::poll_fn,
    io::{self, Read, Write},
    net::{SocketAddr, ToSocketAddrs},
    num::NonZero,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
};
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that do the work of all sessions. Each session is worked on by one at a time.
const MOST_WORKERS: usize = 4;

/// The runtime of all blocking sessions of this process.
///
/// # Errors
/// The system gives the process no more threads or descriptors. A later call tries again.
pub fn runtime() -> io::Result<&'static Handle> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.handle());
    }
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.handle());
    }
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_WORKERS);
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("longhaul")
        .enable_all()
        .build()?;
    Ok(RUNTIME.get_or_init(|| runtime).handle())
}

/// A two-way stream of bytes that outlives its connections; see [`crate::Session`]. `&Session` reads and writes too,
/// so that one thread can read while another one writes.
#[derive(Debug)]
pub struct Session {
    session: crate::Session,
    runtime: &'static Handle,
}

/// Listens for initiators.
#[derive(Debug)]
pub struct Listener {
    listener: crate::Listener,
    runtime: &'static Handle,
}

impl Session {
    /// Opens a session, by the first of these routes that works. It connects while the session is written to already.
    ///
    /// # Errors
    /// The runtime cannot be started.
    ///
    /// # Panics
    /// There is no route.
    pub fn connect(routes: Vec<Route>, options: Options) -> io::Result<Self> {
        let runtime = runtime()?;
        let _entered = runtime.enter();
        Ok(Self { session: crate::Session::connect(routes, options), runtime })
    }

    /// The session's name.
    pub fn id(&self) -> SessionId {
        self.session.id()
    }

    /// Waits until both ends have greeted each other; with the acceptor's note.
    ///
    /// # Errors
    /// The session has failed.
    pub fn greeted(&self) -> Result<Vec<u8>, Error> {
        self.runtime.block_on(self.session.greeted())
    }

    /// Nothing more will be written. The other direction stays open.
    pub fn end(&self) {
        self.session.end();
    }

    /// Waits until the other end has proved that it has everything that was sent. [`end`](Self::end) comes before.
    ///
    /// # Errors
    /// The session has failed.
    pub fn sent(&self) -> Result<(), Error> {
        self.runtime.block_on(self.session.sent())
    }

    /// How far it is.
    pub fn statistics(&self) -> Statistics {
        self.session.statistics()
    }

    /// The asynchronous session, for what is not here.
    pub fn get_ref(&self) -> &crate::Session {
        &self.session
    }
}

impl Read for &Session {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let core = &self.session.core;
        let chunk = self
            .runtime
            .block_on(poll_fn(|context| core.poll_chunk(context, buffer.len())))?
            .unwrap_or_default();
        buffer[..chunk.len()].copy_from_slice(&chunk);
        Ok(chunk.len())
    }
}

impl Write for &Session {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let core = &self.session.core;
        Ok(self.runtime.block_on(poll_fn(|context| core.poll_write(context, bytes)))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Session {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Session {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Listener {
    /// Listens at the first of these addresses that can be had.
    ///
    /// # Errors
    /// The address cannot be had, or the runtime cannot be started.
    pub fn bind(address: impl ToSocketAddrs, options: ListenOptions) -> io::Result<Self> {
        let runtime = runtime()?;
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let listener = runtime.block_on(crate::Listener::bind(&addresses[..], options))?;
        Ok(Self { listener, runtime })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Waits for the next session that an initiator asks for, and takes it.
    ///
    /// # Errors
    /// The initiator does not have the secret. The next call waits for another one.
    pub fn accept(&self, options: Options) -> Result<Session, Error> {
        let runtime = self.runtime;
        let accepted = async { self.listener.accept().await.accept(options).await };
        Ok(Session { session: runtime.block_on(accepted)?, runtime })
    }
}
