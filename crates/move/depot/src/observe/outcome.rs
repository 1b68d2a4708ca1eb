// SPDX-License-Identifier: GPL-2.0-or-later
//! How a request ended: a word for counters and logs, and a sentence for people.

use crate::http::body::Broken;
use http::StatusCode;
use protocol::http::{Fault, Framing, ProxyError};
use relay::copy::CopyError;
use tracing::Level;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The client's system has acknowledged the whole response.
    Complete,
    /// The client's system has acknowledged all received bytes. The body had no length, so only the origin
    /// knows whether it is complete.
    Ended,
    /// The client was redirected to the next depot.
    LedOn,
    /// The depot itself sent the intended response.
    Answered,
    /// The depot refused the request or could not relay it, or a later depot did and the request was at fault.
    Refused,
    /// A later depot could not relay the request, or had no free slot.
    UpstreamRefused,
    /// It failed at the client.
    Client(Fate),
    /// It failed at the next hop.
    Upstream(Fate),
    /// The depot ended it, because it is no longer permitted.
    Withdrawn,
    /// The depot stopped.
    Stopped,
}

/// How one side failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// It closed or reset its connection instead of reading.
    Gone,
    /// It read or sent nothing for too long.
    Stalled,
    /// It closed before the end of its data.
    CutOff,
    /// Its connection failed while it was sending.
    Failed,
    /// Its data is malformed, or exceeds the announced length.
    Malformed,
    /// Its data does not match the promised digest.
    Differs,
}

/// Which way a body moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the next hop.
    Up,
    /// From the next hop to the client.
    Down,
}

impl Outcome {
    /// Every outcome.
    pub(crate) const ALL: [Self; 20] = [
        Self::Complete,
        Self::Ended,
        Self::LedOn,
        Self::Answered,
        Self::Refused,
        Self::UpstreamRefused,
        Self::Client(Fate::Gone),
        Self::Client(Fate::Stalled),
        Self::Client(Fate::CutOff),
        Self::Client(Fate::Failed),
        Self::Client(Fate::Malformed),
        Self::Client(Fate::Differs),
        Self::Upstream(Fate::Gone),
        Self::Upstream(Fate::Stalled),
        Self::Upstream(Fate::CutOff),
        Self::Upstream(Fate::Failed),
        Self::Upstream(Fate::Malformed),
        Self::Upstream(Fate::Differs),
        Self::Withdrawn,
        Self::Stopped,
    ];

    /// The word for it in counters and in the log.
    pub(crate) const fn token(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Ended => "ended",
            Self::LedOn => "led_on",
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::UpstreamRefused => "upstream_refused",
            Self::Client(Fate::Gone) => "client_gone",
            Self::Client(Fate::Stalled) => "client_stalled",
            Self::Client(Fate::CutOff) => "client_cut_off",
            Self::Client(Fate::Failed) => "client_failed",
            Self::Client(Fate::Malformed) => "client_malformed",
            Self::Client(Fate::Differs) => "client_differs",
            Self::Upstream(Fate::Gone) => "upstream_gone",
            Self::Upstream(Fate::Stalled) => "upstream_stalled",
            Self::Upstream(Fate::CutOff) => "upstream_cut_off",
            Self::Upstream(Fate::Failed) => "upstream_failed",
            Self::Upstream(Fate::Malformed) => "upstream_malformed",
            Self::Upstream(Fate::Differs) => "upstream_differs",
            Self::Withdrawn => "withdrawn",
            Self::Stopped => "stopped",
        }
    }

    /// The outcome of a body in this direction that failed.
    pub(crate) fn of(broken: &Broken, direction: Direction) -> Self {
        let fate = match broken {
            Broken::Copy(CopyError::SinkGone(_)) => Fate::Gone,
            Broken::Copy(
                CopyError::SinkStalled
                | CopyError::SourceStalled
                | CopyError::SinkSlow
                | CopyError::SourceSlow,
            ) => Fate::Stalled,
            Broken::Copy(CopyError::SourceGaveUp(_)) if direction == Direction::Down => {
                return Self::Client(Fate::Stalled);
            }
            Broken::Copy(CopyError::CutOff) => Fate::CutOff,
            Broken::Copy(CopyError::SourceFailed(_) | CopyError::SourceGaveUp(_)) => Fate::Failed,
            Broken::Malformed(_) | Broken::Copy(CopyError::TooLong) => Fate::Malformed,
            Broken::Differs(_) => Fate::Differs,
        };
        let at_sink = matches!(
            broken,
            Broken::Copy(CopyError::SinkGone(_) | CopyError::SinkStalled | CopyError::SinkSlow)
        );
        if at_sink == (direction == Direction::Down) {
            Self::Client(fate)
        } else {
            Self::Upstream(fate)
        }
    }

    /// How a next hop failed that got a part of a request's body and sent no response, with a word for it.
    /// `None` if the fault is another side's.
    pub(crate) fn of_upload(fault: &Fault) -> Option<(Self, &'static str)> {
        if ![StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT].contains(&fault.status) {
            return None;
        }
        let (fate, word) = match fault.error {
            ProxyError::HttpResponseTimeout => (Fate::Stalled, "stalled"),
            ProxyError::ConnectionTerminated => (Fate::Gone, "gone"),
            ProxyError::HttpResponseIncomplete => (Fate::CutOff, "cut off"),
            _ => (Fate::Malformed, "failed"),
        };
        Some((Self::Upstream(fate), word))
    }

    /// The outcome of a request that a later depot has refused. It is not a failure of the next hop if the
    /// request is at fault.
    pub(crate) fn of_refusal(fault: &Fault) -> Self {
        if fault.status.is_server_error() { Self::UpstreamRefused } else { Self::Refused }
    }

    /// Its log level.
    pub(crate) const fn level(self) -> Level {
        match self {
            Self::Complete | Self::Ended | Self::LedOn | Self::Answered => Level::INFO,
            _ => Level::WARN,
        }
    }
}

/// Why a body failed after `moved_bytes` bytes: in the depot's own words, and the cause, which may quote
/// peers.
pub(crate) fn in_words(
    broken: &Broken,
    direction: Direction,
    moved_bytes: u64,
    framing: Framing,
) -> (String, Option<String>) {
    let (source, sink) = match direction {
        Direction::Down => ("upstream", "client"),
        Direction::Up => ("client", "upstream"),
    };
    let so_far = match framing {
        Framing::Length(length) => format!("at {moved_bytes} of {length} bytes"),
        _ => format!("after {moved_bytes} bytes"),
    };
    match broken {
        Broken::Copy(CopyError::SinkGone(error)) => {
            (format!("{sink} gone {so_far}"), Some(error.to_string()))
        }
        Broken::Copy(CopyError::SinkStalled) => (format!("{sink} stalled {so_far}"), None),
        Broken::Copy(CopyError::CutOff) => (format!("{source} cut off {so_far}"), None),
        Broken::Copy(CopyError::SourceGaveUp(error)) if direction == Direction::Down => {
            (format!("{sink} stalled {so_far}: {source} gave up waiting"), Some(error.to_string()))
        }
        Broken::Copy(CopyError::SourceFailed(error) | CopyError::SourceGaveUp(error)) => {
            (format!("{source} failed {so_far}"), Some(error.to_string()))
        }
        Broken::Copy(CopyError::SourceStalled) => (format!("{source} stalled {so_far}"), None),
        Broken::Malformed(error) => (format!("{source} failed {so_far}"), Some(error.to_string())),
        Broken::Copy(CopyError::SinkSlow) => {
            (format!("{sink} stalled {so_far}: it took less than `limits.least_rate`"), None)
        }
        Broken::Copy(CopyError::SourceSlow) => {
            (format!("{source} stalled {so_far}: it sent less than `limits.least_rate`"), None)
        }
        Broken::Copy(CopyError::TooLong) => {
            (format!("{source} sent more than announced, or granted, {so_far}"), None)
        }
        Broken::Differs(fault) => (format!("differs {so_far}"), Some(fault.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, io};

    #[test]
    fn each_outcome_has_its_own_word() {
        let tokens: BTreeSet<_> = Outcome::ALL.iter().map(|outcome| outcome.token()).collect();
        assert_eq!(tokens.len(), Outcome::ALL.len());
    }

    #[test]
    fn side_at_fault_depends_on_direction() {
        let gone = Broken::Copy(CopyError::SinkGone(io::ErrorKind::BrokenPipe.into()));
        assert_eq!(Outcome::of(&gone, Direction::Down), Outcome::Client(Fate::Gone));
        assert_eq!(Outcome::of(&gone, Direction::Up), Outcome::Upstream(Fate::Gone));
        assert_eq!(
            Outcome::of(&Broken::Copy(CopyError::CutOff), Direction::Down),
            Outcome::Upstream(Fate::CutOff)
        );
        assert_eq!(
            Outcome::of(&Broken::Copy(CopyError::CutOff), Direction::Up),
            Outcome::Client(Fate::CutOff)
        );
        let (words, reason) =
            in_words(&Broken::Copy(CopyError::CutOff), Direction::Up, 5, Framing::Length(9));
        assert_eq!((words.as_str(), reason), ("client cut off at 5 of 9 bytes", None));
    }
}
