// SPDX-License-Identifier: GPL-2.0-or-later
//! Announcements of depots, the newest of each.
//!
//! Threats. Whoever passes announcements on may repeat old ones, make up new ones, or send more than anybody reads. Only those that a
//! trusted key has signed are kept, one for each key, and an older one never takes a newer one's place; one that is not newer is
//! passed over before its signature is checked.

use protocol::{
    DepotAddress,
    announcement::{Announcement, AnnouncementError, MAX_ANNOUNCEMENTS},
    ticket::{KeySet, UnixTime},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A list of announcements, as it is passed on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Signed.
    pub depots: Vec<String>,
}

/// What is known of depots, by address.
#[derive(Debug, Clone, Default)]
pub struct Known(BTreeMap<String, Held>);

#[derive(Debug, Clone)]
struct Held {
    token: String,
    announcement: Announcement,
}

impl Known {
    /// Takes an announcement, and says whether it is newer than what was known.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn hear(
        &mut self,
        token: &str,
        keys: &KeySet,
        now: UnixTime,
    ) -> Result<bool, AnnouncementError> {
        let claimed = Announcement::read_unverified(token)?;
        if !self.is_news(&claimed) {
            return Ok(false);
        }
        let announcement = Announcement::verify(token, keys, now)?;
        self.keep(token.to_owned(), announcement);
        Ok(true)
    }

    /// The same for a list, of which those that do not count are passed over. Says how many of them there are.
    pub fn hear_all(&mut self, told: &Told, keys: &KeySet, now: UnixTime) -> usize {
        let wrong = |token: &&String| self.hear(token, keys, now).is_err();
        told.depots.iter().take(MAX_ANNOUNCEMENTS).filter(wrong).count()
    }

    /// Takes one from an earlier time, whose signature counts.
    pub(crate) fn remember(&mut self, token: &str, keys: &KeySet) {
        if let Ok(announcement) = Announcement::verify_signature(token, keys)
            && self.is_news(&announcement)
        {
            self.keep(token.to_owned(), announcement);
        }
    }

    fn is_news(&self, claimed: &Announcement) -> bool {
        let known = self.0.get(&claimed.address.to_string());
        let has_room = known.is_some() || self.0.len() < MAX_ANNOUNCEMENTS;
        has_room && known.is_none_or(|known| known.announcement.signed < claimed.signed)
    }

    /// One that needs no check.
    pub fn keep(&mut self, token: String, announcement: Announcement) {
        self.0.insert(announcement.address.to_string(), Held { token, announcement });
    }

    /// A depot is there no more.
    pub fn forget(&mut self, depot: &DepotAddress) {
        self.0.remove(&depot.to_string());
    }

    /// Keeps only what counts now, of depots whose keys are trusted still.
    pub fn tidy(&mut self, keys: &KeySet, now: UnixTime) {
        self.0.retain(|name, held| keys.has(name) && held.announcement.counts(now));
    }

    /// All, by address.
    pub fn announcements(&self) -> impl Iterator<Item = &Announcement> {
        self.0.values().map(|held| &held.announcement)
    }

    /// All, to pass on.
    pub fn told(&self) -> Told {
        Told { depots: self.0.values().map(|held| held.token.clone()).collect() }
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

    fn ages(known: &Known) -> Vec<u64> {
        known.announcements().map(|it| it.signed.seconds() - NOW).collect()
    }

    #[test]
    fn newest_of_each_counts() {
        let (signers, keys) = depots(3);
        let mut known = Known::default();
        let tokens = [(0, 5), (1, 1), (0, 3), (1, 7)].map(|(n, at)| token(&signers, n, NOW + at));
        assert_eq!(known.hear_all(&Told { depots: tokens.to_vec() }, &keys, time(NOW + 7)), 0);
        assert_eq!(ages(&known), [5, 7]);
        // What was passed on by another is the same.
        let mut other = Known::default();
        assert_eq!(other.hear_all(&known.told(), &keys, time(NOW + 7)), 0);
        assert_eq!(ages(&other), [5, 7]);
        known.tidy(&keys, time(NOW + 96));
        assert_eq!(ages(&known), [7], "the leeway is 30 s");
        known.forget(&"d1".parse().unwrap());
        assert_eq!(ages(&known), [0; 0]);
    }

    #[test]
    fn strangers_and_forgeries_are_counted_and_take_no_place() {
        let (signers, _) = depots(3);
        let keys = KeySet::parse(&signers[0].public_set()).unwrap();
        let mut known = Known::default();
        let forged = announced(0, NOW + 9).sign(&signers[1]).unwrap();
        let of_stranger = token(&signers, 1, NOW);
        let good = token(&signers, 0, NOW);
        let told = Told { depots: vec![forged, of_stranger, "nonsense".to_owned(), good] };
        assert_eq!(known.hear_all(&told, &keys, time(NOW)), 3);
        assert_eq!(ages(&known), [0]);
        // A key that is trusted no more.
        let others = KeySet::parse(&signers[2].public_set()).unwrap();
        known.tidy(&others, time(NOW));
        assert_eq!(known.told(), Told::default());
    }

    #[test]
    fn long_list_is_not_read_to_its_end() {
        let (signers, keys) = depots(1);
        let mut depots = vec!["nonsense".to_owned(); MAX_ANNOUNCEMENTS];
        depots.push(token(&signers, 0, NOW));
        let mut known = Known::default();
        assert_eq!(known.hear_all(&Told { depots }, &keys, time(NOW)), MAX_ANNOUNCEMENTS);
        assert_eq!(known.told(), Told::default());
    }
}
