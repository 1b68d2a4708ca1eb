// SPDX-License-Identifier: GPL-2.0-or-later
//! What is chosen from: each chain as this host usually sends, and by some of them other ways to send.
//!
//! First the best chain is found. Then the other ways to send are tried by that one alone, or each of them would be tried by each chain.

use crate::send_options::SendOptions;
use overlay::{Candidate, Memory, Request};

/// Shorter transfers end before it matters how this host sends.
const LEAST_BYTES: u64 = 4 << 20;

/// What is chosen from.
pub(super) struct Offered {
    pub candidates: Vec<Candidate>,
    /// The chain of each, and how it is sent.
    ways: Vec<(usize, SendOptions)>,
}

impl Offered {
    /// With these chains as candidates for a transfer, and these other ways to send.
    pub fn new(
        mut candidates: Vec<Candidate>,
        send_alternatives: &[SendOptions],
        (to, memory): (&str, &Memory),
        request: &Request,
    ) -> Self {
        let chains = candidates.len();
        let mut ways: Vec<_> = (0..chains).map(|chain| (chain, SendOptions::default())).collect();
        if !send_alternatives.is_empty() && chains > 0 && request.bytes >= LEAST_BYTES {
            let assessed = memory.explain(to, request, &candidates, 0);
            let best = assessed.order[0];
            let is_best_known = assessed.assessed[best].forecast.seen > 0;
            for chain in 0..chains {
                let is_tried = chain == best && is_best_known;
                for send_options in send_alternatives {
                    let candidate = sent(&candidates[chain], send_options);
                    if is_tried || memory.paths(to).any(|(key, _)| key == candidate.key) {
                        candidates.push(candidate);
                        ways.push((chain, send_options.clone()));
                    }
                }
            }
        }
        Self { candidates, ways }
    }

    /// The chain of a candidate.
    pub fn chain(&self, at: usize) -> usize {
        self.ways[at].0
    }

    /// Each chain once, as it comes first in an order of candidates.
    pub fn chains(&self, order: &[usize]) -> Vec<usize> {
        let mut first = Vec::new();
        for at in order {
            if !first.iter().any(|known| self.chain(*known) == self.chain(*at)) {
                first.push(*at);
            }
        }
        first
    }

    /// How a candidate is sent.
    pub fn send_options(&self, at: usize) -> &SendOptions {
        &self.ways[at].1
    }
}

/// A candidate, sent in another way.
fn sent(usual: &Candidate, send_options: &SendOptions) -> Candidate {
    let mut candidate = usual.clone();
    candidate.key = route_key(&usual.key, send_options);
    if let Some(hop) = candidate.hops.first_mut() {
        send_options.apply(hop);
    }
    candidate
}

/// The name of a route: its chain, and how it is sent if that is not as usual.
pub(super) fn route_key(chain: &str, send_options: &SendOptions) -> String {
    if send_options.is_usual() { chain.to_owned() } else { format!("{chain};{send_options}") }
}

/// The chain in the key of a candidate, as text, and how this host sends by it.
pub fn read_key(key: &str) -> (&str, SendOptions) {
    let (chain, send_options) = key.split_once(';').unwrap_or((key, ""));
    // What is not known was written by another version.
    (chain, send_options.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        for (chain, send_options) in
            [("", ""), ("d1:3880,d2:3880", "bbr, paced"), ("", "4 connections")]
        {
            let send_options: SendOptions = send_options.parse().unwrap();
            let key = route_key(chain, &send_options);
            assert_eq!(read_key(&key), (chain, send_options));
        }
        assert_eq!(read_key("d1;WHAT IS THIS"), ("d1", SendOptions::default()));
    }
}
