// SPDX-License-Identifier: GPL-2.0-or-later
//! Headers, the only part of a session that depots read: preface, version, kind, length, fields
//! (docs/lsl.md, section 1).

use crate::session::{Answer, JoinToken, Malformed, Open, fields, stripes};

/// The first byte of every header. No HTTP method and no TLS record begins with it.
pub const FIRST_BYTE: u8 = 0xb1;
/// The protocol's name in ALPN.
pub const ALPN: &[u8] = b"lsl/1";
/// The most bytes that a header has.
pub const MAX_HEADER: usize = PREFACE + MAX_FIELDS;

const MAGIC: [u8; 4] = [FIRST_BYTE, b'L', b'S', b'L'];
const VERSION: u8 = 1;
/// The length of everything before the fields.
const PREFACE: usize = 8;
/// The most bytes that the fields have.
pub(super) const MAX_FIELDS: usize = 16_384;
const OPEN: u8 = 1;
const ANSWER: u8 = 2;

/// A header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    /// Asks for a session.
    Open(Open),
    /// Reports the result of an OPEN.
    Answer(Answer),
    /// Joins a hop of a session that is open.
    Join(JoinToken),
}

/// A field of a type above 127 that this version does not know. It is passed on as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    pub(super) kind: u8,
    pub(super) value: Vec<u8>,
}

impl Header {
    /// Reads the header at the start of `bytes`, and its length. `None`: the header is incomplete. A header that
    /// further bytes cannot complete is refused immediately.
    ///
    /// # Errors
    /// The bytes break a rule of sections 1 to 3.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(Malformed("it does not begin with the preface of a session"));
        }
        if bytes.get(4).is_some_and(|version| *version != VERSION) {
            return Err(Malformed("the header's version is not 1"));
        }
        if bytes.get(5).is_some_and(|kind| ![OPEN, ANSWER, stripes::KIND].contains(kind)) {
            return Err(Malformed("the header's kind is unknown"));
        }
        let Some(preface) = bytes.first_chunk::<PREFACE>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([preface[6], preface[7]]));
        if length > MAX_FIELDS {
            return Err(Malformed("the header has more than 16 384 bytes of fields"));
        }
        let end = PREFACE + length;
        let Some(fields) = bytes.get(PREFACE..end) else { return Ok(None) };
        let header = match preface[5] {
            OPEN => Self::Open(Open::read(fields)?),
            stripes::KIND => Self::Join(JoinToken::read_join(fields)?),
            _ => Self::Answer(Answer::read(fields)?),
        };
        Ok(Some((header, end)))
    }

    /// Reads an OPEN, and nothing else.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or it is another header.
    pub fn parse_open(bytes: &[u8]) -> Result<Option<(Open, usize)>, Malformed> {
        match Self::parse(bytes)? {
            Some((Self::Open(open), length)) => Ok(Some((open, length))),
            Some(_) => Err(Malformed("it is no OPEN")),
            None => Ok(None),
        }
    }

    /// Reads an ANSWER, and nothing else.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or it is another header.
    pub fn parse_answer(bytes: &[u8]) -> Result<Option<(Answer, usize)>, Malformed> {
        match Self::parse(bytes)? {
            Some((Self::Answer(answer), length)) => Ok(Some((answer, length))),
            Some(_) => Err(Malformed("it is no ANSWER")),
            None => Ok(None),
        }
    }

    /// How many bytes an incomplete header lacks at least. A reader that takes no more of them never reads what follows
    /// the header.
    pub fn missing(bytes: &[u8]) -> usize {
        let length = bytes
            .first_chunk::<PREFACE>()
            .map_or(0, |preface| usize::from(u16::from_be_bytes([preface[6], preface[7]])));
        (PREFACE + length).saturating_sub(bytes.len())
    }

    /// The header as it is sent.
    ///
    /// # Errors
    /// It is longer than a header may be, or breaks another rule.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Malformed> {
        match self {
            Self::Open(open) => open.to_bytes(),
            Self::Answer(answer) => answer.to_bytes(),
            Self::Join(token) => Ok(token.to_join()),
        }
    }
}

/// A header with these fields.
pub(super) fn with_preface(kind: u8, fields: &[u8]) -> Result<Vec<u8>, Malformed> {
    let length = u16::try_from(fields.len()).ok().filter(|n| usize::from(*n) <= MAX_FIELDS);
    let length = length.ok_or(Malformed("the header has more than 16 384 bytes of fields"))?;
    let mut out = Vec::with_capacity(PREFACE + fields.len());
    out.extend(MAGIC);
    out.extend([VERSION, kind]);
    out.extend(length.to_be_bytes());
    out.extend(fields);
    Ok(out)
}

impl Open {
    /// The header as it is sent.
    ///
    /// # Errors
    /// It is longer than a header may be, or breaks another rule.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Malformed> {
        with_preface(OPEN, &self.fields()?)
    }
}

impl Answer {
    /// The header as it is sent.
    ///
    /// # Errors
    /// It is longer than a header may be, or breaks another rule.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Malformed> {
        with_preface(ANSWER, &self.fields()?)
    }
}

/// Appends fields that are passed on.
pub(super) fn put_unknown(unknown: &[UnknownField], out: &mut Vec<u8>) {
    for field in unknown {
        fields::put(field.kind, &field.value, out);
    }
}

/// Takes the first bytes off a value.
pub(super) fn take<'a, const N: usize>(value: &mut &'a [u8]) -> Result<&'a [u8; N], Malformed> {
    let (first, rest) = value.split_first_chunk().ok_or(Malformed("a field is too short"))?;
    *value = rest;
    Ok(first)
}

/// The same of as many bytes as a byte before them says.
pub(super) fn take_counted<'a>(value: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let [length] = *take::<1>(value)?;
    let (first, rest) = value
        .split_at_checked(length.into())
        .ok_or(Malformed("a name is longer than its field"))?;
    *value = rest;
    Ok(first)
}

/// A value that is text.
pub(super) fn text(value: &[u8]) -> Result<&str, Malformed> {
    str::from_utf8(value).map_err(|_| Malformed("a text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_refused_at_the_first_wrong_byte() {
        for bad in [
            &b"G"[..],
            b"\xb1L\x53M",
            b"\xb1LSL\x02",
            b"\xb1LSL\x01\x00",
            b"\xb1LSL\x01\x04",
            b"\xb1LSL\x01\x01\x40\x01",
            b"\xb1LSL\x01\x01\xff\xff",
            b"\xb1LSL\x01\x01\x00\x00",
            b"\xb1LSL\x01\x03\x00\x00",
            b"\xb1LSL\x01\x03\x00\x04\x01\x00\x01\x00",
        ] {
            assert!(Header::parse(bad).is_err(), "{bad:?}");
        }
        for early in [&b""[..], b"\xb1", b"\xb1LSL", b"\xb1LSL\x01\x02", b"\xb1LSL\x01\x01\x40\x00"]
        {
            assert_eq!(Header::parse(early), Ok(None), "{early:?}");
        }
    }

    #[test]
    fn header_lacks_what_its_length_says() {
        let header = b"\xb1LSL\x01\x02\x01\x02";
        for known in 0..PREFACE {
            assert_eq!(Header::missing(&header[..known]), PREFACE - known);
        }
        let mut bytes = header.to_vec();
        assert_eq!(Header::missing(&bytes), 258);
        bytes.extend([0; 257]);
        assert_eq!(Header::missing(&bytes), 1);
        bytes.extend([0; 9]);
        assert_eq!(Header::missing(&bytes), 0);
    }
}
