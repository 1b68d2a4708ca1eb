// SPDX-License-Identifier: GPL-2.0-or-later
//! To what rate the connections of a transfer are held.
//!
//! The lowest of these, on each of its two sides:
//! - the rate that its ticket grants,
//! - towards the next hop, the rate that a session asks for,
//! - the rate that is set as the peer's `pacing`,
//! - its part of what its client may have: `limits.client_rate`, divided equally among the transfers
//!   that the client has under way.
//!
//! TCP spaces what it sends to that rate (`SO_MAX_PACING_RATE`): towards the client what is downloaded,
//! towards the next hop what is uploaded, and then a full window holds the client. Several
//! connections that share an answer divide it further. Where there is no rate, and the peer's `pacing` is
//! TCP's own, TCP spaces at a rate that it finds itself.
//!
//! A part changes with the number of transfers, and all are set anew. In a crowd of n that would be n
//! system calls for each that begins or ends; so the rate is divided among some more than there are,
//! from 8 on, and stays so divided until the number has changed by about an eighth. What all have
//! together is never more than the rate, and no less than 4/5 of it.

use crate::{
    client_key::host_key,
    shrink,
    tcp::{Stream, Wire, info::Spacing, socket_options::HopOptions},
};
use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use units::Rate;

/// What clients are held to.
#[derive(Debug)]
pub struct Rates(Mutex<Clients>);

#[derive(Debug)]
struct Clients {
    /// What each may have.
    rate: Option<Rate>,
    /// Those that have transfers.
    by_address: HashMap<IpAddr, Client>,
}

#[derive(Debug)]
struct Client {
    /// How many transfers have, or are about to have, a place in its crowd.
    places: usize,
    crowd: Arc<Mutex<Crowd>>,
}

/// The transfers of one client.
#[derive(Debug)]
struct Crowd {
    /// What they may have together.
    rate: Option<Rate>,
    /// By how many that is divided.
    parts: u64,
    /// By their numbers.
    transfers: HashMap<u64, Arc<Transfer>>,
}

/// A transfer's membership in the crowd; it ends when dropped.
#[derive(Debug)]
struct CrowdMember<'r> {
    rates: &'r Rates,
    client: IpAddr,
    crowd: Arc<Mutex<Crowd>>,
    number: u64,
}

/// What may hold a transfer to a rate.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransferLimits {
    /// The rate that its ticket grants.
    pub granted: Option<Rate>,
    /// The rate that its client asks for towards the next hop.
    pub upstream: Option<Rate>,
    /// Whether clients are held to a rate.
    pub by_client: bool,
    /// Whether connections with any peer are spaced by TCP.
    pub by_peer: bool,
}

/// What a transfer is held to for as long as this is there. Afterwards its connections stay as they
/// are until the next transfer on them.
#[derive(Debug)]
pub struct Pacing<'r> {
    /// None where no rate is set for anybody, so that nothing has to be done.
    transfer: Option<Arc<Transfer>>,
    #[expect(dead_code, reason = "it is there to be dropped")]
    member: Option<CrowdMember<'r>>,
}

/// A transfer that may be held to a rate.
#[derive(Debug)]
struct Transfer {
    /// What its ticket grants.
    granted: Option<Rate>,
    /// What its client asks for towards the next hop.
    upstream: Option<Rate>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Its part of what its client may have.
    part: Option<Rate>,
    client: Side,
    upstream: Side,
}

/// The connections of one side: the first one, and those that have joined it.
#[derive(Debug, Default)]
struct Side {
    /// The lowest of the rates that are set for it.
    set: Option<Rate>,
    /// How TCP spaces what it sends where there is no rate.
    otherwise: Spacing,
    connections: Vec<Weak<Wire>>,
}

impl Rates {
    /// Holds each client to this rate.
    pub fn new(rate: Option<Rate>) -> Self {
        Self(Mutex::new(Clients { rate, by_address: HashMap::new() }))
    }

    /// From now on to this one. Transfers that began while there was none stay free.
    pub fn replace(&self, rate: Option<Rate>) {
        let crowds: Vec<_> = {
            let mut clients = locked(&self.0);
            clients.rate = rate;
            clients.by_address.values().map(|client| Arc::clone(&client.crowd)).collect()
        };
        for crowd in crowds {
            let mut crowd = locked(&crowd);
            crowd.rate = rate;
            crowd.share_out();
        }
    }

    /// A transfer of `client` begins.
    pub fn begin(&self, number: u64, client: IpAddr, limits: TransferLimits) -> Pacing<'_> {
        let TransferLimits { granted, upstream, by_client, by_peer } = limits;
        if granted.or(upstream).is_none() && !by_client && !by_peer {
            return Pacing { transfer: None, member: None };
        }
        let transfer = Arc::new(Transfer { granted, upstream, held: Mutex::default() });
        let member = by_client.then(|| self.enter(host_key(client), number, &transfer));
        Pacing { transfer: Some(transfer), member }
    }

    fn enter(&self, client: IpAddr, number: u64, transfer: &Arc<Transfer>) -> CrowdMember<'_> {
        let crowd = {
            let mut clients = locked(&self.0);
            let Clients { rate, by_address } = &mut *clients;
            let own = by_address.entry(client).or_insert_with(|| Client::new(*rate));
            own.places += 1;
            Arc::clone(&own.crowd)
        };
        locked(&crowd).enter(number, transfer);
        CrowdMember { rates: self, client, crowd, number }
    }
}

impl Client {
    fn new(rate: Option<Rate>) -> Self {
        let crowd = Crowd { rate, parts: 0, transfers: HashMap::new() };
        Self { places: 0, crowd: Arc::new(Mutex::new(crowd)) }
    }
}

impl Crowd {
    fn enter(&mut self, number: u64, transfer: &Arc<Transfer>) {
        self.transfers.insert(number, Arc::clone(transfer));
        self.count();
        transfer.take(self.part());
    }

    fn leave(&mut self, number: u64) {
        self.transfers.remove(&number);
        shrink(&mut self.transfers);
        self.count();
    }

    /// Divides the rate anew where that has become necessary.
    fn count(&mut self) {
        let count = self.transfers.len() as u64;
        let spare = count / 8;
        if self.parts < count || self.parts > count + 2 * spare {
            self.parts = count + spare;
            self.share_out();
        }
    }

    /// Gives each its part.
    fn share_out(&self) {
        let part = self.part();
        self.transfers.values().for_each(|transfer| transfer.take(part));
    }

    fn part(&self) -> Option<Rate> {
        self.rate.map(|rate| divided(rate, self.parts))
    }
}

impl Drop for CrowdMember<'_> {
    fn drop(&mut self) {
        // Whoever sets a part has this lock: from here on nobody sets one of this transfer's.
        locked(&self.crowd).leave(self.number);
        let Clients { by_address, .. } = &mut *locked(&self.rates.0);
        if let Some(own) = by_address.get_mut(&self.client) {
            own.places -= 1;
            if own.places == 0 {
                by_address.remove(&self.client);
                shrink(by_address);
            }
        }
    }
}

impl Pacing<'_> {
    /// Holds the two connections that the transfer goes over, or lets them go where they were held for
    /// another one. `options` are those for the peer at an address.
    ///
    /// # Errors
    /// The kernel refuses a rate.
    pub fn hold<'o>(
        &self,
        client: &Stream,
        upstream: &Stream,
        options: impl Fn(IpAddr) -> HopOptions<'o>,
    ) -> io::Result<()> {
        let Some(transfer) = &self.transfer else {
            client.wire().pace(Spacing::Free)?;
            return upstream.wire().pace(Spacing::Free);
        };
        let side = |stream: &Stream| {
            let spacing = options(stream.peer().ip()).spacing;
            Side {
                set: lowest(transfer.granted, spacing.rate()),
                otherwise: if spacing == Spacing::Own { Spacing::Own } else { Spacing::Free },
                connections: vec![stream.watch()],
            }
        };
        let mut held = locked(&transfer.held);
        (held.client, held.upstream) = (side(client), side(upstream));
        held.upstream.set = lowest(held.upstream.set, transfer.upstream);
        held.pace()
    }

    /// What takes in a connection that joins the one on this side: all then have an equal part.
    pub fn join(&self, side: crate::Side) -> impl Fn(&Stream) -> io::Result<()> + Send + use<> {
        let transfer = self.transfer.clone();
        move |joined| {
            let Some(transfer) = &transfer else { return Ok(()) };
            let mut held = locked(&transfer.held);
            let side = match side {
                crate::Side::Client => &mut held.client,
                crate::Side::Upstream => &mut held.upstream,
            };
            side.connections.push(joined.watch());
            held.pace()
        }
    }

    /// The client's first connection is alone again.
    ///
    /// # Errors
    /// The kernel refuses a rate.
    pub fn alone(&self) -> io::Result<()> {
        let Some(transfer) = &self.transfer else { return Ok(()) };
        let mut held = locked(&transfer.held);
        held.client.connections.truncate(1);
        held.pace()
    }
}

impl Transfer {
    /// Its part of what its client may have is now this.
    fn take(&self, part: Option<Rate>) {
        let mut held = locked(&self.held);
        held.part = part;
        // What fails here is a connection that has broken, and the transfer with it.
        let _ = held.pace();
    }
}

impl Held {
    fn pace(&self) -> io::Result<()> {
        self.client.pace(self.part).and(self.upstream.pace(self.part))
    }
}

impl Side {
    /// Holds all its connections together to the lowest rate.
    fn pace(&self, part: Option<Rate>) -> io::Result<()> {
        let open: Vec<_> = self.connections.iter().filter_map(Weak::upgrade).collect();
        let rate = lowest(self.set, part).map(|rate| divided(rate, open.len() as u64));
        let spacing = rate.map_or(self.otherwise, Spacing::AtMost);
        open.iter().map(|wire| wire.pace(spacing)).fold(Ok(()), Result::and)
    }
}

fn lowest(one: Option<Rate>, other: Option<Rate>) -> Option<Rate> {
    [one, other].into_iter().flatten().min()
}

/// One of so many equal parts.
fn divided(rate: Rate, parts: u64) -> Rate {
    Rate::bits_per_second(rate.bps() / parts.max(1))
}

/// Nothing that these locks guard can be left half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
