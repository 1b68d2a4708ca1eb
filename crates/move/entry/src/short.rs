// SPDX-License-Identifier: GPL-2.0-or-later
//! Which destinations are reached directly because their connections are short.
//!
//! A connection is short if it moves less than a limit in both directions together. A destination (host and port) whose latest
//! three connections were short is reached directly, until one is not. The decision is for the next
//! connection: one that is open stays where it is. A connection that moves nothing says nothing.
//! Limits: 4096 destinations, of which the one that was used least recently is forgotten first; each for 10 minutes.

use route::{FirstContact, Route, ShortRule};
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// How many connections of a destination decide.
const LATEST: usize = 3;
/// The most destinations that are known.
const MOST: usize = 4096;
/// For how long a destination is known after its last connection.
const KEPT: Duration = Duration::from_secs(600);

/// What connections have moved, by their destination.
#[derive(Debug, Default)]
pub(crate) struct History(HashMap<String, Recent>);

#[derive(Debug)]
struct Recent {
    /// The latest last.
    moved: VecDeque<u64>,
    used: Instant,
}

/// The routes to try.
pub(crate) struct Choice<'r> {
    pub routes: Vec<Route<'r>>,
    /// Whether others are left out since connections there are short.
    pub is_short: bool,
}

impl History {
    /// A connection has ended that has moved this many bytes in both directions together.
    pub(crate) fn note(&mut self, to: &str, moved: u64, now: Instant) {
        if moved == 0 {
            return;
        }
        if self.0.len() == MOST && !self.0.contains_key(to) {
            let oldest = self.0.iter().min_by_key(|(_, recent)| recent.used);
            if let Some(oldest) = oldest.map(|(to, _)| to.clone()) {
                self.0.remove(&oldest);
            }
        }
        let none = || Recent { moved: VecDeque::with_capacity(LATEST), used: now };
        let recent = self.0.entry(to.to_owned()).or_insert_with(none);
        if now.duration_since(recent.used) >= KEPT {
            recent.moved.clear();
        }
        if recent.moved.len() == LATEST {
            recent.moved.pop_front();
        }
        recent.moved.push_back(moved);
        recent.used = now;
    }

    /// Connections have ended whose traffic is not known.
    pub(crate) fn forget_all(&mut self) {
        self.0.clear();
    }

    /// Whether a destination is reached directly. `open` is the most that one of its open connections has moved so far.
    fn is_short(&self, to: &str, rule: &ShortRule, open: u64, now: Instant) -> bool {
        let below = rule.below.get();
        let recent = self.0.get(to).filter(|recent| now.duration_since(recent.used) < KEPT);
        let is_known = recent.is_some_and(|recent| recent.moved.len() == LATEST);
        let is_one_long = recent.is_some_and(|recent| recent.moved.iter().any(|&one| one >= below));
        open < below && !is_one_long && (is_known || rule.first == FirstContact::Direct)
    }

    /// Leaves out routes from the first on by whose rule the destination is reached directly. `open` is asked only if the
    /// answer depends on it.
    pub(crate) fn choose<'r>(
        &self,
        to: &str,
        mut routes: Vec<Route<'r>>,
        open: impl FnOnce() -> u64,
        now: Instant,
    ) -> Choice<'r> {
        let first_direct = |routes: &[Route<'r>], open: u64| {
            let is_short = |rule: &ShortRule| self.is_short(to, rule, open, now);
            routes.iter().position(|route| route.short.as_ref().is_some_and(is_short))
        };
        let at = first_direct(&routes, 0).and_then(|_| first_direct(&routes, open()));
        if let Some(at) = at {
            routes.truncate(at);
        }
        Choice { routes, is_short: at.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FirstContact::{Depots, Direct};
    use units::Bytes;

    const LIMIT: u64 = 1000;

    fn rule(first: FirstContact) -> ShortRule {
        ShortRule { below: Bytes::new(LIMIT), first }
    }

    /// Whether it is reached directly after these connections, a second apart.
    fn after(moved: &[u64], first: FirstContact, open: u64) -> bool {
        let (mut history, begun) = (History::default(), Instant::now());
        let mut now = begun;
        for &moved in moved {
            history.note("a:1", moved, now);
            now += Duration::from_secs(1);
        }
        history.is_short("a:1", &rule(first), open, now)
    }

    #[test]
    fn three_short_connections_lead_directly_and_one_long_one_back() {
        for (moved, by_depots_first, by_direct_first) in [
            (&[][..], false, true),
            (&[999], false, true),
            (&[1, 1], false, true),
            (&[1, 999, 1], true, true),
            (&[1, 1000, 1], false, false),
            (&[1, 1, 1, 1000], false, false),
            (&[1000, 1, 1], false, false),
            (&[1000, 1, 1, 1], true, true),
            // Connections that move nothing do not count.
            (&[0, 0, 0, 0], false, true),
            (&[1, 0, 1, 0, 1], true, true),
            (&[1000, 0, 0, 0], false, false),
        ] {
            assert_eq!(after(moved, Depots, 0), by_depots_first, "{moved:?}");
            assert_eq!(after(moved, Direct, 0), by_direct_first, "{moved:?}");
        }
    }

    #[test]
    fn long_connection_counts_while_it_is_open() {
        for first in [Depots, Direct] {
            assert!(after(&[1, 1, 1], first, LIMIT - 1));
            assert!(!after(&[1, 1, 1], first, LIMIT));
        }
        assert!(!after(&[], Direct, LIMIT));
    }

    #[test]
    fn destinations_are_told_apart_forgotten_and_bounded() {
        let (mut history, begun) = (History::default(), Instant::now());
        let is_short =
            |history: &History, to: &str, now| history.is_short(to, &rule(Depots), 0, now);
        for _ in 0..LATEST {
            history.note("a:1", 1, begun);
        }
        assert!(is_short(&history, "a:1", begun) && !is_short(&history, "a:2", begun));
        let late = begun + KEPT;
        assert!(is_short(&history, "a:1", begun + KEPT / 2));
        assert!(!is_short(&history, "a:1", late));
        // What was known so long ago does not add up with what comes.
        history.note("a:1", 1, late);
        assert!(!is_short(&history, "a:1", late));
        for number in 0..2 * MOST {
            history.note(&format!("b:{number}"), 1, late + Duration::from_millis(number as u64));
        }
        assert_eq!(history.0.len(), MOST);
        assert!(!history.0.contains_key("a:1") && history.0.contains_key(&format!("b:{MOST}")));
    }

    #[test]
    fn routes_end_where_a_rule_says_so() {
        let mut history = History::default();
        let (now, depots) = (Instant::now(), vec!["d".parse().unwrap()]);
        for _ in 0..LATEST {
            history.note("a:1", 500, now);
        }
        let chosen = |limits: &[u64], open: u64| {
            let route = |&limit: &u64| Route {
                depots: &depots,
                server: "a:1".parse().unwrap(),
                short: (limit > 0).then_some(ShortRule { below: Bytes::new(limit), first: Depots }),
            };
            let routes = limits.iter().map(route).collect();
            let Choice { routes, is_short } = history.choose("a:1", routes, || open, now);
            (routes.len(), is_short)
        };
        assert_eq!(chosen(&[1000, 0], 0), (0, true));
        assert_eq!(chosen(&[0, 1000, 0], 0), (1, true));
        assert_eq!(chosen(&[100, 0], 0), (2, false));
        assert_eq!(chosen(&[1000, 10_000], 2000), (1, true));
        assert_eq!(chosen(&[1000], 2000), (1, false));
        assert_eq!(chosen(&[], 0), (0, false));
    }
}
