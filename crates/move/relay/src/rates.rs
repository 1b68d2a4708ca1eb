// SPDX-License-Identifier: GPL-2.0-or-later
//! Rate limits of a transfer's connections.
//!
//! Each side of a transfer has the lowest of these rates:
//! - the rate that its ticket grants, and the one that an operator has set for the transfer,
//! - towards the next hop, the rate that a session requests,
//! - the rate of the peer's `pacing`,
//! - its shares of its client's rate, its ticket's total rate, the rate of the key that has signed the ticket, and the rate
//!   of the whole depot. These are divided among the running transfers of each by their policies ([`Policy`]), equally
//!   unless an operator says otherwise.
//!
//! TCP paces to that rate (`SO_MAX_PACING_RATE`): downloads towards the client, uploads towards the next hop,
//! where a full window then slows the client. Several connections that share a response divide it further.
//! Without a rate, if the peer's `pacing` is TCP's own, TCP paces at a rate that it finds itself.
//!
//! A share changes with the number of transfers, and all shares are then set again. In a crowd of n that would
//! be n system calls for each start or end. So from 8 transfers up, the rate is divided among slightly more
//! than there are, and stays so until the number has changed by about an eighth. The shares add up to at most
//! the rate, and to at least 4/5 of it.
//!
//! Every rate may change while transfers run, so this table has all transfers, including unlimited ones.
//!
//! Transfers of the same client in another process ([`Rates::set_elsewhere`]) take shares of the same rate.
//!
//! Lock order: a transfer's memberships, a crowd, all transfers, a transfer's limits.

mod policy;

pub use policy::Policy;

use crate::{
    client_key::host_key,
    shrink,
    tcp::{Connection, Stream, Wire, info::SocketPacing, socket_options::HopOptions},
};
use policy::Division;
use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use units::Rate;

/// Maximum number of rates that operators may set for clients and tickets at a time.
const MOST_SET: usize = 4096;

/// The rate limits of clients, tickets and transfers.
#[derive(Debug, Clone)]
pub struct Rates(Arc<Mutex<All>>);

#[derive(Debug)]
struct All {
    /// The default total rate of each client.
    client_rate: Option<Rate>,
    /// Rates set by operators, which replace the default and those of tickets.
    set: HashMap<Sharer, Rate>,
    /// Clients and tickets with rate-limited transfers.
    crowds: HashMap<Sharer, Place>,
    /// The numbers of their transfers in other processes.
    elsewhere: HashMap<Sharer, usize>,
    /// All transfers under way.
    transfers: HashMap<u64, Arc<Transfer>>,
}

/// Whose transfers share a rate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sharer {
    /// A client, with all addresses that one host may have.
    Client(IpAddr),
    /// A ticket.
    Ticket(Arc<str>),
    /// The key that has signed tickets.
    Key(Arc<str>),
    /// The depot.
    Depot,
}

impl Sharer {
    /// The client at an address.
    pub fn client(address: IpAddr) -> Self {
        Self::Client(host_key(address))
    }
}

/// Operators have set too many rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MOST_SET} rates are set already")]
pub struct TooManyRates;

#[derive(Debug)]
struct Place {
    /// The number of transfers that are in the crowd, or about to join it.
    places: usize,
    crowd: Arc<Mutex<Crowd>>,
}

/// Transfers that share a rate.
#[derive(Debug)]
struct Crowd {
    whose: Sharer,
    /// Their total rate.
    rate: Option<Rate>,
    /// The divisor of the rate.
    parts: u64,
    /// Transfers in other processes that share it.
    elsewhere: usize,
    /// By their numbers.
    transfers: HashMap<u64, Arc<Transfer>>,
    /// Policies of those that are not fair.
    policies: HashMap<u64, Policy>,
}

/// A transfer's membership in a crowd; it ends when dropped.
#[derive(Debug)]
struct Membership {
    rates: Rates,
    whose: Sharer,
    crowd: Arc<Mutex<Crowd>>,
    number: u64,
}

/// The limits of a transfer.
#[derive(Debug, Clone, Default)]
pub struct TransferLimits {
    /// The rate that its ticket grants.
    pub granted: Option<Rate>,
    /// The rate that its client requests towards the next hop.
    pub upstream: Option<Rate>,
    /// The ticket, and the total rate of its transfers.
    pub ticket: Option<(Arc<str>, Option<Rate>)>,
    /// The key that has signed it.
    pub key: Option<Arc<str>>,
}

/// The limits of a transfer while this exists. Afterwards its connections keep their rates until the next
/// transfer on them.
#[derive(Debug)]
pub struct TransferRate {
    rates: Rates,
    transfer: Arc<Transfer>,
}

/// A transfer, limited or not.
#[derive(Debug)]
struct Transfer {
    number: u64,
    client: Sharer,
    ticket: Option<(Sharer, Option<Rate>)>,
    key: Option<Sharer>,
    /// The rate that its ticket grants.
    granted: Option<Rate>,
    /// The rate that its client requests towards the next hop.
    upstream: Option<Rate>,
    /// The crowds that it shares a rate with. Empty once it is over.
    memberships: Mutex<Option<Vec<Membership>>>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Its share of its client's rate.
    of_client: Option<Rate>,
    /// Its share of its ticket's rate.
    of_ticket: Option<Rate>,
    /// Its share of the rate of its ticket's key.
    of_key: Option<Rate>,
    /// Its share of the depot's rate.
    of_depot: Option<Rate>,
    /// How it shares.
    policy: Policy,
    /// The rate that an operator has set for it.
    by_operator: Option<Rate>,
    client: Side,
    upstream: Side,
}

/// The connections of one side: the first one, and those that have joined it.
#[derive(Debug, Default)]
struct Side {
    /// The lowest of its rates.
    set: Option<Rate>,
    /// TCP's pacing without a rate.
    otherwise: SocketPacing,
    connections: Vec<Weak<Wire>>,
}

impl All {
    /// The total rate of these transfers, if a ticket allows `by_ticket`. `None` if it is unlimited.
    fn rate_of(&self, whose: &Sharer, by_ticket: Option<Rate>) -> Option<Rate> {
        let by_default = match whose {
            Sharer::Client(_) => self.client_rate,
            Sharer::Ticket(_) => by_ticket,
            Sharer::Key(_) | Sharer::Depot => None,
        };
        self.set.get(whose).copied().or(by_default)
    }

    fn elsewhere_of(&self, whose: &Sharer) -> usize {
        self.elsewhere.get(whose).copied().unwrap_or(0)
    }
}

impl Rates {
    /// Limits each client to this rate.
    pub fn new(client_rate: Option<Rate>) -> Self {
        Self(Arc::new(Mutex::new(All {
            client_rate,
            set: HashMap::new(),
            crowds: HashMap::new(),
            elsewhere: HashMap::new(),
            transfers: HashMap::new(),
        })))
    }

    /// The number of transfers of each client and ticket with a limited rate.
    pub fn numbers(&self) -> Vec<(Sharer, usize)> {
        let crowds = &locked(&self.0).crowds;
        crowds.iter().map(|(whose, place)| (whose.clone(), place.places)).collect()
    }

    /// Divides rates among this many transfers more, which other processes have. It replaces earlier numbers.
    pub fn set_elsewhere(&self, numbers: HashMap<Sharer, usize>) {
        let crowds: Vec<_> = {
            let mut all = locked(&self.0);
            all.elsewhere = numbers;
            let crowds = all.crowds.iter();
            crowds
                .map(|(whose, place)| (Arc::clone(&place.crowd), all.elsewhere_of(whose)))
                .collect()
        };
        for (crowd, elsewhere) in crowds {
            let mut crowd = locked(&crowd);
            if crowd.elsewhere != elsewhere {
                crowd.elsewhere = elsewhere;
                crowd.count(false);
            }
        }
    }

    /// Replaces the rate, also for running transfers.
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

    /// Limits one transfer to this rate, or removes the limit. Returns whether the transfer exists.
    pub fn set_transfer(&self, number: u64, rate: Option<Rate>) -> bool {
        let Some(transfer) = locked(&self.0).transfers.get(&number).cloned() else { return false };
        let mut held = locked(&transfer.held);
        held.by_operator = rate;
        // What fails here is a connection that has broken, and the transfer with it.
        let _ = held.pace();
        true
    }

    /// Has a transfer share rates by this policy, and limits it to this target rate. Returns whether it shares a rate now;
    /// `None` if the transfer does not exist.
    pub fn set_policy(&self, number: u64, policy: Policy, target: Option<Rate>) -> Option<bool> {
        let transfer = locked(&self.0).transfers.get(&number).cloned()?;
        // Held throughout, so that it enters no crowd with the policy that it had.
        let memberships = locked(&transfer.memberships);
        {
            let mut held = locked(&transfer.held);
            (held.policy, held.by_operator) = (policy, target);
            // What fails here is a connection that has broken, and the transfer with it.
            let _ = held.pace();
        }
        let mut shares = false;
        for Membership { crowd, .. } in memberships.iter().flatten() {
            let mut crowd = locked(crowd);
            crowd.set_policy(number, policy);
            shares |= crowd.rate.is_some();
        }
        Some(shares)
    }

    /// The rates that operators have set for clients and tickets.
    pub fn all_set(&self) -> Vec<(Sharer, Rate)> {
        locked(&self.0).set.iter().map(|(whose, rate)| (whose.clone(), *rate)).collect()
    }

    /// Makes all transfers of a client or ticket share its rate, whether they did before or not.
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

    /// Registers a new transfer of `client`.
    pub fn begin(&self, number: u64, client: IpAddr, limits: TransferLimits) -> TransferRate {
        let TransferLimits { granted, upstream, ticket, key } = limits;
        let transfer = Arc::new(Transfer {
            number,
            client: Sharer::client(client),
            ticket: ticket.map(|(id, rate)| (Sharer::Ticket(id), rate)),
            key: key.map(Sharer::Key),
            granted,
            upstream,
            memberships: Mutex::new(Some(Vec::new())),
            held: Mutex::default(),
        });
        locked(&self.0).transfers.insert(number, Arc::clone(&transfer));
        self.join(&transfer, |_| true);
        TransferRate { rates: self.clone(), transfer }
    }

    /// Makes a transfer share the existing rates of its client and ticket.
    fn join(&self, transfer: &Arc<Transfer>, are: impl Fn(&Sharer) -> bool) {
        let depot = Sharer::Depot;
        let of_ticket = transfer.ticket.as_ref().map(|(whose, rate)| (whose, *rate));
        let others = [Some(&transfer.client), transfer.key.as_ref(), Some(&depot)];
        let others = others.into_iter().flatten().map(|whose| (whose, None));
        let mut memberships = locked(&transfer.memberships);
        let Some(memberships) = memberships.as_mut() else { return };
        let policy = locked(&transfer.held).policy;
        for (whose, by_ticket) in others.chain(of_ticket) {
            if !are(whose) || memberships.iter().any(|of| of.whose == *whose) {
                continue;
            }
            let crowd = {
                let mut all = locked(&self.0);
                let Some(rate) = all.rate_of(whose, by_ticket) else { continue };
                let elsewhere = all.elsewhere_of(whose);
                let place = all.crowds.entry(whose.clone());
                let place = place.or_insert_with(|| Place::new(whose.clone(), rate, elsewhere));
                place.places += 1;
                Arc::clone(&place.crowd)
            };
            locked(&crowd).enter(transfer.number, transfer, policy);
            let (rates, whose, number) = (self.clone(), whose.clone(), transfer.number);
            memberships.push(Membership { rates, whose, crowd, number });
        }
    }
}

impl Place {
    fn new(whose: Sharer, rate: Rate, elsewhere: usize) -> Self {
        let (transfers, policies) = (HashMap::new(), HashMap::new());
        let crowd = Crowd { whose, rate: Some(rate), parts: 0, elsewhere, transfers, policies };
        Self { places: 0, crowd: Arc::new(Mutex::new(crowd)) }
    }
}

impl Crowd {
    fn enter(&mut self, number: u64, transfer: &Arc<Transfer>, policy: Policy) {
        self.transfers.insert(number, Arc::clone(transfer));
        self.remember(number, policy);
        self.count(policy.is_low());
        let share = self.division().map(|division| division.share(policy));
        transfer.take(&self.whose, share);
    }

    fn leave(&mut self, number: u64) {
        self.transfers.remove(&number);
        shrink(&mut self.transfers);
        let was_low = self.policies.remove(&number).is_some_and(Policy::is_low);
        shrink(&mut self.policies);
        self.count(was_low);
    }

    fn set_policy(&mut self, number: u64, policy: Policy) {
        self.remember(number, policy);
        self.count(true);
    }

    fn remember(&mut self, number: u64, policy: Policy) {
        match policy {
            Policy::Fair => {
                self.policies.remove(&number);
            }
            other => {
                self.policies.insert(number, other);
            }
        }
    }

    /// Divides the rate again if necessary, or in any case if a minimum has changed.
    fn count(&mut self, is_due: bool) {
        let fair = self.transfers.len().saturating_sub(self.policies.len());
        let others: u64 = self.policies.values().map(|policy| policy.parts()).sum();
        let count = (fair.saturating_add(self.elsewhere) as u64).saturating_add(others);
        let spare = count / 8;
        if self.parts < count || self.parts > count.saturating_add(2 * spare) {
            self.parts = count.saturating_add(spare);
            self.share_out();
        } else if is_due {
            self.share_out();
        }
    }

    /// Sets each transfer's share.
    fn share_out(&self) {
        let division = self.division();
        for (number, transfer) in &self.transfers {
            let policy = self.policies.get(number).copied().unwrap_or_default();
            transfer.take(&self.whose, division.map(|division| division.share(policy)));
        }
    }

    fn division(&self) -> Option<Division> {
        let policies = self.policies.values().copied();
        self.rate.map(|rate| Division::of(rate, self.parts, policies))
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

impl Drop for TransferRate {
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

impl TransferRate {
    /// Applies the limits to the two connections of the transfer, or removes those of an earlier transfer.
    /// `options` are those for the peer at an address.
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
                otherwise: if spacing == SocketPacing::Own {
                    SocketPacing::Own
                } else {
                    SocketPacing::Free
                },
                connections: vec![stream.watch()],
            }
        };
        let mut held = locked(&transfer.held);
        (held.client, held.upstream) = (side(client), side(upstream));
        held.upstream.set = lowest(held.upstream.set, transfer.upstream);
        held.pace()
    }

    /// A function for connections that join the one on this side. All of them then have equal shares.
    pub fn join(&self, side: crate::Side) -> impl Fn(&Connection) -> io::Result<()> + Send + use<> {
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

    /// The rate at which a depot that keeps the client's bytes may take them now, if it is limited.
    pub fn from_client(&self) -> Option<Rate> {
        lowest(self.transfer.granted, locked(&self.transfer.held).part())
    }

    /// The rate towards the client now, if it is limited.
    pub fn to_client(&self) -> Option<Rate> {
        let held = locked(&self.transfer.held);
        lowest(held.client.set, held.part())
    }

    /// Gives the whole rate to the client's first connection again.
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
    /// Sets its share of a client's or ticket's rate.
    fn take(&self, whose: &Sharer, part: Option<Rate>) {
        let mut held = locked(&self.held);
        match whose {
            Sharer::Client(_) => held.of_client = part,
            Sharer::Ticket(_) => held.of_ticket = part,
            Sharer::Key(_) => held.of_key = part,
            Sharer::Depot => held.of_depot = part,
        }
        // What fails here is a connection that has broken, and the transfer with it.
        let _ = held.pace();
    }
}

impl Held {
    /// The lowest of its shares and of the rate that is set for it.
    fn part(&self) -> Option<Rate> {
        let shares = [self.of_client, self.of_ticket, self.of_key, self.of_depot];
        shares.into_iter().chain([self.by_operator]).flatten().min()
    }

    fn pace(&self) -> io::Result<()> {
        let part = self.part();
        self.client.pace(part).and(self.upstream.pace(part))
    }
}

impl Side {
    /// Limits all its connections together to the lowest rate.
    fn pace(&self, part: Option<Rate>) -> io::Result<()> {
        let open: Vec<_> = self.connections.iter().filter_map(Weak::upgrade).collect();
        let rate = lowest(self.set, part).map(|rate| divided(rate, open.len() as u64));
        let spacing = rate.map_or(self.otherwise, SocketPacing::AtMost);
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

/// The guarded data stays consistent after a panic, so poisoning is ignored.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
