// SPDX-License-Identifier: GPL-2.0-or-later
//! A token's header, which must not choose how the token is checked (RFC 8725, section 3.1).
//!
//! It is held to the one algorithm, and to the depot's own keys, before any key is looked at. Members that mean nothing
//! here are ignored (RFC 7515, section 4), except for those that would bring a key, extend the format or change what the
//! claims are: a checker that heeded one of these would accept other tickets than this one.

use super::TicketError;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// The one algorithm of tickets, as a token's header names it.
pub(super) const ALGORITHM: &str = "EdDSA";

const BRINGS_A_KEY: &str =
    "which brings or names a key: depots use the keys of their operators alone";
const EXTENDS: &str = "which asks for extensions that are not known here";
const ENCRYPTED: &str = "which is for encrypted or compressed tokens";
const NESTED: &str = "which says that it carries something else than claims";

/// Members that no ticket's header has, and why (`docs/protocol.md`, 3.6).
const REFUSED: [(&str, &str); 15] = [
    ("jwk", BRINGS_A_KEY),
    ("jku", BRINGS_A_KEY),
    ("jwks", BRINGS_A_KEY),
    ("jwks_uri", BRINGS_A_KEY),
    ("x5c", BRINGS_A_KEY),
    ("x5u", BRINGS_A_KEY),
    ("x5t", BRINGS_A_KEY),
    ("x5t#s256", BRINGS_A_KEY),
    ("epk", BRINGS_A_KEY),
    ("trust_chain", BRINGS_A_KEY),
    ("crit", EXTENDS),
    ("b64", EXTENDS),
    ("enc", ENCRYPTED),
    ("zip", ENCRYPTED),
    ("cty", NESTED),
];

/// The relevant members of a token's header.
pub(super) struct TokenHeader {
    /// The name of the key.
    pub kid: Option<String>,
    /// The kind of token (`typ`).
    pub kind: Option<String>,
}

impl TokenHeader {
    /// Reads the header of a token.
    ///
    /// # Errors
    /// It is none of a ticket.
    pub(super) fn read(token: &str) -> Result<Self, TicketError> {
        let malformed = |why: &str| TicketError::Malformed(why.to_owned());
        let (header, _) = token.split_once('.').ok_or_else(|| malformed("it has no parts"))?;
        let json =
            URL_SAFE_NO_PAD.decode(header).map_err(|_| malformed("its header is not base64url"))?;
        let is_none = || malformed("its header is not a token's");
        let Members(members) = serde_json::from_slice(&json).map_err(|_| is_none())?;
        let text = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(is_none()),
        };
        let alg = text("alg")?.ok_or_else(is_none)?;
        if alg != ALGORITHM {
            return Err(TicketError::Algorithm(alg.chars().take(32).collect()));
        }
        for name in members.keys() {
            let found = REFUSED.iter().find(|(refused, _)| name.eq_ignore_ascii_case(refused));
            if let Some((_, why)) = found {
                return Err(TicketError::Malformed(format!("its header has {name:?}, {why}")));
            }
        }
        Ok(Self { kid: text("kid")?, kind: text("typ").ok().flatten() })
    }
}

/// The members of an object, each of which may be there once: two programs may read the same text differently otherwise.
struct Members(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is there twice"));
            }
        }
        Ok(Members(members))
    }
}
