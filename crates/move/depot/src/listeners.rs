// SPDX-License-Identifier: GPL-2.0-or-later
//! Listening sockets: opened here, or handed over by systemd or by the depot before this one.
//!
//! A socket that is handed over keeps its queue of connections, so that a depot can be restarted without
//! refusing any.

#![expect(unsafe_code, reason = "descriptors that another process hands over")]

use crate::{
    config::{Config, Tcp},
    error::Error,
};
use protocol::Scheme;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::{
    env, io,
    net::{SocketAddr, TcpListener as StdListener},
    os::fd::{FromRawFd, OwnedFd, RawFd},
    sync::{Arc, Weak},
};
use tokio::net::TcpListener;

/// Pending connections that the kernel keeps for each listener.
pub(crate) const BACKLOG: i32 = 1024;
/// The first file that systemd hands over (`sd_listen_fds(3)`).
const FIRST_GIVEN: RawFd = 3;

/// What listens on one address.
#[derive(Debug)]
pub(crate) struct Listener {
    pub tcp: Arc<TcpListener>,
    pub service: Service,
    /// Whether systemd holds it as well: connections that are not accepted wait for the next depot.
    pub is_kept: bool,
}

/// What is served on a listener.
#[derive(Debug, Clone)]
pub(crate) enum Service {
    /// Requests and sessions, with TLS or without.
    Clients(Scheme),
    /// Plain connections, which are relayed to one server.
    Port(Arc<Tcp>),
}

/// All that a depot listens on.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// For clients.
    pub clients: Vec<Listener>,
    /// For operators.
    pub admin: Option<TcpListener>,
}

impl Listeners {
    /// Those of the configuration: of the ones that are `given`, or else new. Those given that the
    /// configuration does not name are closed, and the log says so.
    pub(crate) fn new(
        config: &Config,
        by_systemd: Vec<OwnedFd>,
        by_predecessor: Vec<OwnedFd>,
    ) -> Result<Self, Error> {
        let mut given = Given::new(by_systemd, by_predecessor);
        let of_clients =
            |setting, at: &SocketAddr, scheme| (setting, *at, Service::Clients(scheme));
        let plain = config.listen.iter().map(|at| of_clients("listen", at, Scheme::Http));
        let secured =
            config.tls.listen.iter().map(|at| of_clients("tls.listen", at, Scheme::Https));
        let ports = config
            .tcp
            .iter()
            .map(|table| ("tcp.listen", table.listen, Service::Port(Arc::new(table.clone()))));
        let listener = |(setting, address, service)| {
            let (listener, is_kept) = given.take_or_open(setting, address, config.takes_mptcp())?;
            Ok::<_, Error>(Listener { tcp: Arc::new(listener), service, is_kept })
        };
        let clients = plain.chain(secured).chain(ports).map(listener).collect::<Result<_, _>>()?;
        let admin = config.admin.listen;
        let admin = admin.map(|address| given.take_or_open("admin.listen", address, false));
        let admin = admin.transpose()?.map(|(listener, _)| listener);
        given.close();
        Ok(Self { clients, admin })
    }

    /// The addresses for clients, with the ports that the system chose where 0 was given.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.for_clients().into_iter().map(|(address, _)| address).collect()
    }

    /// Those of `[[tcp]]`.
    pub(crate) fn ports(&self) -> Vec<SocketAddr> {
        let ports = self.clients.iter().filter(|it| matches!(it.service, Service::Port(_)));
        ports.filter_map(|it| it.tcp.local_addr().ok()).collect()
    }

    /// Those addresses, with what is spoken there.
    pub(crate) fn for_clients(&self) -> Vec<(SocketAddr, Scheme)> {
        let known = |it: &Listener| match it.service {
            Service::Clients(scheme) => Some((it.tcp.local_addr().ok()?, scheme)),
            Service::Port(_) => None,
        };
        self.clients.iter().filter_map(known).collect()
    }

    /// Those for clients, for as long as this depot accepts: another one may have them afterwards.
    pub(crate) fn accepting(&self) -> Vec<Weak<TcpListener>> {
        self.clients.iter().map(|it| Arc::downgrade(&it.tcp)).collect()
    }

    /// Copies of all of them, for a successor.
    pub(crate) fn copies(&self) -> io::Result<Vec<OwnedFd>> {
        let clients = self.clients.iter().map(|it| &*it.tcp);
        let all = clients.chain(&self.admin);
        all.map(|listener| std::os::fd::AsFd::as_fd(listener).try_clone_to_owned()).collect()
    }
}

/// Listeners from another process, not used yet.
struct Given(Vec<GivenListener>);

struct GivenListener {
    address: SocketAddr,
    listener: StdListener,
    is_kept: bool,
}

impl Given {
    fn new(by_systemd: Vec<OwnedFd>, by_predecessor: Vec<OwnedFd>) -> Self {
        let kept = by_systemd.into_iter().map(|file| (file, true));
        let others = by_predecessor.into_iter().map(|file| (file, false));
        let listening = kept.chain(others).filter_map(|(file, is_kept)| {
            // Anything else than a TCP listener has no such address, or does not listen.
            if !SockRef::from(&file).is_listener().unwrap_or(false) {
                return None;
            }
            let listener = StdListener::from(file);
            Some(GivenListener { address: listener.local_addr().ok()?, listener, is_kept })
        });
        Self(listening.collect())
    }

    /// The listener that a setting names, and whether systemd holds it as well.
    fn take_or_open(
        &mut self,
        setting: &'static str,
        address: SocketAddr,
        mptcp: bool,
    ) -> Result<(TcpListener, bool), Error> {
        let given = self.take(address).map(|GivenListener { listener, is_kept, .. }| {
            listener.set_nonblocking(true)?;
            Ok((TcpListener::from_std(listener)?, is_kept))
        });
        let listener = given.unwrap_or_else(|| open(address, mptcp).map(|new| (new, false)));
        listener.map_err(|error| Error::Listen { setting, address, error })
    }

    /// The listener on an address; for port 0 any on that IP address.
    fn take(&mut self, address: SocketAddr) -> Option<GivenListener> {
        let fits = |GivenListener { address: is, .. }: &GivenListener| {
            is.ip() == address.ip() && (is.port() == address.port() || address.port() == 0)
        };
        self.0.iter().position(fits).map(|at| self.0.remove(at))
    }

    fn close(self) {
        for GivenListener { address, .. } in self.0 {
            tracing::warn!(%address, "a listener that was handed over is not configured: closed");
        }
    }
}

/// What systemd has handed over (`sd_listen_fds(3)`). Called once, before any thread is started.
pub(crate) fn from_systemd() -> Vec<OwnedFd> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").and_then(|n| RawFd::try_from(n).ok()).unwrap_or(0);
    let files = FIRST_GIVEN..FIRST_GIVEN.saturating_add(count.min(1024));
    let ours = files.filter_map(|file| {
        // SAFETY: asks whether the number is an open file, and that it is not passed on to others.
        let open = unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
        // SAFETY: open, handed over for this process alone, and taken once.
        open.then(|| unsafe { OwnedFd::from_raw_fd(file) })
    });
    ours.collect()
}

fn open(address: SocketAddr, mptcp: bool) -> io::Result<TcpListener> {
    let protocol = mptcp.then_some(Protocol::MPTCP);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, protocol)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // So that 0.0.0.0 and [::] can both be bound.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(StdListener::from(socket))
}
