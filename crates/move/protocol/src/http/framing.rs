// SPDX-License-Identifier: GPL-2.0-or-later
//! How long a body is (RFC 9112, section 6).

use super::fields::{Fields, is_tchar, trim};
use http::header;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// Exactly this number of bytes.
    Length(u64),
    /// Chunks, the last of which is empty.
    Chunked,
    /// Until the connection is closed; responses only. Only an orderly close marks the end, so
    /// a relay of such a body must not close in good order unless the body came to its end.
    UntilClose,
}

/// The meaning of `Transfer-Encoding` for framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codings {
    /// There is no such field.
    None,
    /// `chunked`, and nothing else.
    Chunked,
    /// Other codings, and `chunked` as the last.
    OthersThenChunked,
    /// Other codings only.
    Others,
    /// `chunked` not as the last, twice, or no list of codings at all.
    Malformed,
}

/// The `Content-Length`, if any. Equal repetitions count as one; anything else than one number
/// is an error, because two readers might take two different numbers from it.
pub(super) fn content_length(headers: &Fields) -> Result<Option<u64>, String> {
    let mut length = None;
    for value in headers.get_all(&header::CONTENT_LENGTH) {
        let text = value.to_str().map_err(|_| "Content-Length is not a number".to_owned())?;
        for part in text.split(',') {
            let part = trim(part);
            let Some(number) = bytes(part) else {
                return Err(format!("Content-Length \"{part}\" is not a number of bytes"));
            };
            if length.is_some_and(|l| l != number) {
                return Err("Content-Length is given twice, with different numbers".to_owned());
            }
            length = Some(number);
        }
    }
    Ok(length)
}

/// A number of bytes: below 2^63, so that no reader's integer turns negative.
pub(super) fn bytes(text: &str) -> Option<u64> {
    decimal(text).filter(|number| i64::try_from(*number).is_ok())
}

/// A number of digits alone: the standard parser would take "+5" too.
pub(super) fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Reads the transfer codings. Empty elements of the list, parameters and quotes are refused with
/// all else that a second reader might read in another way.
pub(super) fn codings(headers: &Fields) -> Codings {
    let mut all = Vec::new();
    for value in headers.get_all(&header::TRANSFER_ENCODING) {
        let Ok(text) = value.to_str() else { return Codings::Malformed };
        all.extend(text.split(',').map(trim));
    }
    let chunked = |coding: &&str| coding.eq_ignore_ascii_case("chunked");
    let Some((last, others)) = all.split_last() else { return Codings::None };
    if !all.iter().all(|coding| is_token(coding)) || others.iter().any(chunked) {
        return Codings::Malformed;
    }
    match (chunked(last), others.is_empty()) {
        (true, true) => Codings::Chunked,
        (true, false) => Codings::OthersThenChunked,
        (false, _) => Codings::Others,
    }
}

/// A token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_tchar)
}
