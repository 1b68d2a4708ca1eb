// SPDX-License-Identifier: GPL-2.0-or-later
//! The key of a session, and what is proved with it (docs/lsl.md, section 6).

use crate::session::{SessionId, fields::Malformed};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use std::fmt;

/// The context of BLAKE3's key derivation (rule 6.2).
const CONTEXT: &str = "longhaul lsl 1 session key";

/// One end's half of the agreement.
pub struct KeyPair {
    private: PrivateKey,
    /// The public key to send to the other end.
    pub public: [u8; 32],
}

/// The key of a session, which proves that an end is the one that was there at the beginning.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; 32]);

impl KeyPair {
    /// A pair of these random bytes, which are for this one alone.
    pub fn from_random(random: [u8; 32]) -> Self {
        let private =
            PrivateKey::from_private_key(&X25519, &random).expect("any 32 bytes are a key");
        let public = private.compute_public_key().expect("a private key has a public one");
        let public = public.as_ref().try_into().expect("of 32 bytes");
        Self { private, public }
    }

    /// The key that both ends come to. `publics` are those of the initiator and of the acceptor.
    ///
    /// # Errors
    /// The other end's key is one that would lead anybody to the same secret.
    pub(super) fn agree(
        &self,
        other: &[u8; 32],
        session: SessionId,
        publics: [&[u8; 32]; 2],
        secret: &[u8],
    ) -> Result<SessionKey, Malformed> {
        let weak = Malformed("the public key is not usable");
        let other = UnparsedPublicKey::new(&X25519, other);
        agree(&self.private, other, weak, |shared| {
            let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
            hasher.update(shared).update(&session.0).update(publics[0]).update(publics[1]);
            hasher.update(secret);
            Ok(SessionKey(hasher.finalize().into()))
        })
    }
}

impl SessionKey {
    /// A key as it was kept.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key. Store it where no other user can read it.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The proof of `parts` (rule 6.3).
    pub(super) fn proof(&self, label: &str, parts: &[&[u8]]) -> [u8; 32] {
        self.hash(label, parts).into()
    }

    /// Whether this is the proof of `parts`, in a time that does not tell where it differs.
    pub(super) fn proves(&self, proof: &[u8; 32], label: &str, parts: &[&[u8]]) -> bool {
        self.hash(label, parts) == *proof
    }

    fn hash(&self, label: &str, parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(label.as_bytes());
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}

impl fmt::Debug for SessionKey {
    /// Omits the key: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPair")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> [u8; 32] {
        let byte = |n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap();
        std::array::from_fn(byte)
    }

    /// RFC 7748, section 6.1.
    #[test]
    fn public_keys_are_those_of_rfc_7748() {
        let alice = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
        let bob = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
        for (private, public) in [
            (alice, "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"),
            (bob, "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"),
        ] {
            assert_eq!(KeyPair::from_random(bytes(private)).public, bytes(public));
        }
    }

    #[test]
    fn both_ends_derive_the_same_key_and_a_third_does_not() {
        let [one, two, three] = [1, 2, 3].map(|n| KeyPair::from_random([n; 32]));
        let publics = [&one.public, &two.public];
        let key = one.agree(&two.public, SessionId([7; 16]), publics, b"code").unwrap();
        assert_eq!(key, two.agree(&one.public, SessionId([7; 16]), publics, b"code").unwrap());
        assert_ne!(key, three.agree(&one.public, SessionId([7; 16]), publics, b"code").unwrap());
        assert_ne!(key, two.agree(&one.public, SessionId([7; 16]), publics, b"node").unwrap());
        assert_ne!(key, two.agree(&one.public, SessionId([8; 16]), publics, b"code").unwrap());
        let proof = key.proof("fin", &[b"ab", b"c"]);
        assert!(key.proves(&proof, "fin", &[b"abc"]));
        assert!(!key.proves(&proof, "done", &[b"abc"]));
    }

    #[test]
    fn key_of_small_order_is_refused() {
        let pair = KeyPair::from_random([1; 32]);
        // The points of order 1 and 2 lead to an all-zero secret, whatever the private key.
        for weak in [[0; 32], std::array::from_fn(|n| u8::from(n == 0))] {
            assert!(pair.agree(&weak, SessionId([0; 16]), [&pair.public, &weak], b"").is_err());
        }
    }
}
