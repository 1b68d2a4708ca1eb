// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a head ends: the one rule, stricter than the parser's.
//!
//! RFC 9112, section 2.2, lets a recipient take a bare LF for the end of a line. Where one party
//! does and the next does not, they see different heads; so here every line ends in CRLF, and
//! neither CR nor LF stands anywhere else.

use super::MAX_FIELDS;
use memchr::memchr2;

/// Why the lines are not a valid header section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error("a line ends in LF without CR")]
    BareLf,
    #[error("a CR is within a line")]
    BareCr,
    #[error("a line begins with a space: folded fields are obsolete")]
    Folded,
    #[error("it has more than {MAX_FIELDS} fields")]
    TooMany,
}

/// The length of the block of lines at the start of `bytes` up to and with its empty line, or
/// nothing while that has not come. What is wrong is seen with the line it is in.
pub(super) fn block(bytes: &[u8]) -> Result<Option<usize>, LineError> {
    let mut start = 0;
    // One more for the first line, one for the empty one.
    for number in 0..MAX_FIELDS + 2 {
        let Some(line) = line(&bytes[start..])? else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some(start + 2));
        }
        if number > 0 && matches!(line[0], b' ' | b'\t') {
            return Err(LineError::Folded);
        }
        start += line.len() + 2;
    }
    Err(LineError::TooMany)
}

/// The first line without its end, or nothing while it has none.
pub(super) fn line(bytes: &[u8]) -> Result<Option<&[u8]>, LineError> {
    let Some(end) = memchr2(b'\r', b'\n', bytes) else { return Ok(None) };
    match (bytes[end], bytes.get(end + 1)) {
        (b'\n', _) => Err(LineError::BareLf),
        (_, Some(b'\n')) => Ok(Some(&bytes[..end])),
        (_, Some(_)) => Err(LineError::BareCr),
        (_, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_block_needs_crlf_lines_and_an_empty_line() {
        let many = "a:\r\n".repeat(MAX_FIELDS + 2);
        for (text, expected) in [
            ("", Ok(None)),
            ("a", Ok(None)),
            ("a\r", Ok(None)),
            ("a\r\n", Ok(None)),
            ("a\r\n\r", Ok(None)),
            ("a\r\n\r\nb", Ok(Some(5))),
            ("\r\nb", Ok(Some(2))),
            ("a\n", Err(LineError::BareLf)),
            ("a\r\n\n", Err(LineError::BareLf)),
            ("a\r\r\n", Err(LineError::BareCr)),
            ("a\rb", Err(LineError::BareCr)),
            ("a\r\n b", Ok(None)),
            ("a\r\n b\r\n", Err(LineError::Folded)),
            ("a\r\n\tb\r\n", Err(LineError::Folded)),
            (&many, Err(LineError::TooMany)),
        ] {
            assert_eq!(block(text.as_bytes()), expected, "{text:?}");
        }
    }
}
