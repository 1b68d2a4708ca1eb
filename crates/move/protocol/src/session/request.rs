// SPDX-License-Identifier: GPL-2.0-or-later
//! What is asked of a depot that keeps sessions (docs/lsl.md, section 13): a signed note in HELLO, notes in WELCOME, and lines.
//!
//! A signature is for one session and one key of HELLO. Only who has that key's private half can send CONFIRM, so a note that
//! was recorded on its way asks for nothing. Owner and collector are Ed25519 public keys (RFC 8032); a depot has no secret that
//! opens a session.
//! Limits: a request has at most [`MAX_REQUEST`] bytes, unknown keys are refused.

use crate::session::{SessionId, tree::MAX_STREAM};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The longest request, in bytes of JSON.
pub const MAX_REQUEST: usize = 2048;

/// What precedes all that is signed.
const CONTEXT: &[u8] = b"longhaul lsl 1 store request";
const SIGNATURE: usize = 64;
const PUBLIC_KEY: usize = 32;

/// The public half of an Ed25519 key, as text 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey(pub [u8; PUBLIC_KEY]);

/// An Ed25519 key that signs requests.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// What a client asks of a depot's store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The initiator's stream is to be kept under the session's name.
    Leave {
        /// The key that may collect it, as its owner may.
        collector: PublicKey,
        /// Its length, if it is known: all of it is reserved at the beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// How long it stays, in seconds.
        life_s: u64,
    },
    /// The acceptor's stream is to be a kept session's.
    Collect {
        /// Which one.
        session: SessionId,
        /// From this byte on.
        from: u64,
    },
    /// The acceptor's stream is to be a [`StoredSession`] for each session of the signer.
    List {
        /// Only those whose names are greater.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<SessionId>,
    },
    /// A session is to stay until so long from now.
    Extend {
        /// Which one.
        session: SessionId,
        /// How long, in seconds.
        life_s: u64,
    },
    /// A session is to be removed.
    Drop {
        /// Which one.
        session: SessionId,
    },
}

/// A request, and the key that has signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// What is asked for.
    pub request: Request,
    /// By which key.
    pub signer: PublicKey,
}

/// The note in WELCOME of a session that is left or collected. Unknown keys are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its length; absent while it arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// When it ends, in seconds since 1970.
    pub expires_s: u64,
}

/// A line of the answer to list, extend and drop. Unknown keys are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSession {
    /// Its name.
    pub session: SessionId,
    /// Bytes that the depot has and keeps after a crash.
    pub bytes: u64,
    /// Bytes that it may have.
    pub reserved: u64,
    /// Whether it has its last byte.
    pub complete: bool,
    /// When it began, in seconds since 1970.
    pub created_s: u64,
    /// When it ends, in seconds since 1970; for one that was dropped: when that was.
    pub expires_s: u64,
    /// What is wrong with it, absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// Why a note is not a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It has not even a signature and a key.
    #[error("the request to the store is not signed")]
    Unsigned,
    /// The signature is not by that key, or for another session or HELLO.
    #[error("the signature of the request is wrong, or for another session")]
    Signature,
    /// It is longer than [`MAX_REQUEST`].
    #[error("the request has more than {MAX_REQUEST} bytes")]
    TooLong,
    /// It is not one of the requests.
    #[error("the request is malformed: {0}")]
    Malformed(String),
}

/// The text is not a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits")]
pub struct PublicKeyError;

impl SigningKey {
    /// The key of these bytes, which are random or derived from a code, and secret.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are a seed");
        let public = pair.public_key().as_ref().try_into().expect("of 32 bytes");
        Self { pair, public: PublicKey(public) }
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// It is too long, malformed, or has an unknown key or an impossible length.
    pub fn parse(json: &[u8]) -> Result<Self, RequestError> {
        if json.len() > MAX_REQUEST {
            return Err(RequestError::TooLong);
        }
        let malformed = |error: serde_json::Error| {
            RequestError::Malformed(units::text::Escaped(&error.to_string()).to_string())
        };
        let request = serde_json::from_slice(json).map_err(malformed)?;
        let length = match &request {
            Self::Leave { bytes, .. } => bytes.unwrap_or_default(),
            Self::Collect { from, .. } => *from,
            Self::List { .. } | Self::Extend { .. } | Self::Drop { .. } => 0,
        };
        if length > MAX_STREAM {
            return Err(RequestError::Malformed("no session is that long".to_owned()));
        }
        Ok(request)
    }

    /// As it is signed.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and numbers")
    }

    /// The note of HELLO: `session` is that of OPEN, and `hello` the key in HELLO.
    pub fn note(&self, signer: &SigningKey, session: SessionId, hello: &[u8; 32]) -> Vec<u8> {
        let json = self.to_json();
        let text = signed_text(session, hello, &signer.public, &json);
        [signer.pair.sign(&text).as_ref(), &signer.public.0, &json].concat()
    }

    /// The session that it is about, which for [`Self::Leave`] is that of OPEN; `None` for [`Self::List`].
    pub fn about(&self, session: SessionId) -> Option<SessionId> {
        match self {
            Self::Leave { .. } => Some(session),
            Self::Collect { session, .. }
            | Self::Extend { session, .. }
            | Self::Drop { session } => Some(*session),
            Self::List { .. } => None,
        }
    }

    /// Its word in `do`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Leave { .. } => "leave",
            Self::Collect { .. } => "collect",
            Self::List { .. } => "list",
            Self::Extend { .. } => "extend",
            Self::Drop { .. } => "drop",
        }
    }
}

impl Signed {
    /// Reads the note of a HELLO of `session` with the key `hello`. Whether its sender has the private half of that key shows
    /// in CONFIRM: nothing is to be done before.
    ///
    /// # Errors
    /// It is not a request, or its signature is wrong.
    pub fn verify(note: &[u8], session: SessionId, hello: &[u8; 32]) -> Result<Self, RequestError> {
        let (signature, rest) =
            note.split_first_chunk::<SIGNATURE>().ok_or(RequestError::Unsigned)?;
        let (public, json) =
            rest.split_first_chunk::<PUBLIC_KEY>().ok_or(RequestError::Unsigned)?;
        if json.len() > MAX_REQUEST {
            return Err(RequestError::TooLong);
        }
        let signer = PublicKey(*public);
        let text = signed_text(session, hello, &signer, json);
        let key = UnparsedPublicKey::new(&ED25519, public);
        key.verify(&text, signature).map_err(|_| RequestError::Signature)?;
        Ok(Self { request: Request::parse(json)?, signer })
    }
}

fn signed_text(session: SessionId, hello: &[u8; 32], signer: &PublicKey, json: &[u8]) -> Vec<u8> {
    [CONTEXT, &session.0, hello, &signer.0, json].concat()
}

impl Kept {
    /// Reads a note of WELCOME; `None` if it is not one.
    pub fn parse(note: &[u8]) -> Option<Self> {
        serde_json::from_slice(note).ok()
    }

    /// As it travels.
    pub fn to_json(self) -> Vec<u8> {
        serde_json::to_vec(&self).expect("numbers")
    }
}

impl StoredSession {
    /// The line, with its end.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("names, numbers and a text");
        line.push(b'\n');
        line
    }

    /// Reads a line.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(line: &[u8]) -> Result<Self, RequestError> {
        let malformed = |error: serde_json::Error| {
            RequestError::Malformed(units::text::Escaped(&error.to_string()).to_string())
        };
        serde_json::from_slice(line).map_err(malformed)
    }
}

impl fmt::Display for PublicKey {
    /// 64 digits in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SigningKey {
    /// Omits the secret half: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public)
    }
}

impl FromStr for PublicKey {
    type Err = PublicKeyError;
    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        let digits: [u8; 2 * PUBLIC_KEY] =
            text.as_bytes().try_into().map_err(|_| PublicKeyError)?;
        let mut bytes = [0; PUBLIC_KEY];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(PublicKeyError);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for PublicKey {
    type Error = PublicKeyError;
    fn try_from(text: String) -> Result<Self, PublicKeyError> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId([1; 16]);
    const HELLO: [u8; 32] = [2; 32];

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
    }

    fn requests() -> [Request; 6] {
        let collector = PublicKey([0xab; 32]);
        [
            Request::Leave { collector, bytes: Some(1 << 40), life_s: 86_400 },
            Request::Leave { collector, bytes: None, life_s: 1 },
            Request::Collect { session: SESSION, from: 5 },
            Request::List { after: None },
            Request::Extend { session: SESSION, life_s: 7 },
            Request::Drop { session: SESSION },
        ]
    }

    /// RFC 8032, section 7.1, tests 1 and 2.
    #[test]
    fn keys_and_signatures_are_those_of_rfc_8032() {
        let key = SigningKey::from_seed(&bytes(
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        ));
        assert_eq!(
            key.public().to_string(),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
        let key = SigningKey::from_seed(&bytes(
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        ));
        let expected: [u8; 64] = bytes(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        );
        assert_eq!(key.pair.sign(&[0x72]).as_ref(), expected);
    }

    #[test]
    fn requests_are_printed_and_read_the_same() {
        let key = SigningKey::from_seed(&[9; 32]);
        for request in requests() {
            let json = request.to_json();
            assert_eq!(Request::parse(&json).as_ref(), Ok(&request));
            let text = String::from_utf8(json).unwrap();
            assert!(text.starts_with(&format!("{{\"do\":\"{}\"", request.name())), "{text}");
            let note = request.note(&key, SESSION, &HELLO);
            let signed = Signed::verify(&note, SESSION, &HELLO).unwrap();
            assert_eq!(signed, Signed { request, signer: key.public() });
        }
        assert_eq!(
            String::from_utf8(requests()[1].to_json()).unwrap(),
            format!("{{\"do\":\"leave\",\"collector\":\"{}\",\"life_s\":1}}", "ab".repeat(32))
        );
    }

    #[test]
    fn signature_is_for_one_session_one_hello_and_one_text() {
        let key = SigningKey::from_seed(&[9; 32]);
        let note = requests()[2].note(&key, SESSION, &HELLO);
        let wrong = Err(RequestError::Signature);
        assert_eq!(Signed::verify(&note, SessionId([3; 16]), &HELLO), wrong);
        assert_eq!(Signed::verify(&note, SESSION, &[3; 32]), wrong);
        for at in 0..note.len() {
            let mut changed = note.clone();
            changed[at] ^= 1;
            assert_eq!(Signed::verify(&changed, SESSION, &HELLO), wrong, "byte {at}");
        }
        for cut in 0..note.len() {
            assert!(Signed::verify(&note[..cut], SESSION, &HELLO).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn requests_that_are_not_exactly_one_are_refused() {
        let session = SESSION.to_string();
        for (json, why) in [
            ("", "EOF"),
            ("[]", "malformed"),
            ("{}", "do"),
            (r#"{"do":"read"}"#, "unknown variant"),
            (r#"{"do":"list","all":true}"#, "unknown field"),
            (r#"{"do":"list","do":"list"}"#, "duplicate"),
            (r#"{"do":"drop"}"#, "missing field"),
            (r#"{"do":"drop","session":"00"}"#, "32 hexadecimal"),
            (&*format!(r#"{{"do":"collect","session":"{session}","from":-1}}"#), "invalid"),
            (
                &*format!(r#"{{"do":"collect","session":"{session}","from":140737488355329}}"#),
                "long",
            ),
            (&*format!(r#"{{"do":"extend","session":"{session}","life_s":1.5}}"#), "invalid"),
            (r#"{"do":"leave","collector":"ab","life_s":1}"#, "64 hexadecimal"),
            (r#"{"do":"list"} x"#, "trailing"),
        ] {
            let error = Request::parse(json.as_bytes()).expect_err(json).to_string();
            assert!(error.contains(why), "{json}: {error}, not {why}");
        }
        let long = format!("{:<2049}", r#"{"do":"list"}"#);
        assert_eq!(Request::parse(long.as_bytes()), Err(RequestError::TooLong));
        // Control characters of a stranger do not reach a terminal.
        let error = Request::parse(b"{\"do\":\"\\u001b[2J\"}").unwrap_err().to_string();
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }

    #[test]
    fn answers_are_printed_and_read_the_same() {
        for bytes in [None, Some(7)] {
            let kept = Kept { bytes, expires_s: 9 };
            assert_eq!(Kept::parse(&kept.to_json()), Some(kept));
        }
        assert_eq!(Kept::parse(b"x"), None);
        let line = StoredSession {
            session: SESSION,
            bytes: 1,
            reserved: 2,
            complete: false,
            created_s: 3,
            expires_s: 4,
            damage: Some("the file is too short".to_owned()),
        };
        let text = line.to_line();
        assert_eq!((StoredSession::parse(&text), text.last()), (Ok(line), Some(&b'\n')));
    }

    #[test]
    fn public_keys_are_64_digits() {
        let text = "0123456789abcdef".repeat(4);
        assert_eq!(text.parse::<PublicKey>().unwrap().to_string(), text);
        assert!(text.to_uppercase().parse::<PublicKey>().is_ok());
        for bad in [&text[1..], &format!("{text}0"), &text.replace('0', "g"), ""] {
            assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
        }
    }
}
