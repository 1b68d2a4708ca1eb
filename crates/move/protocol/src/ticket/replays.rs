// SPDX-License-Identifier: GPL-2.0-or-later
//! How often each ticket has been used.

use super::{LEEWAY_S, TicketError, UnixTime, Verified};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, HashMap},
    num::NonZeroUsize,
};

/// Counts the uses of tickets that may be used only so often, until they expire.
///
/// The memory is bounded by the number of tickets: when it is full of ones that are still valid, a
/// new one is refused, because forgetting one would let it be used again. For the same reason a ticket
/// that expires no later than one that was forgotten stays expired, should the clock be set back.
#[derive(Debug)]
pub struct Replays {
    most: NonZeroUsize,
    counts: HashMap<Key, Count>,
    by_expiry: BTreeSet<(UnixTime, Key)>,
    /// The latest `exp` of those that were forgotten.
    forgotten: Option<UnixTime>,
}

/// The key that signed a ticket and its `jti`: different signers may use the same `jti`.
type Key = (String, String);

/// The uses of all tickets, as one process tells another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsesSoFar {
    tickets: Vec<TicketUses>,
    forgotten: Option<UnixTime>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TicketUses {
    key: String,
    id: String,
    uses: u32,
    expires: UnixTime,
}

#[derive(Debug)]
struct Count {
    uses: u32,
    expires: UnixTime,
}

impl Replays {
    /// Remembers at most `most` tickets.
    pub fn new(most: NonZeroUsize) -> Self {
        Self { most, counts: HashMap::new(), by_expiry: BTreeSet::new(), forgotten: None }
    }

    /// How many tickets are counted.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether none is counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Counts one use, if there is one left.
    ///
    /// # Errors
    /// The ticket has been used as often as it may, or there is no room to count it.
    pub fn count(&mut self, verified: &Verified, now: UnixTime) -> Result<(), TicketError> {
        self.forget_expired(now);
        let ticket = &verified.ticket;
        let Some(most) = ticket.uses else { return Ok(()) };
        let key = (verified.key.clone(), ticket.id.clone());
        if let Some(count) = self.counts.get_mut(&key) {
            if count.uses >= most.get() {
                return Err(TicketError::UsedUp { id: ticket.id.clone(), uses: most.get() });
            }
            count.uses += 1;
            // If two tickets have one name, the count must outlive both.
            if ticket.expires > count.expires {
                self.by_expiry.remove(&(count.expires, key.clone()));
                count.expires = ticket.expires;
                self.by_expiry.insert((ticket.expires, key));
            }
            return Ok(());
        }
        if self.forgotten.is_some_and(|until| ticket.expires <= until) {
            let (id, at) = (ticket.id.clone(), ticket.expires);
            return Err(TicketError::ClockSetBack { id, at, now });
        }
        if self.counts.len() >= self.most.get() {
            return Err(TicketError::NoRoom(self.most.get()));
        }
        self.by_expiry.insert((ticket.expires, key.clone()));
        self.counts.insert(key, Count { uses: 1, expires: ticket.expires });
        Ok(())
    }

    /// The uses so far, for another process.
    pub fn so_far(&self) -> UsesSoFar {
        let uses = self.counts.iter().map(|((key, id), count)| TicketUses {
            key: key.clone(),
            id: id.clone(),
            uses: count.uses,
            expires: count.expires,
        });
        UsesSoFar { tickets: uses.collect(), forgotten: self.forgotten }
    }

    /// Adds uses that another process has counted. If there is no room for all tickets, those that expire first are
    /// forgotten, and cannot be used any more.
    pub fn add(&mut self, UsesSoFar { mut tickets, forgotten }: UsesSoFar) {
        self.forgotten = self.forgotten.max(forgotten);
        tickets.sort_by_key(|ticket| std::cmp::Reverse(ticket.expires));
        for TicketUses { key, id, uses, expires } in tickets {
            let key = (key, id);
            if !self.counts.contains_key(&key) && self.counts.len() >= self.most.get() {
                self.forgotten = self.forgotten.max(Some(expires));
                continue;
            }
            let count = self.counts.entry(key.clone()).or_insert(Count { uses: 0, expires });
            count.uses = count.uses.saturating_add(uses);
            self.by_expiry.remove(&(count.expires, key.clone()));
            count.expires = count.expires.max(expires);
            self.by_expiry.insert((count.expires, key));
        }
    }

    /// Forgets tickets that no depot takes any more.
    fn forget_expired(&mut self, now: UnixTime) {
        while let Some((expires, _)) = self.by_expiry.first()
            && expires.plus(LEEWAY_S) < now
            && let Some((expires, key)) = self.by_expiry.pop_first()
        {
            self.counts.remove(&key);
            self.forgotten = self.forgotten.max(Some(expires));
        }
    }
}
