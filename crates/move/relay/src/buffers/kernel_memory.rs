// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel holds for all transfers, in pipes and sockets, and what keeps it within its limit.
//!
//! Socket memory is measured at each look, for all sockets; pipes are counted as they move bytes. From half of
//! the limit, sockets that move little get little memory, and so do new transfers. From three quarters, no
//! buffer grows, and stopped sockets are cut to what they hold. At the limit no transfer begins. A socket that
//! moves bytes again gets its memory back, a few sockets at each look, so a crowd that stops and resumes takes
//! the remaining memory slowly.
//!
//! Each client (an IPv4 address, an IPv6 /64) has a share of the limit, and an IPv6 /48 has as much as a few clients. Every
//! transfer counts as what a stopped one with little memory holds, so a share is also a number of transfers. The last part
//! of the limit is for clients with few transfers, as with connections. While less than half of the limit is held, a
//! client at work may hold more than its share. From there on, what is over its share is treated as if the limit was
//! nearly reached.
//!
//! The kernel has a limit of its own, for all TCP sockets of the machine (`tcp_mem`). Above it no window grows and many shrink to
//! four segments, so the depot saves before: what all sockets hold of that limit counts as the same part of this one. It refuses
//! no transfer for that, as other programs may hold it.
//!
//! Limits: a transfer under way is never ended. Between two looks, sockets take what arrives; so the limit holds
//! where less than a quarter of it arrives from one look to the next.

use crate::{
    client_key::{CLIENTS_OF_SITE, FEW, KEPT_PART, host_key, site_key},
    copy::pipe::Pipes,
    shrink,
    tcp::MemoryLevel,
};
use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a transfer takes at most that has little memory and stops: its pipe or buffer, and what is in both of its sockets.
const LITTLE: usize = 768 << 10;
/// What one takes that has stopped before it was seen to, on a short path: a receive buffer that has grown as far as it
/// does in a moment, and what waits unsent.
const MUCH: usize = 5 << 20;
/// A socket at which fewer bytes have moved since the last look is not at work.
const AT_WORK: u64 = 16 << 10;

/// What the kernel holds for all transfers.
#[derive(Debug)]
pub struct KernelMemory {
    limit: usize,
    pipes: Arc<Pipes>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    all: Account,
    /// What the machine's sockets held of the kernel's limit at the last look, as the same part of this one.
    of_host: usize,
    /// What all held at the last look, as it counts for clients with few transfers: of the others only what they may have.
    held_for_few: usize,
    hosts: HashMap<IpAddr, Account>,
    sites: HashMap<IpAddr, Account>,
}

/// Transfers, and what they hold.
#[derive(Debug, Default)]
struct Account {
    /// What their sockets held at the last look; of a client's, also what lay in their pipes.
    held: usize,
    /// Transfers under way.
    transfers: usize,
    /// The most at a time since the last look.
    most: usize,
    /// The most at a time between the last two looks.
    most_before: usize,
    /// The most at a time before these looks: as many have filled by now what they fill. Short transfers follow each
    /// other, so that their number goes up and down while it stays the same crowd.
    measured: usize,
}

/// A transfer under way, for as long as this lives.
#[derive(Debug)]
pub struct Transfer<'m> {
    memory: &'m KernelMemory,
    client: IpAddr,
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        let State { all, hosts, sites, .. } = &mut *state;
        all.transfers -= 1;
        // Accounts are removed at a look: who has just ended one begins the next at once.
        for (accounts, key) in [(hosts, host_key(self.client)), (sites, site_key(self.client))] {
            if let Some(account) = accounts.get_mut(&key) {
                account.transfers -= 1;
            }
        }
    }
}

/// Why a transfer may not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoMemory {
    /// This is reserved for all transfers, and leaves no room.
    All {
        /// In bytes.
        reserved: usize,
    },
    /// The same; what is left is kept for clients with few transfers, and this one has many.
    Kept {
        /// For all transfers, in bytes.
        reserved: usize,
        /// The client, or its site.
        client: IpAddr,
        /// Its transfers.
        transfers: usize,
    },
    /// A client, or a site of several, has its share.
    Client {
        /// The client, or the site.
        client: IpAddr,
        /// Its transfers.
        transfers: usize,
        /// For them, in bytes.
        reserved: usize,
        /// What it may have, in bytes.
        share: usize,
        /// Whether it is a site.
        is_site: bool,
    },
}

/// The client with the most memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargestClient {
    /// Its address, or the network of an IPv6 one.
    pub client: IpAddr,
    /// Its transfers under way.
    pub transfers: usize,
    /// What is reserved for them, in bytes.
    pub reserved: usize,
}

impl Account {
    /// What its transfers hold, or may come to hold if all of them stop now.
    fn reserved(&self) -> usize {
        self.held.max(self.transfers * LITTLE)
    }

    /// The same with another transfer, and with what those may add that have just begun.
    fn reserved_with_another(&self, held: usize) -> usize {
        let new = (self.unmeasured() + 1) * LITTLE;
        (held + new).max((self.transfers + 1) * LITTLE)
    }

    /// Transfers of which it is not known yet what they hold.
    fn unmeasured(&self) -> usize {
        self.transfers.saturating_sub(self.measured)
    }

    fn begin(&mut self) {
        self.transfers += 1;
        self.most = self.most.max(self.transfers);
    }

    /// A look, which finds this held.
    fn look(&mut self, held: usize) {
        self.held = held;
        self.measured = self.most_before;
        self.most_before = std::mem::replace(&mut self.most, self.transfers);
    }

    /// Whether one of its transfers that begins now gets little of `limit`, since `held` and what new ones may take is
    /// much of it.
    fn is_tight(&self, held: usize, limit: usize) -> bool {
        held + self.unmeasured() * MUCH > limit / 2
    }
}

impl KernelMemory {
    /// Nothing yet, and at most `limit` bytes with what `pipes` hold.
    pub fn new(limit: usize, pipes: Arc<Pipes>) -> Self {
        Self { limit, pipes, state: Mutex::default() }
    }

    /// Begins a client's transfer, where a client's share is `share` bytes.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn begin(&self, client: IpAddr, share: usize) -> Result<Transfer<'_>, NoMemory> {
        let mut state = self.state();
        let held = state.all.held + self.pipes.held();
        state.check_share(client, share, held > self.limit / 2)?;
        let held_for_few = held.min(state.held_for_few);
        let has_many = state.has_many(client);
        let reserved = state.all.reserved().max(held);
        if let Some(transfers) = has_many {
            let to_come = state.all.reserved_with_another(held);
            if to_come > self.limit - self.limit / KEPT_PART {
                return Err(NoMemory::Kept { reserved, client, transfers });
            }
        } else if (held_for_few + LITTLE).max((state.all.transfers + 1) * LITTLE) > self.limit {
            // Those that have just begun are not added to what is held: clients with many are within the other parts, and
            // the last part is enough for as many as may begin. Nor does it count against others what a client has
            // beyond its share, as data may arrive faster than a look sees it.
            return Err(NoMemory::All { reserved });
        }
        let State { all, hosts, sites, .. } = &mut *state;
        all.begin();
        hosts.entry(host_key(client)).or_default().begin();
        sites.entry(site_key(client)).or_default().begin();
        Ok(Transfer { memory: self, client })
    }

    /// How much memory a transfer gets that begins now.
    pub fn level_at_start(&self, client: IpAddr, share: usize) -> MemoryLevel {
        let state = self.state();
        let held = (state.all.held + self.pipes.held()).max(state.of_host);
        let of_client = state.shares(client, share);
        let is_tight = state.all.is_tight(held, self.limit)
            || of_client.iter().any(|(account, _, share, _)| {
                account.is_some_and(|account| account.is_tight(account.held, *share))
            });
        if is_tight { MemoryLevel::Small } else { MemoryLevel::Free }
    }

    /// The pipes, whose ceiling raised buffers share.
    pub(super) fn pipes(&self) -> &Arc<Pipes> {
        &self.pipes
    }

    /// What pipes and sockets hold, in bytes.
    pub fn held(&self) -> usize {
        self.sockets() + self.pipes.held()
    }

    /// What sockets held at the last look, in bytes.
    pub fn sockets(&self) -> usize {
        self.state().all.held
    }

    /// What is reserved for all transfers, in bytes: what they hold, or what they come to hold if all of them stop.
    pub fn reserved(&self) -> usize {
        let state = self.state();
        state.all.reserved().max(state.all.held + self.pipes.held())
    }

    /// The client for which most is reserved.
    pub fn largest_client(&self) -> Option<LargestClient> {
        let state = self.state();
        let (client, account) = state.hosts.iter().max_by_key(|(_, account)| account.reserved())?;
        let (transfers, reserved) = (account.transfers, account.reserved());
        (transfers > 0).then_some(LargestClient { client: *client, transfers, reserved })
    }

    /// The most that is held.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// A look at all sockets, which hold `sockets` bytes together, at what the machine's sockets hold of the kernel's limit,
    /// as that part of this limit, and at what each client's transfers hold.
    pub(super) fn measured(
        &self,
        sockets: usize,
        of_host: usize,
        by_client: &HashMap<IpAddr, usize>,
        share: usize,
    ) -> Look {
        let mut state = self.state();
        state.all.look(sockets);
        state.of_host = of_host;
        let mut sites: HashMap<IpAddr, usize> = HashMap::new();
        let (mut few, mut many) = (0, 0);
        for (client, held) in by_client {
            if state.hosts.get(client).is_some_and(|account| account.transfers >= FEW) {
                many += (*held).min(share);
            } else {
                few += held;
            }
            *sites.entry(site_key(*client)).or_default() += held;
        }
        state.held_for_few = few + many.min(self.limit - self.limit / KEPT_PART);
        let State { hosts, sites: accounts, .. } = &mut *state;
        for (accounts, held) in [(hosts, by_client), (accounts, &sites)] {
            accounts.retain(|key, account| {
                account.look(held.get(key).copied().unwrap_or(0));
                account.transfers > 0 || account.most_before > 0
            });
            shrink(accounts);
        }
        drop(state);
        let mut look = Look::new(self.limit, (sockets + self.pipes.held()).max(of_host));
        if look.held > self.limit / 2 {
            let shares = [(by_client, share), (&sites, of_site(share))];
            look.over = shares.map(|(held, share)| {
                held.iter().filter(|(_, held)| **held > share).map(|(key, _)| *key).collect()
            });
        }
        look
    }

    /// Nothing is left half counted, so a panic elsewhere does not spoil the numbers.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The share of a site, as one client has `share`.
fn of_site(share: usize) -> usize {
    share.saturating_mul(CLIENTS_OF_SITE)
}

impl State {
    /// The accounts that a client's transfers are counted in: which, of whom, their share, and how many transfers are few.
    fn shares(
        &self,
        client: IpAddr,
        share: usize,
    ) -> [(Option<&Account>, IpAddr, usize, usize); 2] {
        let (host, site) = (host_key(client), site_key(client));
        [
            (self.hosts.get(&host), host, share, FEW),
            (self.sites.get(&site), site, of_site(share), FEW * CLIENTS_OF_SITE),
        ]
    }

    /// The transfers of a client that has many.
    fn has_many(&self, client: IpAddr) -> Option<usize> {
        let of = |(account, _, _, few): (Option<&Account>, IpAddr, usize, usize)| {
            account.map(|account| account.transfers).filter(|transfers| *transfers >= few)
        };
        self.shares(client, 0).into_iter().find_map(of)
    }

    /// Whether a client may have another transfer by its share. What it holds counts only while memory `is_short`; its
    /// number of transfers always does.
    fn check_share(&self, client: IpAddr, share: usize, is_short: bool) -> Result<(), NoMemory> {
        for (account, key, share, few) in self.shares(client, share) {
            let Some(account) = account.filter(|account| account.transfers >= few) else {
                continue;
            };
            let held = if is_short { account.reserved_with_another(account.held) } else { 0 };
            if held.max((account.transfers + 1) * LITTLE) > share {
                return Err(NoMemory::Client {
                    client: key,
                    transfers: account.transfers,
                    reserved: account.reserved(),
                    share,
                    is_site: few > FEW,
                });
            }
        }
        Ok(())
    }
}

/// How much memory each socket gets, as of one look.
#[derive(Debug)]
pub(super) struct Look {
    limit: usize,
    held: usize,
    /// How many sockets may still get their memory back.
    to_free: usize,
    /// The clients, and the sites, that hold more than their shares while memory is short.
    over: [HashSet<IpAddr>; 2],
}

impl Look {
    fn new(limit: usize, held: usize) -> Self {
        let room = (limit / 4 * 3).saturating_sub(held);
        Self { limit, held, to_free: room / MUCH, over: Default::default() }
    }

    /// The new level of a client's socket at level `now` that has moved `moved` bytes since the last look. `None` at
    /// the first look: the first bytes fill buffers, whether or not the peer reads.
    pub(super) fn level(
        &mut self,
        client: IpAddr,
        now: MemoryLevel,
        moved: Option<u64>,
    ) -> MemoryLevel {
        use MemoryLevel::{Cut, Fixed, Free, Small};
        let Some(moved) = moved else { return now };
        let (is_at_work, is_small) = (moved >= AT_WORK, now >= Small);
        let [hosts, sites] = &self.over;
        let is_over = hosts.contains(&host_key(client)) || sites.contains(&site_key(client));
        if is_over || self.held > self.limit / 4 * 3 {
            return if is_at_work { now.clamp(Fixed, Small) } else { Cut };
        }
        if is_at_work && is_small && self.to_free > 0 {
            self.to_free -= 1;
            return Free;
        }
        let is_tight = self.held > self.limit / 2;
        if is_small || (is_tight && !is_at_work) { now.max(Small) } else { Free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryLevel::{Cut, Fixed, Free, Small};

    const LIMIT: usize = 100 << 20;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn memory() -> KernelMemory {
        KernelMemory::new(LIMIT, Pipes::new(1 << 20, LIMIT))
    }

    /// A look that finds this held for one client.
    fn look(memory: &KernelMemory, client: IpAddr, held: usize, share: usize) -> Look {
        memory.measured(held, 0, &HashMap::from([(client, held)]), share)
    }

    #[test]
    fn kernels_own_limit_makes_transfers_save_and_refuses_none() {
        let (memory, one) = (memory(), ip("10.0.0.1"));
        let _transfer = memory.begin(one, LIMIT).unwrap();
        let look = |of_host| memory.measured(1 << 20, of_host, &HashMap::new(), LIMIT);
        let levels = |mut look: Look| [0, AT_WORK].map(|moved| look.level(one, Free, Some(moved)));
        assert_eq!(levels(look(LIMIT / 4)), [Free, Free]);
        assert_eq!(memory.level_at_start(one, LIMIT), Free);
        assert_eq!(levels(look(LIMIT / 2)), [Free, Free]);
        assert_eq!(levels(look(LIMIT / 2 + 1)), [Small, Free]);
        assert_eq!(memory.level_at_start(one, LIMIT), Small);
        assert_eq!(levels(look(LIMIT / 4 * 3 + 1)), [Cut, Fixed]);
        assert_eq!(levels(look(LIMIT)), [Cut, Fixed]);
        assert!(memory.begin(one, LIMIT).is_ok(), "others may hold it");
        assert_eq!(memory.reserved(), 1 << 20, "what others hold is not this depot's");
        assert_eq!(levels(look(0)), [Free, Free]);
    }

    #[test]
    fn transfers_start_small_then_stop_near_the_limit() {
        let (memory, one) = (memory(), ip("10.0.0.1"));
        let mut all = Vec::new();
        while memory.level_at_start(one, LIMIT) == Free {
            all.push(memory.begin(one, LIMIT).unwrap());
        }
        assert_eq!(all.len(), 11, "as many as may hold half of it before they are measured");
        while let Ok(transfer) = memory.begin(one, LIMIT) {
            all.push(transfer);
        }
        assert_eq!((all.len(), memory.reserved()), (100, 75 << 20), "a quarter is kept");
        let kept = NoMemory::Kept { reserved: 75 << 20, client: one, transfers: 100 };
        assert_eq!(memory.begin(one, LIMIT).unwrap_err(), kept);
        let few: Vec<_> = (0..33)
            .map(|n| memory.begin(ip(&format!("10.0.1.{}", n / 5)), LIMIT).unwrap())
            .collect();
        let refused = memory.begin(ip("10.0.2.1"), LIMIT).unwrap_err();
        assert_eq!(refused, NoMemory::All { reserved: 133 * LITTLE });
        drop(few);
        look(&memory, one, 60 << 20, LIMIT);
        assert!(memory.begin(one, LIMIT).is_err(), "some may have begun just now");
        look(&memory, one, 60 << 20, LIMIT);
        assert_eq!(memory.level_at_start(one, LIMIT), Small);
        assert!(memory.begin(one, LIMIT).is_err(), "all may stop at once");
        all.truncate(50);
        assert!(
            memory.begin(one, LIMIT).is_ok(),
            "there is room for those under way and another one"
        );
        look(&memory, one, LIMIT, LIMIT);
        let refused = memory.begin(one, LIMIT).unwrap_err();
        assert!(matches!(refused, NoMemory::Client { .. }), "{refused:?}");
        assert!(
            memory.begin(ip("10.0.2.1"), LIMIT).is_ok(),
            "the last quarter is not that client's"
        );
        all.truncate(FEW - 1);
        look(&memory, one, LIMIT, LIMIT);
        assert_eq!(
            memory.begin(ip("10.0.2.1"), LIMIT).unwrap_err(),
            NoMemory::All { reserved: LIMIT }
        );
        drop(all);
        look(&memory, one, 0, LIMIT);
        assert_eq!(memory.level_at_start(one, LIMIT), Free);
    }

    #[test]
    fn client_and_site_have_their_shares_of_memory() {
        const SHARE: usize = LIMIT / 10;
        let (memory, one) = (memory(), ip("10.0.0.1"));
        let fill = |client: &dyn Fn(usize) -> IpAddr| {
            let mut all = Vec::new();
            loop {
                match memory.begin(client(all.len()), SHARE) {
                    Ok(transfer) => all.push(transfer),
                    Err(refused) => return (all, refused),
                }
            }
        };
        let (_own, refused) = fill(&|_| one);
        assert_eq!(
            refused,
            NoMemory::Client {
                client: one,
                transfers: 13,
                reserved: 13 * LITTLE,
                share: SHARE,
                is_site: false
            }
        );
        let largest = LargestClient { client: one, transfers: 13, reserved: 13 * LITTLE };
        assert_eq!(memory.largest_client(), Some(largest));
        // The hosts of a /64 are one client; those of a /48 have as much as four.
        let (own, refused) = fill(&|n| ip(&format!("2001:db8:0:1::{n:x}")));
        let is_host = |client| matches!(refused, NoMemory::Client { client: c, is_site: false, .. } if c == client);
        assert!(own.len() == 13 && is_host(ip("2001:db8:0:1::")), "{refused:?}");
        drop(own);
        let (own, refused) = fill(&|n| ip(&format!("2001:db8:0:{:x}::1", n % 64)));
        let is_site = |client| matches!(refused, NoMemory::Client { client: c, is_site: true, .. } if c == client);
        assert!(own.len() == 53 && is_site(ip("2001:db8::")), "{refused:?}");
    }

    #[test]
    fn memory_held_counts_only_while_short() {
        const SHARE: usize = LIMIT / 4;
        let (memory, one, other) = (memory(), ip("10.0.0.1"), ip("10.0.0.2"));
        let all: Vec<_> = (0..10).map(|_| memory.begin(one, SHARE).unwrap()).collect();
        let mut free = look(&memory, one, LIMIT / 2, SHARE);
        assert_eq!(free.level(one, Free, Some(0)), Free, "there is enough");
        assert!(memory.begin(one, SHARE).is_ok());
        let mut short = look(&memory, one, LIMIT / 2 + 1, SHARE);
        assert_eq!(short.level(one, Free, Some(AT_WORK)), Fixed);
        assert_eq!(short.level(one, Free, Some(0)), Cut);
        assert_eq!(short.level(other, Free, Some(AT_WORK)), Free);
        let refused = memory.begin(one, SHARE).unwrap_err();
        assert!(matches!(refused, NoMemory::Client { transfers: 10, .. }), "{refused:?}");
        assert!(memory.begin(other, SHARE).is_ok());
        drop(all);
        look(&memory, one, 0, SHARE);
        look(&memory, one, 0, SHARE);
        look(&memory, one, 0, SHARE);
        assert!(memory.state().hosts.is_empty() && memory.state().sites.is_empty());
    }

    #[test]
    fn repeated_crowd_of_short_transfers_starts_free() {
        let (memory, one) = (memory(), ip("10.0.0.1"));
        for look in 0..6 {
            let crowd: Vec<_> = (0..100).map(|_| memory.begin(one, LIMIT).unwrap()).collect();
            let level = if look < 2 { Small } else { Free };
            assert_eq!(memory.level_at_start(one, LIMIT), level, "at look {look}");
            drop(crowd);
            self::look(&memory, one, 0, LIMIT);
        }
    }

    #[test]
    fn sockets_share_remaining_memory_by_use() {
        let one = ip("10.0.0.1");
        let mut free = Look::new(LIMIT, LIMIT / 2);
        assert_eq!([0, AT_WORK].map(|moved| free.level(one, Free, Some(moved))), [Free, Free]);
        let mut tight = Look::new(LIMIT, LIMIT / 2 + 1);
        assert_eq!([0, AT_WORK].map(|moved| tight.level(one, Free, Some(moved))), [Small, Free]);
        assert_eq!(tight.level(one, Cut, Some(0)), Cut, "it would fill what it was given");
        // 25 MB are left.
        let given = (0..100).filter(|_| tight.level(one, Small, Some(AT_WORK)) == Free).count();
        assert_eq!(given, 4);
        assert_eq!(tight.level(one, Free, None), Free, "nothing is known of it");
        let mut full = Look::new(LIMIT, LIMIT / 4 * 3 + 1);
        let levels = [Free, Fixed, Small, Cut];
        assert_eq!(
            levels.map(|now| full.level(one, now, Some(AT_WORK))),
            [Fixed, Fixed, Small, Small]
        );
        assert_eq!(levels.map(|now| full.level(one, now, Some(0))), [Cut; 4]);
    }
}
