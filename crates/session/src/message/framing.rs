// SPDX-License-Identifier: GPL-2.0-or-later
//! How long a body is (RFC 9112, section 6).

use http::{HeaderMap, header};

/// How the end of a response's body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// Exactly so many bytes.
    Length(u64),
    /// Chunks, which are relayed as they come; the receiver sees for itself whether they end.
    Chunked,
    /// Until the connection is closed: only an orderly close marks the end, so whoever passes
    /// such a body on must not close in good order unless the body came to its end.
    UntilClose,
}

/// The `Content-Length`, if any. Equal repetitions count as one; anything else than one number
/// is an error, because two readers might take two different numbers from it.
pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, String> {
    let mut length = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        let text = value.to_str().map_err(|_| "Content-Length is no number".to_owned())?;
        for part in text.split(',').map(str::trim) {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            let number = part.parse().ok().filter(|_| digits);
            let Some(number) = number else {
                return Err(format!("Content-Length \"{part}\" is no number of bytes"));
            };
            if length.is_some_and(|l| l != number) {
                return Err("Content-Length is given twice, with different numbers".to_owned());
            }
            length = Some(number);
        }
    }
    Ok(length)
}

/// Whether the last transfer coding is `chunked`; `None` without the field.
pub(super) fn ends_chunked(headers: &HeaderMap) -> Option<bool> {
    let last = headers.get_all(header::TRANSFER_ENCODING).iter().next_back()?;
    let coding = last.to_str().ok().and_then(|v| v.rsplit(',').next()).map(str::trim);
    Some(coding.is_some_and(|c| c.eq_ignore_ascii_case("chunked")))
}
