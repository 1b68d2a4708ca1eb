// SPDX-License-Identifier: GPL-2.0-or-later
//! Answers the kernel's questions.

use super::{
    accounts::{Accounts, Made},
    caller::{Address, Question, Request},
    calls::{Call, Calls, Verdict},
    filter,
    tally::{Connection, Outcome, Tally},
};
use crate::{
    chain::{self, ChainError, Deadlines, EntryDialer, Opened},
    trial::{DownDepots, Maker, Unconnected},
    tunnel::{self, Passed, tunnel},
};
use bytes::BytesMut;
use host::{is_unconnected, socket_cookie};
use protocol::{Authority, DepotAddress, Scheme};
use relay::{copy::RelayResources, tcp::Stream};
use route::{Destination, Route, RouteTable};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    cell::RefCell,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, lookup_host},
    task::spawn_local,
    time::{Instant, timeout_at},
};

/// How a program's connections are made.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Which of them go through depots.
    pub routes: RouteTable,
    /// Certificates (PEM) of further authorities to trust for depots over TLS.
    pub ca: Option<PathBuf>,
    /// Whether those fail when all chains do. Otherwise the program connects by itself then.
    pub strict: bool,
    /// How long a chain may take.
    pub time: Duration,
    /// Whether to find out what connections carry. It is also done where a route has a rule for short ones.
    pub account: bool,
    /// Is told each reason for which the program connects by itself, once.
    pub warn: fn(&str),
}

pub(super) struct Answering {
    calls: Calls,
    rules: Rules,
    down: DownDepots,
    warned: RefCell<Vec<String>>,
    accounts: Rc<Accounts>,
    /// For depots that the program's socket cannot be connected to.
    caller: Arc<EntryDialer>,
    resources: Rc<RelayResources>,
}

impl Answering {
    pub(super) fn new(calls: Calls, mut rules: Rules) -> Rc<Self> {
        let (warned, accounts) = <(_, Rc<Accounts>)>::default();
        let has_short = rules.routes.has_short();
        if (rules.account || has_short)
            && let Err(error) = accounts.follow()
            && has_short
        {
            (rules.warn)(&format!(
                "all connections go through depots, also short ones: the kernel does not tell what they carry: {error}"
            ));
            rules.routes = rules.routes.without_short();
        }
        let caller = Arc::new(EntryDialer::new(rules.ca.clone()));
        let asking = Arc::clone(&caller);
        let down = DownDepots::of(asking, &rules.routes, rules.ca.as_ref(), rules.time, None);
        let resources = Rc::new(tunnel::resources());
        Rc::new(Self { calls, rules, down, warned, accounts, caller, resources })
    }

    /// What is known when the program has ended.
    pub(super) async fn tally(&self) -> Tally {
        self.accounts.settle().await
    }

    /// Answers until nobody is left who could ask. Those who wait do not wait for each other.
    pub(super) async fn run(self: Rc<Self>) -> io::Result<()> {
        while let Some(call) = self.calls.next().await? {
            let answering = Rc::clone(&self);
            spawn_local(async move { answering.answer(&call).await });
        }
        Ok(())
    }

    async fn answer(&self, call: &Call) {
        let verdict = match Question::of(call) {
            Ok(Question::Connect(request)) => self.connect(call, &request).await,
            Ok(Question::Socket([domain, kind, protocol])) => {
                filter::permit(domain, kind, protocol)
                    .map_or_else(Verdict::Fails, |()| Verdict::GoOn)
            }
            Err(_) => self.unseen(),
        };
        self.calls.answer(call, verdict);
    }

    /// Of a call that cannot be looked into: such a process connects by itself, unless that is forbidden.
    fn unseen(&self) -> Verdict {
        if self.rules.strict { Verdict::Fails(libc::EACCES) } else { Verdict::GoOn }
    }

    async fn connect(&self, call: &Call, request: &Request) -> Verdict {
        let begun = Instant::now();
        let socket = match request.socket() {
            Ok(socket) if self.calls.is_waiting(call) => socket,
            // Its error is what the kernel would say, where the thread shares its process's descriptors.
            Err(error) if self.rules.strict => {
                return Verdict::Fails(error.raw_os_error().unwrap_or(libc::EACCES));
            }
            Ok(_) | Err(_) => return Verdict::GoOn,
        };
        let Address::Ip(destination) = request.address else {
            return self.by_itself(&socket, request.address).await;
        };
        match is_fresh_tcp(&socket) {
            Ok(true) => {}
            Ok(false) => return self.by_itself(&socket, request.address).await,
            Err(_) => return self.unseen(),
        }
        let made = self.make(&socket, destination).await;
        let made = Made { cookie: socket_cookie(&socket).ok(), ..made };
        let (took, outcome) = (begun.elapsed(), made.outcome.clone());
        let verdict = match &outcome {
            Outcome::Chain(_) => Verdict::Done,
            Outcome::Failed { errno, .. } => Verdict::Fails(*errno),
            _ => Verdict::GoOn,
        };
        self.accounts.add(Connection { destination, outcome, took, traffic: None }, &made);
        match verdict {
            Verdict::GoOn => self.by_itself(&socket, request.address).await,
            verdict => verdict,
        }
    }

    /// Of a connection that goes without depots: the program makes it. If that is forbidden, the supervisor makes it, with the
    /// address that it has read: the program could write another one meanwhile, which is to go through depots.
    async fn by_itself(&self, socket: &Socket, address: Address) -> Verdict {
        if !self.rules.strict {
            return Verdict::GoOn;
        }
        match connect_as_asked(socket, address).await {
            Ok(None) => Verdict::GoOn,
            Ok(Some(())) => Verdict::Done,
            Err(error) => Verdict::Fails(error.raw_os_error().unwrap_or(libc::EACCES)),
        }
    }

    /// Connects the socket through depots, or says why not.
    async fn make(&self, socket: &Socket, destination: SocketAddr) -> Made {
        let to = Destination::Address(destination);
        let routes = self.rules.routes.matching(&to).await.routes;
        let mut trial = self.down.trial(&to, self.accounts.choose(&to, routes), Maker::Program);
        while let Some(route) = trial.next() {
            match self.try_chain(socket, destination, &route).await {
                Ok(made) => {
                    trial.worked(&route);
                    return made;
                }
                Err(error) => {
                    if let Err(error) = trial.failed(&route, error) {
                        return Made::fresh(failed(&error));
                    }
                }
            }
        }
        Made::fresh(match trial.end() {
            Unconnected::NoRoute => Outcome::Direct,
            Unconnected::Short => Outcome::Short,
            Unconnected::AllFailed(Some(error)) if self.rules.strict => failed(&error),
            Unconnected::AllFailed(None) if self.rules.strict => {
                let why = "no chain could be reached some seconds ago".to_owned();
                Outcome::Failed { errno: libc::ENETUNREACH, why }
            }
            Unconnected::AllFailed(last) => Outcome::FellBack(self.warn(last.as_ref())),
        })
    }

    /// Opens a session by one chain. Afterwards the socket is connected to it, or fresh again.
    async fn try_chain(
        &self,
        socket: &Socket,
        destination: SocketAddr,
        route: &Route<'_>,
    ) -> Result<Made, ChainError> {
        let Route { depots, server, .. } = route;
        let until = Instant::now() + self.rules.time;
        let depot = depots[0].to_string();
        let unreached = |error| ChainError::Unreached { depot: depot.clone(), error };
        let addresses = timeout_at(until, addresses_for(socket, &depots[0], destination)).await;
        let addresses = addresses.unwrap_or_else(|late| Err(late.into())).map_err(unreached)?;
        if addresses.iter().any(|address| is_same(*address, destination)) {
            return Ok(Made::fresh(Outcome::Direct));
        }
        if addresses.is_empty() || depots[0].scheme == Scheme::Https {
            return self.bridge(socket, route).await;
        }
        let mut last = unreached(io::ErrorKind::TimedOut.into());
        for (tried, address) in addresses.iter().enumerate() {
            // One that is not reached must leave time for the others.
            let now = Instant::now();
            let share = now + (until - now) / (addresses.len() - tried) as u32;
            let until = Deadlines { connected: share, answered: until };
            match chain::open(socket, *address, (depots, server), until).await {
                Ok(Opened { hops, headers }) => {
                    return Ok(Made { headers, ..Made::fresh(Outcome::Chain(hops)) });
                }
                Err(error) => last = error,
            }
            chain::disconnect(socket).map_err(unreached)?;
            // Others are of the same depot.
            if !matches!(last, ChainError::Unreached { .. }) {
                break;
            }
        }
        Err(last)
    }

    /// Connects the socket to this process, which passes its bytes on: over TLS, or to a depot of the other family.
    async fn bridge(&self, socket: &Socket, route: &Route<'_>) -> Result<Made, ChainError> {
        let (server, hops) = self.caller.open(route, self.rules.time).await?;
        let here = |error| ChainError::Unreached { depot: route.depots[0].to_string(), error };
        let program = self.accept(socket).await.map_err(here)?;
        let resources = Rc::clone(&self.resources);
        spawn_local(async move {
            let _ =
                tunnel((program, BytesMut::new()), server, &resources, &Passed::default()).await;
        });
        Ok(Made::fresh(Outcome::Chain(hops)))
    }

    /// The other end of a connection of the socket to this process.
    async fn accept(&self, socket: &Socket) -> io::Result<Stream> {
        let is_ipv6 = socket.domain()? == Domain::IPV6;
        let own: IpAddr =
            if is_ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let listener = TcpListener::bind((own, 0)).await?;
        chain::connect_here(socket, listener.local_addr()?).await?;
        let program = socket.local_addr()?.as_socket();
        loop {
            // Somebody else on this machine may have been faster.
            let (stream, from) = listener.accept().await?;
            if Some(from) == program {
                return Ok(Stream::new(stream, from));
            }
        }
    }

    /// Says why the program connects by itself, once for each reason, and returns it.
    fn warn(&self, error: Option<&ChainError>) -> String {
        let Some(error) = error else { return "the chain could not be reached".to_owned() };
        let why = error.to_string();
        let mut warned = self.warned.borrow_mut();
        if warned.len() < 20 && !warned.contains(&why) {
            (self.rules.warn)(&why);
            warned.push(why.clone());
        }
        why
    }
}

fn failed(error: &ChainError) -> Outcome {
    Outcome::Failed { errno: error.errno(), why: error.to_string() }
}

/// Does what connect(2) would do with a socket of IP. `None`: it is of another family, which has no TCP.
async fn connect_as_asked(socket: &Socket, address: Address) -> io::Result<Option<()>> {
    let (domain, kind, protocol) = (socket.domain()?, socket.r#type()?, socket.protocol()?);
    let protocol = protocol.map_or(0, i32::from);
    filter::permit(domain.into(), kind.into(), protocol).map_err(io::Error::from_raw_os_error)?;
    if ![Domain::IPV4, Domain::IPV6].contains(&domain) {
        return Ok(None);
    }
    match address {
        Address::Ip(to) => chain::connect_as_program(socket, to).await.map(Some),
        Address::Unspecified => chain::disconnect(socket).map(Some),
        Address::Other => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        Address::Short => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Whether it is a socket of TCP that nobody has connected or is connecting. Of others the kernel itself says what is
/// the matter.
fn is_fresh_tcp(socket: &Socket) -> io::Result<bool> {
    let is_tcp = socket.r#type()? == Type::STREAM
        && matches!(socket.protocol()?, Some(Protocol::TCP | Protocol::MPTCP));
    Ok(is_tcp && is_unconnected(socket)?)
}

/// Where the depot is, as this socket can be connected to it. Linux cannot connect a socket by IPv6 any more that was
/// connected by IPv4 once: not to another depot, and not to a destination where the depots have failed.
async fn addresses_for(
    socket: &Socket,
    depot: &DepotAddress,
    destination: SocketAddr,
) -> io::Result<Vec<SocketAddr>> {
    let Authority { host, port } = &depot.authority;
    let found: Vec<SocketAddr> = match host {
        protocol::Host::Ip(ip) => vec![(*ip, *port).into()],
        protocol::Host::Name(name) => lookup_host((name.as_str(), *port)).await?.collect(),
    };
    let is_ipv6 = socket.domain()? == Domain::IPV6;
    let for_ipv4 = destination.ip().to_canonical().is_ipv4();
    let takes_ipv4 = !is_ipv6 || (for_ipv4 && !socket.only_v6()?);
    let reach = |address: SocketAddr| match address.ip() {
        IpAddr::V4(_) if !is_ipv6 => Some(address),
        IpAddr::V4(ip) if takes_ipv4 => Some((ip.to_ipv6_mapped(), *port).into()),
        IpAddr::V6(_) if is_ipv6 => Some(address),
        _ => None,
    };
    let mut addresses: Vec<_> = found.into_iter().filter_map(reach).collect();
    addresses.sort_by_key(|address| is_ipv6 && address.ip().to_canonical().is_ipv4());
    Ok(addresses)
}

fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    (a.ip().to_canonical(), a.port()) == (b.ip().to_canonical(), b.port())
}
