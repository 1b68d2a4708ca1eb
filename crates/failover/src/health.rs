// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a depot is up, by what was seen of it lately.

/// A depot's state: it changes only after several answers, or failures, in a row, so that a depot that comes
/// and goes does not have the web server reload each second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Health {
    fall: u32,
    rise: u32,
    is_up: Option<bool>,
    /// How often in a row the opposite was seen.
    against: u32,
}

impl Health {
    /// Of one that nobody has looked at.
    pub(super) fn new(fall: u32, rise: u32) -> Self {
        Self { fall, rise, is_up: None, against: 0 }
    }

    /// Whether it is up; nothing before the first look.
    pub(super) fn is_up(&self) -> Option<bool> {
        self.is_up
    }

    /// It has answered, or not.
    pub(super) fn saw(&mut self, answer: bool) {
        match self.is_up {
            // The first look counts at once.
            None => self.is_up = Some(answer),
            Some(is_up) if is_up == answer => self.against = 0,
            Some(is_up) => {
                self.against += 1;
                if self.against >= if is_up { self.fall } else { self.rise } {
                    (self.is_up, self.against) = (Some(answer), 0);
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
    fn a_state_changes_after_so_many_in_a_row() {
        let mut health = Health::new(2, 3);
        let mut after = |looks: &[bool]| {
            for look in looks {
                health.saw(*look);
            }
            health.is_up()
        };
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[true]), Some(true), "the first counts");
        assert_eq!(after(&[false, true, false, true]), Some(true), "not in a row");
        assert_eq!(after(&[false, false]), Some(false));
        assert_eq!(after(&[true, true, false, true, true]), Some(false));
        assert_eq!(after(&[true]), Some(true));
    }

    /// The same said in other words: by the last looks of all.
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
    fn at_random_as_by_history() {
        let seed = 5;
        println!("seed {seed}");
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        for _ in 0..2000 {
            let (fall, rise) = (1 + random.next_u32() % 4, 1 + random.next_u32() % 4);
            let looks: Vec<bool> = (0..40).map(|_| random.next_u32().is_multiple_of(2)).collect();
            let mut health = Health::new(fall, rise);
            for (n, look) in looks.iter().enumerate() {
                health.saw(*look);
                let expected = by_history(&looks[..=n], fall as usize, rise as usize);
                assert_eq!(health.is_up(), expected, "{fall} {rise} {looks:?} {n}");
            }
        }
    }
}
