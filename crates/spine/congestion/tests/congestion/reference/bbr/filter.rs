// SPDX-License-Identifier: GPL-2.0-or-later
//! BBR's filter of the delivery rate.

/// A windowed maximum as K. Nichols published it for BBR, and as in Linux: the best sample, the
/// best since that one, and the best since the second, each with its round; the latter two are replaced
/// a quarter and a half of the window after the best. It is not exactly the
/// maximum of the window; the draft names none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter([(u64, f64); 3]);

impl Filter {
    pub fn max(&self) -> f64 {
        self.0[0].1
    }

    pub fn update(&mut self, round: u64, rate: f64, window: u64) {
        let new = (round, rate);
        let age = |sample: (u64, f64)| round - sample.0;
        let best = &mut self.0;
        if rate >= best[0].1 || age(best[2]) > window {
            *best = [new; 3];
            return;
        }
        if rate >= best[1].1 {
            (best[1], best[2]) = (new, new);
        } else if rate >= best[2].1 {
            best[2] = new;
        }
        if age(best[0]) > window {
            *best = [best[1], best[2], new];
            if age(best[0]) > window {
                *best = [best[1], new, new];
            }
        } else if best[1].0 == best[0].0 && age(best[0]) > window / 4 {
            (best[1], best[2]) = (new, new);
        } else if best[2].0 == best[1].0 && age(best[0]) > window / 2 {
            best[2] = new;
        }
    }
}
