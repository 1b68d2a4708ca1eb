// SPDX-License-Identifier: GPL-2.0-or-later
//! The fields of a head, or of trailers.

use super::MAX_FIELDS;
use bytes::BytesMut;
use http::{HeaderName, HeaderValue};

/// Fields in the order in which they came.
///
/// Heads have ten or twenty, and never more than [`MAX_FIELDS`]: looking through all of them takes less
/// than to have them hashed, and keeps their order for the next reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(HeaderName, HeaderValue)>);

impl Fields {
    /// None.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Copies what a parser has found. The values are parts of one copy.
    pub(super) fn parsed(fields: &[httparse::Header<'_>]) -> Result<Self, String> {
        let length = fields.iter().map(|field| field.value.len()).sum();
        let mut values = BytesMut::with_capacity(length);
        for field in fields {
            values.extend_from_slice(field.value);
        }
        let mut values = values.freeze();
        let mut all = Vec::with_capacity(fields.len());
        for field in fields {
            let bad = || format!("the field \"{}\" is malformed", field.name.escape_default());
            let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| bad())?;
            let value = values.split_to(field.value.len());
            let value = HeaderValue::from_maybe_shared(value).map_err(|_| bad())?;
            all.push((name, value));
        }
        Ok(Self(all))
    }

    /// Adds one behind the others.
    pub fn append(&mut self, name: HeaderName, value: HeaderValue) {
        debug_assert!(self.0.len() <= MAX_FIELDS, "more than a few are added to what came");
        self.0.push((name, value));
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.get_all(name).next()
    }

    /// The values of all fields of this name.
    pub fn get_all(&self, name: &HeaderName) -> impl Iterator<Item = &HeaderValue> {
        self.0.iter().filter(move |(its, _)| its == name).map(|(_, value)| value)
    }

    /// The members of a list field (RFC 9110, section 5.6.1), of all its lines, except members that
    /// are not text.
    pub(crate) fn members(&self, name: &HeaderName) -> impl Iterator<Item = &str> {
        let lines = self.get_all(name).map(HeaderValue::as_bytes);
        let members = lines.flat_map(|line| line.split(|b| *b == b','));
        members.filter_map(|member| std::str::from_utf8(member).ok()).map(trim)
    }

    /// Whether a list field has this token as a member, in any case.
    pub(crate) fn lists(&self, name: &HeaderName, token: &str) -> bool {
        self.members(name).any(|member| member.eq_ignore_ascii_case(token))
    }

    /// The lines of a field as one value (RFC 9110, section 5.3).
    pub(crate) fn joined(&self, name: &HeaderName) -> Vec<u8> {
        let lines: Vec<&[u8]> = self.get_all(name).map(HeaderValue::as_bytes).collect();
        lines.join(&b", "[..])
    }

    /// Whether there is a field of this name.
    pub fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for Fields {
    fn from_iter<T: IntoIterator<Item = (HeaderName, HeaderValue)>>(fields: T) -> Self {
        Self(fields.into_iter().collect())
    }
}

/// Takes off the white space that RFC 9110 allows around values, and no other.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// A character of a token (RFC 9110, section 5.6.2).
pub(super) fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT, HOST, VIA};

    #[test]
    fn fields_stay_in_order_whatever_they_are_called() {
        let parsed = [("VIA", "a"), ("Host", "h"), ("via", "b"), ("X-Own", "")];
        let parsed = parsed.map(|(name, value)| httparse::Header { name, value: value.as_bytes() });
        let fields = Fields::parsed(&parsed).unwrap();
        let names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["via", "host", "via", "x-own"]);
        assert_eq!(fields.get(&HOST).unwrap(), "h");
        assert_eq!(fields.get(&VIA).unwrap(), "a");
        assert_eq!(fields.get_all(&VIA).collect::<Vec<_>>(), ["a", "b"]);
        assert!(fields.contains(&HOST) && !fields.contains(&ACCEPT));
        let bad = [httparse::Header { name: "a b", value: b"" }];
        assert!(Fields::parsed(&bad).unwrap_err().contains("a b"));
    }
}
