// SPDX-License-Identifier: GPL-2.0-or-later
//! When a file that is followed is complete, by what was seen of it. Reads no clock and no file.
//!
//! Each look at the file gives a [`Seen`]. The first rule that holds ends the file at the length of that look. Anything but
//! growing is an error: it becomes shorter, is deleted, or gets another name although no rule says so.

#![warn(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

use std::{path::PathBuf, str::FromStr, time::Duration};
use units::Bytes;

/// A rule that ends a file that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// It gets another name.
    Renamed,
    /// A program of this machine that had it open for writing has closed it, and it has not changed since, for this time.
    Closed(Duration),
    /// It has not changed for this time.
    Idle(Duration),
    /// A file of this name is there.
    Marker(PathBuf),
    /// It has this length.
    Size(Bytes),
}

/// How a file is followed.
#[derive(Debug, Clone)]
pub struct Follow {
    /// The first of these that holds ends it. At least one.
    pub until: Vec<Until>,
    /// Whether the whole is read again at the end and compared with what was sent.
    pub compares: bool,
    /// How many bytes of its beginning are sent last, because programs complete them at the end: 1 to 16 MiB. The receiver
    /// has to know such files ([`Kind::Growing`](crate::parcel::Kind::Growing)).
    pub header_last: Option<Bytes>,
}

/// Text that is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a rule: it is renamed, closed, closed:TIME, idle:TIME, marker:FILE or size:BYTES, as in idle:60s"
)]
pub struct UntilError(String);

impl FromStr for Until {
    type Err = UntilError;

    fn from_str(text: &str) -> Result<Self, UntilError> {
        let wrong = || UntilError(text.to_owned());
        let time =
            |value: &str| value.parse::<units::Duration>().map(Duration::from).map_err(|_| wrong());
        let (rule, value) = match text.split_once(':') {
            Some((rule, value)) => (rule, Some(value)),
            None => (text, None),
        };
        match (rule, value) {
            ("renamed", None) => Ok(Self::Renamed),
            ("closed", None) => Ok(Self::Closed(Duration::ZERO)),
            ("closed", Some(value)) => time(value).map(Self::Closed),
            ("idle", Some(value)) => match time(value)? {
                Duration::ZERO => Err(wrong()),
                time => Ok(Self::Idle(time)),
            },
            ("marker", Some(value)) if !value.is_empty() => Ok(Self::Marker(value.into())),
            ("size", Some(value)) => value.parse().map(Self::Size).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// Where a file's name leads now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parcel) enum Name {
    /// To it.
    Here,
    /// To nothing, or to another file. It has another name.
    Elsewhere,
    /// To nothing, or to another file. It has no name any more.
    Deleted,
}

/// What one look at a file has found.
#[derive(Debug, Clone, Copy)]
pub(in crate::parcel) struct Seen {
    /// When, since the first look.
    pub at: Duration,
    /// Its length in bytes.
    pub length: u64,
    /// When it was written to: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    pub name: Name,
    /// A marker is there.
    pub has_marker: bool,
    /// What happened last since the look before: it was closed (`true`) or written to. `None` if neither is known.
    pub closed: Option<bool>,
}

/// The rules for one file, and what was seen of it.
#[derive(Debug)]
pub(in crate::parcel) struct Rules {
    until: Vec<Until>,
    length: u64,
    modified: Option<(i64, i64)>,
    changed_at: Duration,
    is_closed: bool,
    is_over: bool,
}

impl Rules {
    pub(in crate::parcel) fn new(until: Vec<Until>) -> Self {
        let (length, changed_at) = (0, Duration::ZERO);
        Self { until, length, modified: None, changed_at, is_closed: false, is_over: false }
    }

    /// The rules.
    pub(in crate::parcel) fn until(&self) -> &[Until] {
        &self.until
    }

    /// Whether a rule has ended the file.
    pub(in crate::parcel) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes a look into account; whether the file is over with it.
    ///
    /// # Errors
    /// What has happened to it in place of growing.
    pub(in crate::parcel) fn step(&mut self, seen: &Seen) -> Result<bool, String> {
        if seen.length < self.length {
            let (before, now) = (self.length, seen.length);
            return Err(format!("it became shorter, from {before} to {now} bytes"));
        }
        let is_changed = seen.length != self.length || self.modified != Some(seen.modified);
        (self.length, self.modified) = (seen.length, Some(seen.modified));
        if is_changed {
            self.changed_at = seen.at;
        }
        self.is_closed = seen.closed.unwrap_or(self.is_closed);
        let is_renamed = match seen.name {
            Name::Here => false,
            Name::Elsewhere if self.until.contains(&Until::Renamed) => true,
            Name::Elsewhere => {
                return Err("it was renamed. If that ends it: --until renamed".to_owned());
            }
            Name::Deleted => return Err("it was deleted".to_owned()),
        };
        let quiet = seen.at.saturating_sub(self.changed_at);
        let mut is_over = is_renamed || seen.has_marker;
        for rule in &self.until {
            is_over |= match rule {
                Until::Renamed | Until::Marker(_) => false,
                // A close and a later write may be seen at once: only the next look tells.
                Until::Closed(time) => self.is_closed && !is_changed && quiet >= *time,
                Until::Idle(time) => quiet >= *time,
                Until::Size(size) if seen.length > size.get() => {
                    return Err(format!("it is longer than the given size, {} bytes", size.get()));
                }
                Until::Size(size) => seen.length == size.get(),
            };
        }
        self.is_over = is_over;
        Ok(is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ms: u64, length: u64) -> Seen {
        Seen {
            at: Duration::from_millis(ms),
            length,
            modified: (0, i64::try_from(length).unwrap()),
            name: Name::Here,
            has_marker: false,
            closed: None,
        }
    }

    fn rules(until: &[&str]) -> Rules {
        Rules::new(until.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn rules_are_read_and_others_refused() {
        for (text, rule) in [
            ("renamed", Until::Renamed),
            ("closed", Until::Closed(Duration::ZERO)),
            ("closed:2s", Until::Closed(Duration::from_secs(2))),
            ("idle:1min", Until::Idle(Duration::from_secs(60))),
            ("marker:a:b", Until::Marker("a:b".into())),
            ("size:10MB", Until::Size(Bytes::new(10 << 20))),
        ] {
            assert_eq!(text.parse::<Until>(), Ok(rule), "{text}");
        }
        for text in [
            "",
            "idle",
            "idle:",
            "idle:0s",
            "idle:60",
            "idle:-1s",
            "closed:",
            "closed:x",
            "marker",
            "marker:",
            "size",
            "size:",
            "size:10Mb",
            "size:-1",
            "renamed:",
            "Renamed",
            "done",
        ] {
            let error = text.parse::<Until>().unwrap_err().to_string();
            assert!(error.contains("idle:60s"), "{text}: {error}");
        }
    }

    #[test]
    fn idle_file_ends_after_its_last_change() {
        let mut rules = rules(&["idle:1s"]);
        for (ms, length) in [(0, 0), (900, 5), (1800, 9), (2700, 9)] {
            assert_eq!(rules.step(&seen(ms, length)), Ok(false), "{ms} ms");
        }
        // Written to in place: its length says nothing, its date does.
        let touched = Seen { modified: (7, 0), ..seen(2750, 9) };
        assert_eq!(rules.step(&touched), Ok(false));
        assert_eq!(rules.step(&Seen { at: Duration::from_millis(3749), ..touched }), Ok(false));
        assert_eq!(rules.step(&Seen { at: Duration::from_millis(3750), ..touched }), Ok(true));
        assert!(rules.is_over());
    }

    #[test]
    fn closed_file_ends_at_a_look_without_changes() {
        let mut rules = rules(&["closed"]);
        let closed = |ms, length, closed| Seen { closed, ..seen(ms, length) };
        assert_eq!(rules.step(&closed(0, 5, None)), Ok(false), "it is still open");
        assert_eq!(rules.step(&closed(10_000, 5, None)), Ok(false));
        assert_eq!(rules.step(&closed(10_200, 6, Some(true))), Ok(false), "it has just changed");
        assert_eq!(rules.step(&closed(10_400, 7, Some(false))), Ok(false), "it was opened again");
        assert_eq!(rules.step(&closed(10_600, 8, Some(true))), Ok(false));
        assert_eq!(rules.step(&closed(10_800, 8, None)), Ok(true));
        let mut rules = super::Rules::new(vec![Until::Closed(Duration::from_secs(1))]);
        assert_eq!(rules.step(&closed(0, 5, Some(true))), Ok(false));
        assert_eq!(rules.step(&closed(999, 5, None)), Ok(false));
        assert_eq!(rules.step(&closed(1000, 5, None)), Ok(true));
    }

    #[test]
    fn first_rule_that_holds_ends_a_file() {
        let until = ["renamed", "size:100", "marker:done"];
        let renamed = Seen { name: Name::Elsewhere, ..seen(1, 7) };
        let marked = Seen { has_marker: true, ..seen(1, 7) };
        for (look, over) in
            [(seen(1, 7), false), (renamed, true), (marked, true), (seen(1, 100), true)]
        {
            let mut rules = rules(&until);
            assert_eq!(rules.step(&seen(0, 7)), Ok(false));
            assert_eq!(rules.step(&look), Ok(over), "{look:?}");
        }
    }

    #[test]
    fn file_that_does_not_only_grow_is_an_error() {
        for (until, look, why) in [
            ("idle:1s", seen(1, 6), "shorter, from 7 to 6"),
            ("size:10", seen(1, 11), "longer"),
            ("idle:1s", Seen { name: Name::Elsewhere, ..seen(1, 7) }, "--until renamed"),
            ("renamed", Seen { name: Name::Deleted, ..seen(1, 7) }, "deleted"),
            // Also when a rule holds at the same time.
            ("marker:x", Seen { has_marker: true, ..seen(1, 6) }, "shorter"),
        ] {
            let mut rules = rules(&[until]);
            assert_eq!(rules.step(&seen(0, 7)), Ok(false));
            let error = rules.step(&look).unwrap_err();
            assert!(error.contains(why), "{until}: {error}");
        }
    }
}
