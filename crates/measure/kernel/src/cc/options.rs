// SPDX-License-Identifier: GPL-2.0-or-later
//! How a congestion control is loaded, besides its parameters.

/// How a congestion control is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Record every call of the algorithm, see [`Loaded::trace`](super::Loaded::trace). Without, it costs nothing.
    pub trace: bool,
    /// `ssthresh` of new connections in segments, so that they don't overshoot. Without: no bound.
    pub initial_ssthresh: Option<u32>,
    /// Only for programs with `CAP_NET_ADMIN`; else any program may choose it for its sockets.
    pub restricted: bool,
}

impl Options {
    /// As `options` of `src/bpf/adapter.h`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let words = [self.trace.into(), self.initial_ssthresh.unwrap_or(0), self.restricted.into()];
        words.into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    /// Those of a pin.
    pub(super) fn of_words(words: &[u32]) -> Self {
        let word = |n: usize| words.get(n).copied().unwrap_or(0);
        let initial_ssthresh = Some(word(1)).filter(|&bound| bound != 0);
        Self { trace: word(0) != 0, initial_ssthresh, restricted: word(2) != 0 }
    }

    /// In words, which of these are not as in `others`.
    pub(super) fn differences_from(&self, others: &Self) -> Vec<String> {
        let mut words = Vec::new();
        if self.trace != others.trace {
            words.push(if self.trace { "with a trace" } else { "without a trace" }.to_owned());
        }
        if self.initial_ssthresh != others.initial_ssthresh {
            let bound = self.initial_ssthresh.map_or("none".to_owned(), |n| n.to_string());
            words.push(format!("initial ssthresh {bound}"));
        }
        if self.restricted != others.restricted {
            let who = if self.restricted { "restricted" } else { "unrestricted, for every user" };
            words.push(who.to_owned());
        }
        words
    }
}
