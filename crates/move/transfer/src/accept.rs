// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the body of an answer may be used: for which bytes of the file, and when the file is complete.
//!
//! ```text
//! asked for    came                                           use
//! the whole    200, nothing speaks against the whole          from byte 0, to the end that is known
//! the whole    200 with another Content-Range, 206            none: ask again
//! a range      206, the very range, same version and length   at its place
//! a range      200, exactly the known length, same version    from byte 0
//! a range      200 else                                       none: ask for the whole
//! a range      206 else                                       none: begin again
//! ```
//! Servers exist that answer a range by 200 and only the slice, with `Content-Range` or without. So a 200 counts as
//! the whole only where no range was asked for, or where its length proves it. All that is known of a version must
//! agree: its length, as [`Lengths`] remembers it, its coding, its digest.
//!
//! Limits: a server that sends a slice for the whole, with a new validator or none, cannot be found out here.

use crate::{
    answer::{Answer, Framing, RangeField, Validators},
    part::Identity,
};
use http::StatusCode;
use protocol::digest::Digest;

/// How many versions are remembered; a transfer begins again less often.
const MAX_VERSIONS: usize = 32;

/// What was asked for, and what is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The first byte, and the one after the last where it was named; nothing for the whole file.
    pub range: Option<(u64, Option<u64>)>,
    /// The version of which bytes are held.
    pub known: &'a Identity,
    pub digest: Option<&'a Digest>,
    pub lengths: &'a Lengths,
}

/// How a whole file's end is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// At this length, neither earlier nor later.
    At(u64),
    /// At the last chunk.
    LastChunk,
    /// The connection ends, which proves nothing.
    Unproven,
}

/// The use of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is the whole file.
    Whole(End),
    /// It is the range that was asked for, or its first part.
    Part { end: u64, total: u64 },
    /// None. The server has no such range: the length that it names.
    Beyond(Option<u64>),
    /// None. The server has another version now: begin again.
    OtherVersion(&'static str),
    /// None. The server's ranges cannot be trusted: begin again, and ask for the whole.
    NoRanges(&'static str),
    /// None. It contradicts what was asked for or is known.
    Contradiction(String),
    /// None. The status brings no file.
    NoFile,
}

/// The lengths that a server has named, by validator. Weak ones apply, too: a version has one length.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lengths(Vec<(Validators, u64)>);

impl Lengths {
    pub(crate) fn learn(&mut self, validators: &Validators, total: u64) {
        if self.of(validators).is_some() {
            return;
        }
        if self.0.len() == MAX_VERSIONS {
            self.0.remove(0);
        }
        self.0.push((validators.clone(), total));
    }

    pub(crate) fn of(&self, validators: &Validators) -> Option<u64> {
        let named = |(known, _): &&(Validators, u64)| is_named_alike(known, validators);
        self.0.iter().find(named).map(|(_, total)| *total)
    }
}

/// Whether a server calls two versions the same, for certain or not.
fn is_named_alike(one: &Validators, other: &Validators) -> bool {
    match (&one.etag, &other.etag) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.last_modified.is_some() && one.last_modified == other.last_modified,
        _ => false,
    }
}

/// Decides about a body.
pub(crate) fn accept(asked: &Asked<'_>, came: &Answer) -> Use {
    match (came.status, asked.range) {
        (StatusCode::OK, None) => match whole(asked, came) {
            Ok(end) => Use::Whole(end),
            Err(why) => Use::Contradiction(why),
        },
        (StatusCode::OK, Some(_)) => whole_for_a_range(asked, came),
        (StatusCode::PARTIAL_CONTENT, Some((start, end))) => part(asked, came, start, end),
        (StatusCode::PARTIAL_CONTENT, None) => {
            Use::Contradiction("a part was sent where the whole was asked for".to_owned())
        }
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => match came.range {
            RangeField::Unsatisfied(total) => Use::Beyond(Some(total)),
            _ => Use::Beyond(None),
        },
        _ => Use::NoFile,
    }
}

/// How the end of a whole file is known, if nothing contradicts.
fn whole(asked: &Asked<'_>, came: &Answer) -> Result<End, String> {
    if came.multipart {
        return Err("it is several parts, where the whole was asked for".to_owned());
    }
    let sent = match came.framing {
        Framing::Length(length) => Some(length),
        Framing::Chunked | Framing::UntilClose => None,
    };
    let of_range = match came.range {
        RangeField::None => None,
        RangeField::Bytes(range) if range.start == 0 && range.total == Some(range.end) => {
            range.total
        }
        RangeField::Bytes(range) => {
            return Err(format!(
                "status 200 means the whole file, but Content-Range says bytes {}-{}",
                range.start,
                range.end - 1
            ));
        }
        RangeField::Unsatisfied(_) | RangeField::Unusable => {
            return Err("status 200 means the whole file, but it has a Content-Range".to_owned());
        }
    };
    if let (Some(sent), Some(of_range)) = (sent, of_range)
        && sent != of_range
    {
        return Err(format!("Content-Length is {sent}, but Content-Range says {of_range} bytes"));
    }
    let known = asked.lengths.of(&came.validators);
    let total = sent.or(of_range);
    if let (Some(known), Some(total)) = (known, total)
        && known != total
    {
        return Err(format!(
            "{total} bytes are sent as the whole file, but the same version had {known} before. To forget that: \
             --no-resume"
        ));
    }
    let same = asked.known.validators.same_version(&came.validators);
    if same && known.is_some() && asked.known.encoding != came.encoding {
        return Err("the same version comes in another encoding than before".to_owned());
    }
    Ok(match (total.or(known), came.framing) {
        (Some(total), _) => End::At(total),
        (None, Framing::Chunked) => End::LastChunk,
        (None, _) => End::Unproven,
    })
}

/// A 200 where a range was asked for is the whole only if it has exactly the length that the whole is known to have.
fn whole_for_a_range(asked: &Asked<'_>, came: &Answer) -> Use {
    const IGNORED: &str = "the server answers a range with status 200";
    let same = asked.known.validators.same_version(&came.validators);
    let says_length = matches!(came.framing, Framing::Length(_)) || came.range != RangeField::None;
    match whole(asked, came) {
        Ok(end @ End::At(total)) if same && says_length && asked.known.total == Some(total) => {
            Use::Whole(end)
        }
        Ok(_) if !same && came.range == RangeField::None => {
            Use::OtherVersion("the server has another version of the file now")
        }
        _ => Use::NoRanges(IGNORED),
    }
}

/// Whether a 206 is what was asked for, of the version that is held.
fn part(asked: &Asked<'_>, came: &Answer, start: u64, end: Option<u64>) -> Use {
    let known = asked.known;
    let range = match came.range {
        RangeField::Bytes(range) if !came.multipart => range,
        _ => return Use::NoRanges("the server sends a range that cannot be read"),
    };
    let Some(total) = range.total else {
        return Use::NoRanges("the server does not say the file's length");
    };
    if range.start != start || end.is_some_and(|end| range.end > end) {
        return Use::NoRanges("the server sent another range than was asked for");
    }
    if matches!(came.framing, Framing::Length(length) if length != range.end - range.start) {
        return Use::NoRanges("the server sends a range of another length than it says");
    }
    if !known.validators.same_version(&came.validators) {
        return Use::OtherVersion("the server has another version of the file now");
    }
    let totals = [known.total, asked.lengths.of(&came.validators)];
    if totals.into_iter().flatten().any(|known| known != total) {
        return Use::OtherVersion("the file at the server has another length now");
    }
    if known.encoding != came.encoding {
        return Use::OtherVersion("the server encodes the file in another way now");
    }
    let other = |known: &Digest| {
        let new = came.digest.as_ref();
        new.is_some_and(|new| new.algorithm() == known.algorithm() && new != known)
    };
    if asked.digest.is_some_and(other) {
        return Use::OtherVersion("the file at the server has another digest now");
    }
    Use::Part { end: range.end, total }
}

#[cfg(test)]
#[path = "accept_tests.rs"]
mod tests;
