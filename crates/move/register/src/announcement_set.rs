// SPDX-License-Identifier: GPL-2.0-or-later
//! Announcements of depots, the latest of each.
//!
//! Threats. A depot that forwards announcements may replay old ones, forge new ones, or send more than fits. Only announcements signed
//! with a trusted key are stored, one for each key, and never in place of a later one. An announcement that is not later is skipped
//! before its signature is verified.

use protocol::{
    DepotAddress,
    announcement::{Announcement, AnnouncementError, MAX_ANNOUNCEMENTS},
    ticket::{KeySet, UnixTime},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A list of announcements, as depots forward it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncementList {
    /// Signed tokens.
    pub depots: Vec<String>,
}

/// The latest announcement of each depot, by address.
#[derive(Debug, Clone, Default)]
pub struct AnnouncementSet(BTreeMap<String, Held>);

#[derive(Debug, Clone)]
struct Held {
    token: String,
    announcement: Announcement,
}

impl AnnouncementSet {
    /// Stores an announcement if it is later than the stored one, and returns whether it was.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn accept(
        &mut self,
        token: &str,
        keys: &KeySet,
        now: UnixTime,
    ) -> Result<bool, AnnouncementError> {
        let claimed = Announcement::read_unverified(token)?;
        if !self.is_later(&claimed) {
            return Ok(false);
        }
        let announcement = Announcement::verify(token, keys, now)?;
        self.insert(token.to_owned(), announcement);
        Ok(true)
    }

    /// The same for a list. Returns how many were not accepted.
    pub fn accept_list(&mut self, list: &AnnouncementList, keys: &KeySet, now: UnixTime) -> usize {
        let is_wrong = |token: &&String| self.accept(token, keys, now).is_err();
        list.depots.iter().take(MAX_ANNOUNCEMENTS).filter(is_wrong).count()
    }

    /// Stores an announcement that may have expired, if its signature is valid.
    pub(crate) fn restore(&mut self, token: &str, keys: &KeySet) {
        if let Ok(announcement) = Announcement::verify_signature(token, keys)
            && self.is_later(&announcement)
        {
            self.insert(token.to_owned(), announcement);
        }
    }

    fn is_later(&self, claimed: &Announcement) -> bool {
        let known = self.0.get(&claimed.address.to_string());
        let has_room = known.is_some() || self.0.len() < MAX_ANNOUNCEMENTS;
        has_room && known.is_none_or(|known| known.announcement.signed < claimed.signed)
    }

    /// Stores a depot's own announcement, without verification.
    pub fn insert(&mut self, token: String, announcement: Announcement) {
        self.0.insert(announcement.address.to_string(), Held { token, announcement });
    }

    /// Removes the announcement of a depot.
    pub fn remove(&mut self, depot: &DepotAddress) {
        self.0.remove(&depot.to_string());
    }

    /// Removes expired announcements, and those whose key is no longer trusted.
    pub fn expire(&mut self, keys: &KeySet, now: UnixTime) {
        self.0.retain(|name, held| keys.has(name) && held.announcement.is_valid_at(now));
    }

    /// All announcements, by address.
    pub fn announcements(&self) -> impl Iterator<Item = &Announcement> {
        self.0.values().map(|held| &held.announcement)
    }

    /// All announcements, for other depots and clients.
    pub fn list(&self) -> AnnouncementList {
        AnnouncementList { depots: self.0.values().map(|held| held.token.clone()).collect() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use protocol::{http::load::Load, ticket::Signer};

    pub(crate) const NOW: u64 = 1_800_000_000;

    pub(crate) fn time(seconds: u64) -> UnixTime {
        UnixTime::try_from(seconds).unwrap()
    }

    /// Depots `d0`, `d1` and so on, and the keys of all.
    pub(crate) fn depots(count: u8) -> (Vec<Signer>, KeySet) {
        let signer = |n| Signer::from_seed([n; 32]).unwrap().named(&format!("d{n}:3880"));
        let signers: Vec<Signer> = (0..count).map(signer).collect();
        let set = signers[1..]
            .iter()
            .fold(signers[0].public_set(), |set, signer| signer.public_set_with(&set).unwrap());
        (signers, KeySet::parse(&set).unwrap())
    }

    pub(crate) fn announced(n: u8, at: u64) -> Announcement {
        let (connections, connections_limit, leaving) = (n.into(), 100, false);
        let (transfers, rate_bps, highest_rate_bps) = (0, 0, 0);
        let load =
            Load { connections, connections_limit, leaving, transfers, rate_bps, highest_rate_bps };
        let (place, admits, hops) = Default::default();
        let (signed, expires) = (time(at), time(at + 60));
        let address = format!("d{n}").parse().unwrap();
        Announcement { address, place, signed, expires, load, admits, hops }
    }

    pub(crate) fn token(signers: &[Signer], n: u8, at: u64) -> String {
        announced(n, at).sign(&signers[usize::from(n)]).unwrap()
    }

    fn ages(known: &AnnouncementSet) -> Vec<u64> {
        known.announcements().map(|it| it.signed.seconds() - NOW).collect()
    }

    #[test]
    fn latest_announcement_of_each_depot_is_kept() {
        let (signers, keys) = depots(3);
        let mut known = AnnouncementSet::default();
        let tokens = [(0, 5), (1, 1), (0, 3), (1, 7)].map(|(n, at)| token(&signers, n, NOW + at));
        assert_eq!(
            known.accept_list(&AnnouncementList { depots: tokens.to_vec() }, &keys, time(NOW + 7)),
            0
        );
        assert_eq!(ages(&known), [5, 7]);
        // A forwarded list gives the same set.
        let mut other = AnnouncementSet::default();
        assert_eq!(other.accept_list(&known.list(), &keys, time(NOW + 7)), 0);
        assert_eq!(ages(&other), [5, 7]);
        known.expire(&keys, time(NOW + 96));
        assert_eq!(ages(&known), [7], "the leeway is 30 s");
        known.remove(&"d1".parse().unwrap());
        assert_eq!(ages(&known), [0; 0]);
    }

    #[test]
    fn forged_announcements_are_counted_and_dropped() {
        let (signers, _) = depots(3);
        let keys = KeySet::parse(&signers[0].public_set()).unwrap();
        let mut known = AnnouncementSet::default();
        let forged = announced(0, NOW + 9).sign(&signers[1]).unwrap();
        let of_stranger = token(&signers, 1, NOW);
        let good = token(&signers, 0, NOW);
        let list =
            AnnouncementList { depots: vec![forged, of_stranger, "nonsense".to_owned(), good] };
        assert_eq!(known.accept_list(&list, &keys, time(NOW)), 3);
        assert_eq!(ages(&known), [0]);
        // A key that is trusted no more.
        let others = KeySet::parse(&signers[2].public_set()).unwrap();
        known.expire(&others, time(NOW));
        assert_eq!(known.list(), AnnouncementList::default());
    }

    #[test]
    fn list_is_read_up_to_its_limit() {
        let (signers, keys) = depots(1);
        let mut depots = vec!["nonsense".to_owned(); MAX_ANNOUNCEMENTS];
        depots.push(token(&signers, 0, NOW));
        let mut known = AnnouncementSet::default();
        assert_eq!(
            known.accept_list(&AnnouncementList { depots }, &keys, time(NOW)),
            MAX_ANNOUNCEMENTS
        );
        assert_eq!(known.list(), AnnouncementList::default());
    }
}
