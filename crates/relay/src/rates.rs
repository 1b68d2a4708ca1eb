// SPDX-License-Identifier: GPL-2.0-or-later
//! To what rate the connections of a transfer are held.
//!
//! The lowest of these, on each of its two sides:
//! - the rate that its ticket grants, and the one that an operator has set for the transfer,
//! - towards the next hop, the rate that a session asks for,
//! - the rate that is set as the peer's `pacing`,
//! - its part of what its client may have, and of what all transfers of its ticket may have together: these are divided
//!   equally among the transfers that the client, or the ticket, has under way.
//!
//! TCP spaces what it sends to that rate (`SO_MAX_PACING_RATE`): towards the client what is downloaded,
//! towards the next hop what is uploaded, and then a full window holds the client. Several
//! connections that share an answer divide it further. Where there is no rate, and the peer's `pacing` is
//! TCP's own, TCP spaces at a rate that it finds itself.
//!
//! A share changes with the number of transfers, and all shares are then set again. In a crowd of n that would
//! be n system calls for each start or end. So from 8 transfers up, the rate is divided among slightly more
//! than there are, and stays so until the number has changed by about an eighth. The shares add up to at most
//! the rate, and to at least 4/5 of it.
//!
//! Every rate may be changed while transfers are under way, so all transfers are known here, also those that nothing holds.
//!
//! Locks are taken in this order: a transfer's memberships, a crowd, all transfers, what a transfer is held to.

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

/// How many rates operators may set for clients and tickets at a time.
const MOST_SET: usize = 4096;

/// What clients, tickets and transfers are held to.
#[derive(Debug, Clone)]
pub struct Rates(Arc<Mutex<All>>);

#[derive(Debug)]
struct All {
    /// What each client may have.
    client_rate: Option<Rate>,
    /// What operators have set in its place, and for tickets.
    set: HashMap<Sharer, Rate>,
    /// Those who have transfers that are held to a rate.
    crowds: HashMap<Sharer, Place>,
    /// All transfers under way.
    transfers: HashMap<u64, Arc<Transfer>>,
}

/// Whose transfers share a rate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sharer {
    /// A client's, with all addresses that one host may have.
    Client(IpAddr),
    /// A ticket's.
    Ticket(Arc<str>),
}

impl Sharer {
    /// The client at an address.
    pub fn client(address: IpAddr) -> Self {
        Self::Client(host_key(address))
    }
}

/// An operator has set too many rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MOST_SET} rates are set already")]
pub struct TooManyRates;

#[derive(Debug)]
struct Place {
    /// How many transfers have, or are about to have, a place in the crowd.
    places: usize,
    crowd: Arc<Mutex<Crowd>>,
}

/// Transfers that share a rate.
#[derive(Debug)]
struct Crowd {
    whose: Sharer,
    /// What they may have together.
    rate: Option<Rate>,
    /// By how many that is divided.
    parts: u64,
    /// By their numbers.
    transfers: HashMap<u64, Arc<Transfer>>,
}

/// A transfer's membership in a crowd; it ends when dropped.
#[derive(Debug)]
struct Membership {
    rates: Rates,
    whose: Sharer,
    crowd: Arc<Mutex<Crowd>>,
    number: u64,
}

/// What may hold a transfer to a rate.
#[derive(Debug, Clone, Default)]
pub struct TransferLimits {
    /// The rate that its ticket grants.
    pub granted: Option<Rate>,
    /// The rate that its client asks for towards the next hop.
    pub upstream: Option<Rate>,
    /// The ticket, and what all of its transfers may have together.
    pub ticket: Option<(Arc<str>, Option<Rate>)>,
}

/// What a transfer is held to for as long as this is there. Afterwards its connections stay as they
/// are until the next transfer on them.
#[derive(Debug)]
pub struct Pacing {
    rates: Rates,
    transfer: Arc<Transfer>,
}

/// A transfer that may be held to a rate.
#[derive(Debug)]
struct Transfer {
    number: u64,
    client: Sharer,
    ticket: Option<(Sharer, Option<Rate>)>,
    /// What its ticket grants.
    granted: Option<Rate>,
    /// What its client asks for towards the next hop.
    upstream: Option<Rate>,
    /// With whom it shares a rate; nothing any more once it is over.
    memberships: Mutex<Option<Vec<Membership>>>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Its part of what its client may have.
    of_client: Option<Rate>,
    /// Its part of what its ticket's transfers may have.
    of_ticket: Option<Rate>,
    /// What an operator has set for it.
    by_operator: Option<Rate>,
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

impl All {
    /// The total rate of these transfers, if a ticket allows `by_ticket`. `None` if it is unlimited.
    fn rate_of(&self, whose: &Sharer, by_ticket: Option<Rate>) -> Option<Rate> {
        let by_default = match whose {
            Sharer::Client(_) => self.client_rate,
            Sharer::Ticket(_) => by_ticket,
        };
        self.set.get(whose).copied().or(by_default)
    }
}

impl Rates {
    /// Holds each client to this rate.
    pub fn new(client_rate: Option<Rate>) -> Self {
        let (set, crowds, transfers) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self(Arc::new(Mutex::new(All { client_rate, set, crowds, transfers })))
    }

    /// From now on to this one, also with what is under way.
    pub fn replace(&self, client_rate: Option<Rate>) {
        locked(&self.0).client_rate = client_rate;
        self.share_anew(|_| true);
    }

    /// Limits the total rate of a client's or ticket's transfers, replacing any other limit on the total, or
    /// removes the limit that was set.
    ///
    /// # Errors
    /// Too many rates are set.
    pub fn set(&self, whose: &Sharer, rate: Option<Rate>) -> Result<(), TooManyRates> {
        {
            let mut all = locked(&self.0);
            match rate {
                Some(rate) if all.set.len() < MOST_SET || all.set.contains_key(whose) => {
                    all.set.insert(whose.clone(), rate);
                }
                Some(_) => return Err(TooManyRates),
                None => drop(all.set.remove(whose)),
            }
        }
        self.share_anew(|of| of == whose);
        Ok(())
    }

    /// Holds one transfer to this rate, or lets it go; whether there is such a transfer.
    pub fn set_transfer(&self, number: u64, rate: Option<Rate>) -> bool {
        let Some(transfer) = locked(&self.0).transfers.get(&number).cloned() else { return false };
        let mut held = locked(&transfer.held);
        held.by_operator = rate;
        // What fails here is a connection that has broken, and the transfer with it.
        let _ = held.pace();
        true
    }

    /// The rates that operators have set for clients and tickets.
    pub fn all_set(&self) -> Vec<(Sharer, Rate)> {
        locked(&self.0).set.iter().map(|(whose, rate)| (whose.clone(), *rate)).collect()
    }

    /// Has all transfers of these share their rate, whether they did before or not.
    fn share_anew(&self, are: impl Fn(&Sharer) -> bool) {
        let (crowds, transfers): (Vec<_>, Vec<_>) = {
            let all = locked(&self.0);
            let crowds = all.crowds.iter().filter(|(whose, _)| are(whose));
            (
                crowds.map(|(_, place)| Arc::clone(&place.crowd)).collect(),
                all.transfers.values().cloned().collect(),
            )
        };
        for crowd in crowds {
            let mut crowd = locked(&crowd);
            // Each transfer of a ticket stores the ticket's own rate.
            let by_ticket =
                crowd.transfers.values().next().and_then(|transfer| transfer.ticket.as_ref()?.1);
            crowd.rate = locked(&self.0).rate_of(&crowd.whose, by_ticket);
            crowd.share_out();
        }
        for transfer in transfers {
            self.join(&transfer, &are);
        }
    }

    /// A transfer of `client` begins.
    pub fn begin(&self, number: u64, client: IpAddr, limits: TransferLimits) -> Pacing {
        let TransferLimits { granted, upstream, ticket } = limits;
        let transfer = Arc::new(Transfer {
            number,
            client: Sharer::client(client),
            ticket: ticket.map(|(id, rate)| (Sharer::Ticket(id), rate)),
            granted,
            upstream,
            memberships: Mutex::new(Some(Vec::new())),
            held: Mutex::default(),
        });
        locked(&self.0).transfers.insert(number, Arc::clone(&transfer));
        self.join(&transfer, |_| true);
        Pacing { rates: self.clone(), transfer }
    }

    /// Has a transfer share the rates that there are for these.
    fn join(&self, transfer: &Arc<Transfer>, are: impl Fn(&Sharer) -> bool) {
        let of_ticket = transfer.ticket.as_ref().map(|(whose, rate)| (whose, *rate));
        let mut memberships = locked(&transfer.memberships);
        let Some(memberships) = memberships.as_mut() else { return };
        for (whose, by_ticket) in std::iter::once((&transfer.client, None)).chain(of_ticket) {
            if !are(whose) || memberships.iter().any(|of| of.whose == *whose) {
                continue;
            }
            let crowd = {
                let mut all = locked(&self.0);
                let Some(rate) = all.rate_of(whose, by_ticket) else { continue };
                let place = all.crowds.entry(whose.clone());
                let place = place.or_insert_with(|| Place::new(whose.clone(), rate));
                place.places += 1;
                Arc::clone(&place.crowd)
            };
            locked(&crowd).enter(transfer.number, transfer);
            let (rates, whose, number) = (self.clone(), whose.clone(), transfer.number);
            memberships.push(Membership { rates, whose, crowd, number });
        }
    }
}

impl Place {
    fn new(whose: Sharer, rate: Rate) -> Self {
        let crowd = Crowd { whose, rate: Some(rate), parts: 0, transfers: HashMap::new() };
        Self { places: 0, crowd: Arc::new(Mutex::new(crowd)) }
    }
}

impl Crowd {
    fn enter(&mut self, number: u64, transfer: &Arc<Transfer>) {
        self.transfers.insert(number, Arc::clone(transfer));
        self.count();
        transfer.take(&self.whose, self.part());
    }

    fn leave(&mut self, number: u64) {
        self.transfers.remove(&number);
        shrink(&mut self.transfers);
        self.count();
    }

    /// Divides the rate again if necessary.
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
        self.transfers.values().for_each(|transfer| transfer.take(&self.whose, part));
    }

    fn part(&self) -> Option<Rate> {
        self.rate.map(|rate| divided(rate, self.parts))
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // Setting a share requires this lock: after this, no thread sets one of this transfer.
        locked(&self.crowd).leave(self.number);
        let All { crowds, .. } = &mut *locked(&self.rates.0);
        if let Some(place) = crowds.get_mut(&self.whose) {
            place.places -= 1;
            if place.places == 0 {
                crowds.remove(&self.whose);
                shrink(crowds);
            }
        }
    }
}

impl Drop for Pacing {
    fn drop(&mut self) {
        let all = &self.rates.0;
        {
            let transfers = &mut locked(all).transfers;
            transfers.remove(&self.transfer.number);
            shrink(transfers);
        }
        let memberships = locked(&self.transfer.memberships).take();
        drop(memberships);
    }
}

impl Pacing {
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
        let transfer = &self.transfer;
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
        let transfer = Arc::clone(&self.transfer);
        move |joined| {
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
        let mut held = locked(&self.transfer.held);
        held.client.connections.truncate(1);
        held.pace()
    }
}

impl Transfer {
    /// Its part of what these may have is now this.
    fn take(&self, whose: &Sharer, part: Option<Rate>) {
        let mut held = locked(&self.held);
        match whose {
            Sharer::Client(_) => held.of_client = part,
            Sharer::Ticket(_) => held.of_ticket = part,
        }
        // What fails here is a connection that has broken, and the transfer with it.
        let _ = held.pace();
    }
}

impl Held {
    fn pace(&self) -> io::Result<()> {
        let part = lowest(lowest(self.of_client, self.of_ticket), self.by_operator);
        self.client.pace(part).and(self.upstream.pace(part))
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

/// One of `parts` equal shares.
fn divided(rate: Rate, parts: u64) -> Rate {
    Rate::bits_per_second(rate.bps() / parts.max(1))
}

/// Nothing that these locks guard can be left half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
