// SPDX-License-Identifier: GPL-2.0-or-later
//! The code by which two ends find and know each other: 80 random bits, as 16 letters and digits. That of a stored session has
//! 100 bits and 20 characters: what a depot keeps can be tried out for as long as it lives, and later.
//!
//! Both the session's name, which depots see, and the secret, which they do not, are derived from it. 80 bits cannot be
//! guessed, neither at a depot nor from the name, so no limit of attempts is needed.

use protocol::session::{SessionId, parcel::ParcelKeys};
use std::{fmt, str::FromStr};

/// Without letters that look like digits (Crockford's alphabet), in lower case.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// How many characters, in groups of four.
const LENGTH: usize = 16;
/// The same for a stored session.
const STORED_LENGTH: usize = 20;

/// A code.
#[derive(Clone, PartialEq, Eq)]
pub struct Code([u8; LENGTH]);

/// The code of a stored session.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredCode([u8; STORED_LENGTH]);

/// A code of either kind, which its length tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnyCode {
    /// Of two ends that are there at the same time.
    Meeting(Code),
    /// Of a stored session.
    Stored(StoredCode),
}

/// The text is not a code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not a code: expected 16 letters and digits, as in k3v9-x2mq-7f4t-pd8w, or 20 for a stored session"
)]
pub struct CodeError;

/// Characters of random bits: the last five bits are the first one's.
fn characters<const N: usize>(random: &[u8]) -> [u8; N] {
    let bits = random.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    std::array::from_fn(|n| ALPHABET[(bits >> (5 * n) & 31) as usize])
}

/// Reads `N` characters. Hyphens and spaces are ignored, and letters that look like digits are taken for those.
fn read<const N: usize>(text: &str) -> Result<[u8; N], CodeError> {
    let plain = text.chars().filter(|c| !matches!(c, '-' | ' '));
    let read = |c: char| match c.to_ascii_lowercase() {
        'o' => Some(b'0'),
        'i' | 'l' => Some(b'1'),
        c => u8::try_from(c).ok().filter(|c| ALPHABET.contains(c)),
    };
    let read: Option<Vec<u8>> = plain.take(N + 1).map(read).collect();
    read.and_then(|code| code.try_into().ok()).ok_or(CodeError)
}

/// In groups of four, with hyphens.
fn print(code: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let groups = code.chunks(4).map(|group| String::from_utf8_lossy(group));
    f.write_str(&groups.collect::<Vec<_>>().join("-"))
}

impl Code {
    /// A code of these random bytes.
    pub fn from_random(random: [u8; 10]) -> Self {
        Self(characters(&random))
    }

    /// The name of the session by which the ends meet at a depot.
    pub fn session(&self) -> SessionId {
        let hash = blake3::derive_key("longhaul lsl 1 meeting", &self.0);
        SessionId(*hash.first_chunk().expect("32 bytes"))
    }

    /// The secret that both ends need.
    pub fn secret(&self) -> Vec<u8> {
        blake3::derive_key("longhaul lsl 1 code", &self.0).to_vec()
    }
}

impl StoredCode {
    /// A code of these random bytes, of which it takes 100 bits.
    pub fn from_random(random: [u8; 13]) -> Self {
        Self(characters(&random))
    }

    /// What is derived from it.
    pub fn keys(&self) -> ParcelKeys {
        ParcelKeys::of_code(&self.0)
    }
}

impl FromStr for Code {
    type Err = CodeError;
    fn from_str(text: &str) -> Result<Self, CodeError> {
        read(text).map(Self)
    }
}

impl FromStr for StoredCode {
    type Err = CodeError;
    fn from_str(text: &str) -> Result<Self, CodeError> {
        read(text).map(Self)
    }
}

impl FromStr for AnyCode {
    type Err = CodeError;
    fn from_str(text: &str) -> Result<Self, CodeError> {
        text.parse().map(Self::Meeting).or_else(|_| text.parse().map(Self::Stored))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(&self.0, f)
    }
}

impl fmt::Display for StoredCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(&self.0, f)
    }
}

impl fmt::Debug for Code {
    /// Omits the code: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code")
    }
}

impl fmt::Debug for StoredCode {
    /// Omits the code: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredCode")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_people_write_them() {
        let code = Code::from_random([0, 1, 2, 3, 0xff, 5, 6, 7, 8, 9]);
        let text = code.to_string();
        assert_eq!((text.len(), text.matches('-').count()), (19, 3));
        let plain = text.replace('-', "");
        for written in [&text, &plain, &text.to_uppercase(), &text.replace('-', " ")] {
            assert_eq!(written.parse::<Code>(), Ok(code.clone()), "{written}");
        }
        assert_eq!("OIL0-0000-0000-0000".parse(), "0110000000000000".parse::<Code>());
        for bad in [
            "",
            &plain[1..],
            &format!("{plain}0"),
            "u3v9-x2mq-7f4t-pd8w",
            "\u{e9}".repeat(16).as_str(),
        ] {
            assert_eq!(bad.parse::<Code>(), Err(CodeError), "{bad}");
            assert_eq!(bad.parse::<AnyCode>(), Err(CodeError), "{bad}");
        }
        assert_ne!(code.secret()[..16], code.session().0);
    }

    #[test]
    fn every_bit_of_the_random_bytes_counts() {
        let codes: std::collections::HashSet<_> = (0..80)
            .map(|bit| {
                let mut random = [0; 10];
                random[bit / 8] = 1 << (bit % 8);
                Code::from_random(random).to_string()
            })
            .collect();
        assert_eq!(codes.len(), 80);
    }

    #[test]
    fn length_tells_the_kind_of_a_code() {
        let code = StoredCode::from_random([0xa5; 13]);
        let text = code.to_string();
        assert_eq!((text.len(), text.matches('-').count()), (24, 4));
        assert_eq!(text.to_uppercase().parse(), Ok(AnyCode::Stored(code)));
        assert!(text.parse::<Code>().is_err());
        let code = Code::from_random([0xa5; 10]);
        assert_eq!(code.to_string().parse(), Ok(AnyCode::Meeting(code)));
        for length in [15, 17, 19, 21] {
            assert!("7".repeat(length).parse::<AnyCode>().is_err(), "{length}");
        }
        // As docs/lsl.md, rule 14.1, has it.
        let code: StoredCode = "k3v9-x2mq-7f4t-pd8w-z0y1".parse().unwrap();
        assert_eq!(code.keys().session.to_string(), "e6d0a7e868d10b6da34b21520bdd3641");
    }

    #[test]
    fn every_bit_of_a_stored_code_counts() {
        let codes: std::collections::HashSet<_> = (4..104)
            .map(|bit| {
                let mut random = [0; 13];
                random[bit / 8] = 0x80 >> (bit % 8);
                StoredCode::from_random(random).to_string()
            })
            .collect();
        assert_eq!(codes.len(), 100);
    }
}
