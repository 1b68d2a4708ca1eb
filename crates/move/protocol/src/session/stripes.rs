// SPDX-License-Identifier: GPL-2.0-or-later
//! One hop of a session over several connections: what two depots say to each other for it (docs/lsl.md, rules 4.4 to 4.9).

use crate::session::{
    Malformed, fields,
    header::{take, with_preface},
    open::MAX_STREAMS,
};

const TOKEN: u8 = 1;
/// The kind of a JOIN's header.
pub(super) const KIND: u8 = 3;

/// Unguessable token that lets further connections join one direction of a hop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JoinToken(pub [u8; 16]);

impl std::fmt::Debug for JoinToken {
    /// Omits the token: debug output may reach logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinToken")
    }
}

/// The connections that a depot grants for one hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striped {
    /// The most connections of each direction, with the first.
    pub streams: u8,
    /// For those that carry bytes towards the acceptor.
    pub onward: JoinToken,
    /// For those that carry bytes towards the initiator.
    pub back: JoinToken,
}

impl Striped {
    pub(super) fn read(mut value: &[u8]) -> Result<Self, Malformed> {
        let streams = streams(*take::<1>(&mut value)?)?;
        let [onward, back] = [*take(&mut value)?, *take(&mut value)?].map(JoinToken);
        if value.is_empty() {
            Ok(Self { streams, onward, back })
        } else {
            Err(Malformed("a field is too long"))
        }
    }

    pub(super) fn value(&self) -> Vec<u8> {
        [&[self.streams], &self.onward.0[..], &self.back.0].concat()
    }
}

impl JoinToken {
    /// The header of a connection that joins.
    pub fn to_join(self) -> Vec<u8> {
        let mut out = Vec::new();
        fields::put(TOKEN, &self.0, &mut out);
        with_preface(KIND, &out).expect("it is short")
    }

    pub(super) fn read_join(bytes: &[u8]) -> Result<Self, Malformed> {
        let all = fields::read(bytes, |kind| kind == TOKEN, |_| false)?;
        let token = all.iter().find(|field| field.kind == TOKEN);
        Ok(Self(token.ok_or(Malformed("JOIN has no token"))?.array()?))
    }
}

/// How many connections a hop may use, where that is more than one.
pub(super) fn streams([streams]: [u8; 1]) -> Result<u8, Malformed> {
    if (2..=MAX_STREAMS).contains(&streams) {
        Ok(streams)
    } else {
        Err(Malformed("the number of connections is not 2 to 16"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Header;

    #[test]
    fn join_is_printed_and_read_the_same() {
        let token = JoinToken([0x5a; 16]);
        let bytes = token.to_join();
        assert_eq!(Header::parse(&bytes), Ok(Some((Header::Join(token), bytes.len()))));
        assert!(Header::parse_open(&bytes).is_err() && Header::parse_answer(&bytes).is_err());
        assert_eq!(format!("{token:?}"), "JoinToken", "debug output must not contain the token");
    }
}
