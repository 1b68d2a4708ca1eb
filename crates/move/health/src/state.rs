// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a depot is up, from its last probes.

use crate::Finding;
use protocol::DepotAddress;

/// How many equal results in a row change a depot's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Failures in a row after which it is down.
    pub fall: u32,
    /// Answers in a row after which it is up again.
    pub rise: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { fall: 2, rise: 3 }
    }
}

/// A depot's state. It changes only after several equal results in a row, so that a flapping depot does not
/// change routes each time.
#[derive(Debug, Clone, Copy)]
pub struct Health {
    rules: Rules,
    is_up: Option<bool>,
    /// How often in a row the opposite was found.
    against: u32,
    /// Whether the last probe was impossible on this host.
    was_not_asked: bool,
}

impl Health {
    /// The state of a depot without a probe.
    pub fn new(rules: Rules) -> Self {
        Self { rules, is_up: None, against: 0, was_not_asked: false }
    }

    /// Whether it is up; `None` before the first finding.
    pub fn is_up(&self) -> Option<bool> {
        self.is_up
    }

    /// Takes in a result, and logs a change of state under the name `depot`.
    pub fn record(&mut self, depot: &DepotAddress, finding: &Finding) {
        let (before, was_not_asked) = (self.is_up, self.was_not_asked);
        self.was_not_asked = matches!(finding, Finding::NotAsked(_));
        match finding {
            Finding::Up | Finding::UpToStrangers => self.found(true),
            Finding::Down(_) => self.found(false),
            Finding::NotAsked(why) if !was_not_asked => {
                tracing::warn!(%depot, why, "this host cannot ask whether the depot is up");
            }
            Finding::NotAsked(_) => {}
        }
        if self.is_up == before {
            return;
        }
        match finding {
            Finding::UpToStrangers => tracing::warn!(
                %depot,
                "up, but tells its clients alone how full it is: list this host in its allow.clients"
            ),
            Finding::Down(why) => tracing::warn!(%depot, why, "down"),
            _ => tracing::info!(%depot, "up"),
        }
    }

    /// Whether it accepts requests.
    fn found(&mut self, takes: bool) {
        match self.is_up {
            // The first finding counts at once.
            None => self.is_up = Some(takes),
            Some(is_up) if is_up == takes => self.against = 0,
            Some(is_up) => {
                let Rules { fall, rise } = self.rules;
                self.against += 1;
                if self.against >= if is_up { fall } else { rise } {
                    (self.is_up, self.against) = (Some(takes), 0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};

    #[test]
    fn state_changes_after_n_results_in_a_row() {
        let mut health = Health::new(Rules::default());
        let mut after = |looks: &[bool]| {
            for look in looks {
                health.found(*look);
            }
            health.is_up()
        };
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[true]), Some(true), "the first result decides");
        assert_eq!(after(&[false, true, false, true]), Some(true), "not in a row");
        assert_eq!(after(&[false, false]), Some(false));
        assert_eq!(after(&[true, true, false, true, true]), Some(false));
        assert_eq!(after(&[true]), Some(true));
    }

    /// The same rule, computed from the whole history.
    fn by_history(looks: &[bool], fall: usize, rise: usize) -> Option<bool> {
        let mut is_up = *looks.first()?;
        let mut begin = 0;
        for end in 1..=looks.len() {
            let needed = if is_up { fall } else { rise };
            let last = &looks[begin..end];
            if last.len() >= needed && last[last.len() - needed..].iter().all(|look| *look != is_up)
            {
                (is_up, begin) = (!is_up, end);
            }
        }
        Some(is_up)
    }

    #[test]
    fn random_results_match_full_history() {
        let seed = 5;
        println!("seed {seed}");
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        for _ in 0..2000 {
            let (fall, rise) = (1 + random.next_u32() % 4, 1 + random.next_u32() % 4);
            let looks: Vec<bool> = (0..40).map(|_| random.next_u32().is_multiple_of(2)).collect();
            let mut health = Health::new(Rules { fall, rise });
            for (n, look) in looks.iter().enumerate() {
                health.found(*look);
                let expected = by_history(&looks[..=n], fall as usize, rise as usize);
                assert_eq!(health.is_up(), expected, "{fall} {rise} {looks:?} {n}");
            }
        }
    }
}
