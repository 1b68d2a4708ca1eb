// SPDX-License-Identifier: GPL-2.0-or-later
//! State with which one end continues a session in another process: under 1 KB for one direction.

use protocol::session::{Position, SessionId, SessionKey, handshake::WholeDigest};

/// First bytes of the state: a name, and the version of the format.
const MAGIC: &[u8; 4] = b"lhs\x02";

/// The state of a session to store. Anyone who has it can continue the session: store it in a file that only
/// its owner can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The session's name.
    pub session: SessionId,
    /// Its key.
    pub key: SessionKey,
    /// The further digest on which the ends have agreed.
    pub digest: Option<WholeDigest>,
    /// Position of the bytes that were received and stored safely.
    pub received: Position,
}

/// The bytes are not a session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the state of a session, or of another version of longhaul")]
pub struct StateError;

impl State {
    /// As it is kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        let digest = [self.digest.map_or(0, WholeDigest::number)];
        let (key, received) = (self.key.as_bytes(), self.received.to_bytes());
        [&MAGIC[..], &self.session.0, key, &digest, &received].concat()
    }

    /// Reads what was kept.
    ///
    /// # Errors
    /// It is not a state.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(StateError)?;
        let (session, rest) = rest.split_first_chunk().ok_or(StateError)?;
        let (key, rest) = rest.split_first_chunk().ok_or(StateError)?;
        let ([digest], rest) = rest.split_first_chunk().ok_or(StateError)?;
        let digest = match digest {
            0 => None,
            number => Some(WholeDigest::of_number(*number).ok_or(StateError)?),
        };
        let received = Position::parse(rest).map_err(|_| StateError)?;
        let (session, key) = (SessionId(*session), SessionKey::from_bytes(*key));
        Ok(Self { session, key, digest, received })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::session::MAX_STREAM;

    #[test]
    fn state_is_read_as_it_was_kept_and_under_1_kb() {
        let (session, key) = (SessionId([1; 16]), SessionKey::from_bytes([2; 32]));
        let received = Position { offset: MAX_STREAM, values: vec![[3; 32]; 30] };
        let state = State { session, key, digest: Some(WholeDigest::Md5), received };
        let bytes = state.to_bytes();
        assert!(bytes.len() < 1024, "{}", bytes.len());
        for length in 0..bytes.len() {
            assert_eq!(State::from_bytes(&bytes[..length]), Err(StateError));
        }
        assert_eq!(State::from_bytes(&bytes).as_ref(), Ok(&state));
        let without = State { digest: None, ..state };
        assert_eq!(State::from_bytes(&without.to_bytes()), Ok(without));
    }
}
