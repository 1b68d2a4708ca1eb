// SPDX-License-Identifier: GPL-2.0-or-later
//! A session's name: 16 random bytes, as text 32 hexadecimal digits.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A session's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(pub [u8; 16]);

/// The text is not a session's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a session's name: expected 32 hexadecimal digits")]
pub struct SessionIdError(String);

impl fmt::Display for SessionId {
    /// 32 digits in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SessionId {
    type Err = SessionIdError;
    fn from_str(text: &str) -> Result<Self, SessionIdError> {
        let bad = || SessionIdError(text.to_owned());
        // The number's own parser would take "+1" too.
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| bad())?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl TryFrom<String> for SessionId {
    type Error = SessionIdError;
    fn try_from(text: String) -> Result<Self, SessionIdError> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_read_and_printed() {
        let text = "000102030405060708090a0b0c0d0eff";
        let id: SessionId = text.parse().unwrap();
        assert_eq!((id.0[0], id.0[15], id.to_string().as_str()), (0, 255, text));
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
        for bad in ["", "00", &text[1..], &format!("+{}", &text[1..]), &format!("{text}0")] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }
}
