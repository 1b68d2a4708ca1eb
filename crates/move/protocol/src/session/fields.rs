// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists of fields: type, length, value (docs/lsl.md, rules 1.2 to 1.4).

/// From this type on, fields that are unknown are ignored.
const IGNORABLE: u8 = 128;

/// Why a message of the session protocol cannot be read. The text says what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub(super) &'static str);

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub kind: u8,
    pub value: &'a [u8],
}

impl Field<'_> {
    /// The value, if it has exactly `N` bytes.
    pub(super) fn array<const N: usize>(&self) -> Result<[u8; N], Malformed> {
        self.value.try_into().map_err(|_| Malformed("a field has the wrong length"))
    }
}

/// Reads a list of fields. `repeated` says which types may occur more than once, `known` which are known;
/// the unknown ones that may be ignored are in the result.
pub(super) fn read(
    mut bytes: &[u8],
    known: impl Fn(u8) -> bool,
    repeated: impl Fn(u8) -> bool,
) -> Result<Vec<Field<'_>>, Malformed> {
    let mut fields = Vec::new();
    let mut last = None;
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_first_chunk::<3>().ok_or(Malformed("a field is cut off"))?;
        let [kind, high, low] = *head;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (value, rest) =
            rest.split_at_checked(length).ok_or(Malformed("a field's value is cut off"))?;
        if last > Some(kind) {
            return Err(Malformed("fields are not in the order of their types"));
        }
        if last == Some(kind) && !repeated(kind) {
            return Err(Malformed("a field occurs twice"));
        }
        if kind < IGNORABLE && !known(kind) {
            return Err(Malformed("a field is unknown that must not be ignored"));
        }
        fields.push(Field { kind, value });
        (last, bytes) = (Some(kind), rest);
    }
    Ok(fields)
}

/// Appends a field.
///
/// # Panics
/// The value is longer than 65 535 bytes: callers bound what they send.
pub(super) fn put(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(value.len()).expect("a field has at most 65 535 bytes");
    out.push(kind);
    out.extend(length.to_be_bytes());
    out.extend(value);
}

/// The longest beginning of `text` of at most `most` bytes that ends at a character boundary.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=text.len().min(most)).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Result<Vec<(u8, usize)>, Malformed> {
        let fields = read(bytes, |kind| kind < 8, |kind| kind == 2)?;
        Ok(fields.iter().map(|field| (field.kind, field.value.len())).collect())
    }

    #[test]
    fn fields_are_read_in_order_and_unknown_ones_by_type() {
        let mut out = Vec::new();
        for (kind, value) in [(1, "a"), (2, "bb"), (2, ""), (200, "zz"), (201, "z")] {
            put(kind, value.as_bytes(), &mut out);
        }
        assert_eq!(read_all(&out), Ok(vec![(1, 1), (2, 2), (2, 0), (200, 2), (201, 1)]));
        for (bad, why) in [
            (&b"\x01\x00"[..], "cut off"),
            (b"\x01\x00\x02a", "cut off"),
            (b"\x02\x00\x00\x01\x00\x00", "order"),
            (b"\x01\x00\x00\x01\x00\x00", "twice"),
            (b"\xc8\x00\x00\xc8\x00\x00", "twice"),
            (b"\x09\x00\x00", "unknown"),
        ] {
            let error = read_all(bad).expect_err("it is malformed").to_string();
            assert!(error.contains(why), "{bad:?}: {error}");
        }
    }
}
