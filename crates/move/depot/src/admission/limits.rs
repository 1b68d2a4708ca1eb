// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts open connections: in total, by client, and by depot before this one.
//!
//! A client is an IPv4 address, or the /64 of an IPv6 one: every host has that many addresses of
//! its own, so that a limit on each of them would be none. Many have more: a provider gives its customers a
//! /56 or a /48, which is a site. One site has as much as a few clients.
//!
//! A depot of `trust.depots` brings many clients from one address, so its connections have a limit of their own.
//! What such a connection does (a request, a session, a part of a transfer) is counted for the client that the depot
//! names, for as long as it lasts: together with that client's other connections, wherever they come from. A client has the
//! same share whether it comes by itself or through depots.
//!
//! After a takeover, the connections of the depots that still drain are counted too ([`Gate::set_elsewhere`]).
//!
//! The last quarter of all places is for clients that have few connections. Otherwise `connections / per_client`
//! addresses, four by default, would fill a depot.

use crate::{admission::limit_reached::LimitReached, config::Limits};
use relay::{
    client_key::{CLIENTS_OF_SITE, FEW, KEPT_PART, host_key, site_key},
    shrink,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// Counts connections and refuses those over a limit.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Those of this process.
    here: Counts,
    /// The maximum of their total since it was last read.
    most: usize,
    /// Those of other processes.
    elsewhere: Counts,
}

/// Connections, each counted wherever a limit looks.
#[derive(Debug, Default)]
struct Counts {
    /// Connections of clients and of depots, without those that depots hold.
    total: usize,
    /// Those that depots hold, which are in none of the others.
    held: usize,
    /// Connections of clients, and what connections of depots do for clients.
    by_client: HashMap<IpAddr, usize>,
    by_site: HashMap<IpAddr, usize>,
    by_depot: HashMap<IpAddr, usize>,
}

/// Connections of a process, as another one is told of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenConnections {
    /// All but those that depots hold.
    pub total: usize,
    /// Those that depots hold idle.
    pub held: usize,
    /// By client, as far as depots carry them or the client has made them.
    pub by_client: Vec<(IpAddr, usize)>,
    /// By depot.
    pub by_depot: Vec<(IpAddr, usize)>,
}

impl Counts {
    /// Those of another process come on top.
    fn add(&mut self, open: &OpenConnections) {
        let add = |to: &mut usize, n: usize| *to = to.saturating_add(n);
        add(&mut self.total, open.total);
        add(&mut self.held, open.held);
        for (client, n) in &open.by_client {
            add(self.by_client.entry(host_key(*client)).or_default(), *n);
            add(self.by_site.entry(site_key(*client)).or_default(), *n);
        }
        for (depot, n) in &open.by_depot {
            add(self.by_depot.entry(host_key(*depot)).or_default(), *n);
        }
    }

    /// A client has one more.
    fn count(&mut self, keys: ClientKeys) {
        *self.by_client.entry(keys.host).or_default() += 1;
        *self.by_site.entry(keys.site).or_default() += 1;
    }

    /// A client has one less.
    fn discount(&mut self, keys: ClientKeys) {
        take_one(&mut self.by_client, keys.host);
        take_one(&mut self.by_site, keys.site);
    }

    /// A connection is this one's no more.
    fn leave(&mut self, owner: Owner) {
        match owner {
            Owner::Client(keys) => self.discount(keys),
            Owner::Depot(depot) => take_one(&mut self.by_depot, depot),
            Owner::Held => {
                self.held -= 1;
                return;
            }
        }
        self.total -= 1;
    }
}

/// The count of an address.
fn count_of(counts: &HashMap<IpAddr, usize>, address: IpAddr) -> usize {
    counts.get(&address).copied().unwrap_or(0)
}

/// Under which addresses a client is counted.
#[derive(Debug, Clone, Copy)]
struct ClientKeys {
    host: IpAddr,
    site: IpAddr,
}

/// Among which connections one is counted.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Client(ClientKeys),
    Depot(IpAddr),
    /// A depot holds it idle, from now until it closes.
    Held,
}

/// The slot of one connection, returned when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    gate: Arc<Gate>,
    owner: Owner,
}

/// What a depot's connection does for a client: counted among that client's connections until this is dropped.
#[derive(Debug)]
pub(crate) struct CarriedClient {
    gate: Arc<Gate>,
    client: IpAddr,
    keys: ClientKeys,
}

impl ConnectionSlot {
    /// From now on, and to its end, the connection is one that a depot holds; or the limit of those that
    /// it would break.
    pub(crate) fn hold(&mut self, limits: &Limits) -> Result<(), LimitReached> {
        if matches!(self.owner, Owner::Held) {
            return Ok(());
        }
        let mut open = self.gate.open();
        let held = open.all_held();
        if held >= limits.held {
            return Err(LimitReached::Held(held));
        }
        open.here.held += 1;
        open.here.leave(self.owner);
        self.owner = Owner::Held;
        Ok(())
    }

    /// Counts what the connection does for `client`, or says which limit that would break. A client's own
    /// connection is counted as it is: then there is nothing to count.
    pub(crate) fn carry(
        &self,
        client: IpAddr,
        limits: &Limits,
    ) -> Result<Option<CarriedClient>, LimitReached> {
        let own = match self.owner {
            Owner::Client(_) => return Ok(None),
            Owner::Depot(_) => 1,
            Owner::Held => 0,
        };
        let keys = ClientKeys::of(client);
        let mut open = self.gate.open();
        open.check_share(keys, open.all() - own, limits)?;
        open.here.count(keys);
        Ok(Some(CarriedClient { gate: Arc::clone(&self.gate), client, keys }))
    }
}

impl CarriedClient {
    /// Its address.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }
}

impl ClientKeys {
    fn of(client: IpAddr) -> Self {
        Self { host: host_key(client), site: site_key(client) }
    }
}

impl Open {
    /// Whether a client may have one more where `others` connections are open.
    fn check_share(
        &self,
        keys: ClientKeys,
        others: usize,
        limits: &Limits,
    ) -> Result<(), LimitReached> {
        let kept = limits.connections / KEPT_PART;
        let Self { here, elsewhere, .. } = self;
        for (counts, elsewhere, client, clients) in [
            (&here.by_client, &elsewhere.by_client, keys.host, 1),
            (&here.by_site, &elsewhere.by_site, keys.site, CLIENTS_OF_SITE),
        ] {
            let own = count_of(counts, client).saturating_add(count_of(elsewhere, client));
            if own >= limits.per_client.saturating_mul(clients) {
                return Err(LimitReached::Client { client, own, is_site: clients > 1 });
            }
            let few = FEW * clients;
            if others >= limits.connections - kept && own >= few {
                return Err(LimitReached::LastPlaces { kept, few, client, own });
            }
        }
        Ok(())
    }

    /// The number of connections of all processes, without those that depots hold.
    fn all(&self) -> usize {
        self.here.total.saturating_add(self.elsewhere.total)
    }

    /// The number that depots hold, in all processes.
    fn all_held(&self) -> usize {
        self.here.held.saturating_add(self.elsewhere.held)
    }
}

/// Counts one less for an address, which is forgotten at none.
fn take_one(counts: &mut HashMap<IpAddr, usize>, address: IpAddr) {
    if let Some(own) = counts.get_mut(&address) {
        *own -= 1;
        if *own == 0 {
            counts.remove(&address);
            shrink(counts);
        }
    }
}

impl Gate {
    /// A slot for a connection from a client, or the limit that it would exceed.
    pub(crate) fn enter_client(
        self: &Arc<Self>,
        client: IpAddr,
        limits: &Limits,
    ) -> Result<ConnectionSlot, LimitReached> {
        let keys = ClientKeys::of(client);
        self.enter(Owner::Client(keys), limits, |open| {
            open.check_share(keys, open.all(), limits)?;
            open.here.count(keys);
            Ok(())
        })
    }

    /// A slot for a connection from a depot of `trust.depots`. Each request on it names its client.
    pub(crate) fn enter_depot(
        self: &Arc<Self>,
        depot: IpAddr,
        limits: &Limits,
    ) -> Result<ConnectionSlot, LimitReached> {
        let depot = host_key(depot);
        self.enter(Owner::Depot(depot), limits, |open| {
            let elsewhere = count_of(&open.elsewhere.by_depot, depot);
            let own = count_of(&open.here.by_depot, depot).saturating_add(elsewhere);
            if own >= limits.of_depot() {
                return Err(LimitReached::Depot { depot, own });
            }
            *open.here.by_depot.entry(depot).or_default() += 1;
            Ok(())
        })
    }

    fn enter(
        self: &Arc<Self>,
        owner: Owner,
        limits: &Limits,
        count: impl FnOnce(&mut Open) -> Result<(), LimitReached>,
    ) -> Result<ConnectionSlot, LimitReached> {
        let mut open = self.open();
        let all = open.all();
        if all >= limits.connections {
            return Err(LimitReached::Connections(all));
        }
        count(&mut open)?;
        open.here.total += 1;
        open.most = open.most.max(open.here.total);
        Ok(ConnectionSlot { gate: Arc::clone(self), owner })
    }

    /// How many connections are open in all processes, without those that depots hold.
    pub(crate) fn len(&self) -> usize {
        self.open().all()
    }

    /// How many connections depots hold, in all processes.
    pub(crate) fn held(&self) -> usize {
        self.open().all_held()
    }

    /// The connections of this process, for others that share its limits.
    pub(crate) fn own(&self) -> OpenConnections {
        let here = &self.open().here;
        let all = |counts: &HashMap<_, _>| counts.iter().map(|(key, n)| (*key, *n)).collect();
        let (by_client, by_depot) = (all(&here.by_client), all(&here.by_depot));
        OpenConnections { total: here.total, held: here.held, by_client, by_depot }
    }

    /// Counts these connections of other processes with its own. They replace those of the last call.
    pub(crate) fn set_elsewhere<'o>(&self, others: impl IntoIterator<Item = &'o OpenConnections>) {
        let mut elsewhere = Counts::default();
        others.into_iter().for_each(|open| elsewhere.add(open));
        self.open().elsewhere = elsewhere;
    }

    /// The maximum number of open connections since the last call, and the number now.
    pub(crate) fn crest(&self) -> (usize, usize) {
        let mut open = self.open();
        let now = open.here.total;
        (std::mem::replace(&mut open.most, now), now)
    }

    /// Counting cannot leave the numbers half-changed, so a panic elsewhere does not spoil them.
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.gate.open().here.leave(self.owner);
    }
}

impl Drop for CarriedClient {
    fn drop(&mut self) {
        self.gate.open().here.discount(self.keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay::buffers::NoMemory;
    use std::net::Ipv4Addr;
    use units::Bytes;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The n-th of many addresses.
    fn nth(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + n).into()
    }

    fn is_empty(gate: &Gate) -> bool {
        let open = gate.open();
        let none = open.here.by_client.is_empty()
            && open.here.by_site.is_empty()
            && open.here.by_depot.is_empty();
        none && (open.here.total, open.here.held) == (0, 0)
    }

    #[test]
    fn slots_are_counted_and_returned() {
        let limits = Limits { connections: 3, per_client: 2, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let enter = |client| gate.enter_client(client, &limits);
        let (a, b) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let first = enter(a).unwrap();
        let _second = enter(ip("::ffff:10.0.0.1")).unwrap();
        let full = LimitReached::Client { client: a, own: 2, is_site: false };
        assert_eq!(enter(a).unwrap_err(), full);
        let _third = enter(b).unwrap();
        assert_eq!(enter(b).unwrap_err(), LimitReached::Connections(3));
        drop(first);
        let _again = enter(b).unwrap();
        assert_eq!(gate.open().here.by_client.len(), 2);
    }

    #[test]
    fn held_connections_have_their_own_limit() {
        let limits = Limits { connections: 2, per_client: 1, held: 2, ..Limits::default() };
        for enter in [Gate::enter_client, Gate::enter_depot] {
            let gate = Arc::new(Gate::default());
            let enter = || enter(&gate, ip("10.0.0.1"), &limits);
            let mut first = enter().unwrap();
            first.hold(&limits).unwrap();
            first.hold(&limits).unwrap();
            assert_eq!((gate.len(), gate.held()), (0, 1), "it is in one of them, and once");
            let mut second = enter().unwrap();
            second.hold(&limits).unwrap();
            let mut third = enter().unwrap();
            assert_eq!(third.hold(&limits), Err(LimitReached::Held(2)));
            assert_eq!((gate.len(), gate.held()), (1, 2), "it stays what it was");
            drop(first);
            third.hold(&limits).unwrap();
            drop((second, third));
            assert!(is_empty(&gate));
        }
    }

    #[test]
    fn ipv6_host_addresses_count_as_one_client() {
        let limits = Limits { per_client: 1, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let enter = |client: &str| gate.enter_client(ip(client), &limits);
        let _held = enter("2001:db8:0:1::1").unwrap();
        assert!(enter("2001:db8:0:1:ffff::2").is_err());
        assert!(enter("2001:db8:0:2::1").is_ok());
    }

    #[test]
    fn ipv6_site_limit_is_a_few_clients_limit() {
        let limits = Limits { per_client: 2, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let enter = |n: usize| gate.enter_client(ip(&format!("2001:db8:7:{n:x}::1")), &limits);
        let held: Vec<_> = (0..1000).map_while(|n| enter(n).ok()).collect();
        assert_eq!(held.len(), 2 * CLIENTS_OF_SITE);
        let full = LimitReached::Client { client: ip("2001:db8:7::"), own: 8, is_site: true };
        assert_eq!(enter(0).unwrap_err(), full);
        assert!(gate.enter_client(ip("2001:db8:8::1"), &limits).is_ok(), "another site");
        drop(held);
        assert!(enter(0).is_ok() && is_empty(&gate));
    }

    #[test]
    fn few_clients_cannot_fill_a_depot() {
        let (limits, gate) = (Limits::default(), Arc::new(Gate::default()));
        let take_all = |client| {
            std::iter::from_fn(|| gate.enter_client(client, &limits).ok()).collect::<Vec<_>>()
        };
        let greedy: Vec<_> = (0..5).map(|n| take_all(nth(n))).collect();
        let taken: Vec<_> = greedy.iter().map(Vec::len).collect();
        assert_eq!(taken, [256, 256, 256, FEW, FEW]);
        let kept = limits.connections / KEPT_PART;
        let last = LimitReached::LastPlaces { kept, few: FEW, client: nth(4), own: FEW };
        assert_eq!(gate.enter_client(nth(4), &limits).unwrap_err(), last);
        // Others have as many as a browser opens.
        let others: Vec<_> = (10..50).map(|n| take_all(nth(n))).collect();
        let taken: usize = others.iter().map(Vec::len).sum();
        assert_eq!(taken, kept - 2 * FEW, "all places are taken");
        drop((greedy, others));
        assert!(is_empty(&gate));
    }

    #[test]
    fn ipv6_site_share_of_last_slots_is_limited() {
        let limits = Limits { connections: 100, per_client: 75, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let most = (0..75).map(|_| gate.enter_client(nth(0), &limits).unwrap());
        let _most: Vec<_> = most.collect();
        let enter = |n: usize| gate.enter_client(ip(&format!("2001:db8:7:{n:x}::1")), &limits);
        let held: Vec<_> = (0..25).map_while(|n| enter(n).ok()).collect();
        assert_eq!(held.len(), 25, "fewer than {}", FEW * CLIENTS_OF_SITE);
        drop(held);
        let held: Vec<_> = (0..25).map_while(|_| enter(1).ok()).collect();
        assert_eq!(held.len(), FEW);
    }

    #[test]
    fn depot_connections_count_for_named_clients() {
        let limits = Limits { connections: 8, per_client: 2, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let (depot, client) = (ip("10.9.9.9"), ip("10.0.0.1"));
        let slots: Vec<_> = (0..4).map(|_| gate.enter_depot(depot, &limits).unwrap()).collect();
        let own = gate.enter_client(client, &limits).unwrap();
        assert!(own.carry(ip("10.0.0.2"), &limits).unwrap().is_none(), "it is a client's");
        let carried = slots[0].carry(client, &limits).unwrap();
        let full = LimitReached::Client { client, own: 2, is_site: false };
        assert_eq!(slots[1].carry(client, &limits).unwrap_err(), full);
        assert_eq!(gate.enter_client(client, &limits).unwrap_err(), full);
        let other = slots[1].carry(ip("10.0.0.2"), &limits).unwrap();
        assert_eq!(gate.len(), 5, "carried requests take no further slots");
        drop(carried);
        let _again = slots[1].carry(client, &limits).unwrap();
        drop((own, other, slots));
        assert_eq!(gate.len(), 0);
        assert_eq!(gate.open().here.by_client.len(), 1, "what goes on counts");
    }

    #[test]
    fn depot_connections_have_their_own_limit() {
        let gate = Arc::new(Gate::default());
        let mut limits = Limits { connections: 8, per_depot: Some(2), ..Limits::default() };
        let (depot, other) = (ip("10.9.9.9"), ip("10.9.9.8"));
        let slots: Vec<_> = (0..2).map(|_| gate.enter_depot(depot, &limits).unwrap()).collect();
        let full = LimitReached::Depot { depot, own: 2 };
        assert_eq!(gate.enter_depot(depot, &limits).unwrap_err(), full);
        drop(gate.enter_depot(other, &limits).unwrap());
        // Without a limit of its own it may take all slots.
        limits.per_depot = None;
        let more: Vec<_> = (0..6).map(|_| gate.enter_depot(depot, &limits).unwrap()).collect();
        assert_eq!(gate.enter_depot(depot, &limits).unwrap_err(), LimitReached::Connections(8));
        drop((slots, more));
        assert!(is_empty(&gate));
    }

    #[test]
    fn last_slots_are_reserved_through_depots_too() {
        let (limits, gate) = (Limits::default(), Arc::new(Gate::default()));
        let depot = ip("10.9.9.9");
        let carry = |client| {
            let slot = gate.enter_depot(depot, &limits).unwrap();
            slot.carry(client, &limits).map(|carried| (slot, carried.unwrap()))
        };
        let busy: Vec<_> = (0..100).map(|_| carry(nth(1000)).unwrap()).collect();
        let others: Vec<_> = (0..668).map(|n| carry(nth(n % 200)).unwrap()).collect();
        let kept = limits.connections / KEPT_PART;
        assert_eq!(gate.len(), limits.connections - kept);
        let last = LimitReached::LastPlaces { kept, few: FEW, client: nth(1000), own: 100 };
        assert_eq!(carry(nth(1000)).unwrap_err(), last);
        let last: Vec<_> = (0..256).map(|n| carry(nth(n)).unwrap()).collect();
        assert_eq!(gate.len(), limits.connections, "all places are taken, by 256 clients");
        drop((busy, others, last));
        assert!(is_empty(&gate));
    }

    #[test]
    fn connections_of_another_process_count_too() {
        let limits = Limits { connections: 9, per_client: 3, held: 2, ..Limits::default() };
        let (gate, other) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let (a, b, depot) = (ip("10.0.0.1"), ip("10.0.0.2"), ip("10.9.9.9"));
        let mut theirs: Vec<_> = (0..2).map(|_| other.enter_client(a, &limits).unwrap()).collect();
        theirs.push(other.enter_depot(depot, &limits).unwrap());
        let carried = theirs[2].carry(b, &limits).unwrap();
        let own = other.own();
        assert_eq!((own.total, own.by_client.len()), (3, 2));
        gate.set_elsewhere([&own, &OpenConnections { total: 3, held: 2, ..Default::default() }]);
        assert_eq!((gate.len(), gate.held()), (6, 2));
        let first = gate.enter_client(a, &limits).unwrap();
        let full = LimitReached::Client { client: a, own: 3, is_site: false };
        assert_eq!(gate.enter_client(a, &limits).unwrap_err(), full);
        let mut of_depot = gate.enter_depot(depot, &limits).unwrap();
        assert_eq!(of_depot.carry(a, &limits).unwrap_err(), full);
        assert_eq!(of_depot.hold(&limits), Err(LimitReached::Held(2)));
        let last = gate.enter_client(b, &limits).unwrap();
        assert_eq!(gate.enter_client(b, &limits).unwrap_err(), LimitReached::Connections(9));
        drop((theirs, carried));
        gate.set_elsewhere([&other.own()]);
        assert!(gate.enter_client(a, &limits).is_ok());
        drop((first, of_depot, last));
        assert!(is_empty(&gate));
    }

    #[test]
    fn limit_message_names_depot_and_setting() {
        let id = "far".parse().unwrap();
        let client = ip("192.0.2.7");
        let memory = |why| LimitReached::Memory { why, limit: Bytes::new(64 << 20) };
        for (reached, setting) in [
            (LimitReached::Connections(1024), "limits.connections"),
            (LimitReached::LastPlaces { kept: 256, few: 8, client, own: 9 }, "limits.connections"),
            (LimitReached::Client { client, own: 256, is_site: false }, "limits.per_client"),
            (LimitReached::Depot { depot: client, own: 5 }, "limits.per_depot"),
            (LimitReached::Held(7), "limits.held"),
            (memory(NoMemory::All { reserved: 64 << 20 }), "64 MB of limits.memory (64MB)"),
            (
                memory(NoMemory::Kept { reserved: 48 << 20, client, transfers: 9 }),
                "48 MB of limits.memory (64MB) are reserved",
            ),
            (
                memory(NoMemory::Client {
                    client,
                    transfers: 21,
                    reserved: 16 << 20,
                    share: 17 << 20,
                    is_site: false,
                }),
                "16 MB are reserved for 21 transfers of 192.0.2.7",
            ),
        ] {
            let fault = reached.fault(&id);
            assert_eq!(fault.status, 503);
            for word in ["depot far", setting] {
                assert!(fault.reason.contains(word), "{fault}");
            }
        }
        let fault = LimitReached::Depot { depot: client, own: 5 }.fault(&id);
        assert!(!fault.reason.contains("192.0.2.7") && fault.in_full().contains("192.0.2.7"));
    }
}
