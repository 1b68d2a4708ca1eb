// SPDX-License-Identifier: GPL-2.0-or-later
//! Keys: one that signs, and those that are trusted.

use super::{
    LEEWAY_S, Ticket, TicketError, UnixTime,
    claims::Claims,
    header::{ALGORITHM, TokenHeader},
    pem,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation,
    errors::ErrorKind,
    jwk::{Jwk, ThumbprintHash},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt};

/// Why a text is not a key: an error in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No private key that can sign.
    #[error(
        "no Ed25519 private key: expected a PEM block PRIVATE KEY (PKCS #8), as \
         `openssl genpkey -algorithm ed25519` writes it"
    )]
    Private,
    /// Nothing that holds public keys.
    #[error("no public key: expected a JWK Set, a JWK, or a PEM block PUBLIC KEY: {0}")]
    Public(String),
    /// A private key where a public one belongs.
    #[error(
        "a private key stands among the public keys: remove it and make a new one, \
         because anyone who has read this file can sign with it"
    )]
    Secret,
    /// One key is not what it says.
    #[error("the key {kid}: {reason}")]
    Key {
        /// Its `kid`, or its place in the set.
        kid: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// There are some, and none that could have signed a ticket.
    #[error("no key for tickets among the {0} in the set: expected kty OKP, crv Ed25519")]
    None(usize),
}

/// A private key that signs tickets.
#[derive(Clone)]
pub struct Signer {
    seed: [u8; 32],
    public: [u8; 32],
    kid: String,
}

impl Signer {
    /// A new key of 32 random bytes, which must stay secret. Its `kid` is its thumbprint
    /// (RFC 7638), so it need not be stored with the key.
    ///
    /// # Errors
    /// The cryptographic library cannot use the bytes.
    pub fn from_seed(seed: [u8; 32]) -> Result<Self, KeyError> {
        let key = EncodingKey::from_ed_der(&pem::private_der(&seed));
        let jwk = Jwk::from_encoding_key(&key, Algorithm::EdDSA).map_err(|_| KeyError::Private)?;
        let public = serde_json::to_value(&jwk).ok().and_then(|jwk| public_bytes(&jwk));
        let public = public.ok_or(KeyError::Private)?;
        Ok(Self { seed, public, kid: thumbprint(&public)? })
    }

    /// Reads a PEM file.
    ///
    /// # Errors
    /// The text holds no Ed25519 private key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        Self::from_seed(pem::read_private(text).ok_or(KeyError::Private)?)
    }

    /// The private key as a PEM file.
    pub fn to_pem(&self) -> String {
        pem::print_private(&self.seed)
    }

    /// The public key as a PEM file.
    pub fn public_pem(&self) -> String {
        pem::print_public(&self.public)
    }

    /// The public key as a JWK Set, which depots are given.
    pub fn public_set(&self) -> String {
        print_set(&[self.public_jwk()])
    }

    /// The same with the keys of another JWK Set, or JWK, before it: both are trusted then.
    ///
    /// # Errors
    /// The other text is none of these, holds a private key, or this key already.
    pub fn public_set_with(&self, others: &str) -> Result<String, KeyError> {
        let mut keys = read_list(others)?;
        keys.push(self.public_jwk());
        let set = print_set(&keys);
        KeySet::parse(&set)?;
        Ok(set)
    }

    fn public_jwk(&self) -> Value {
        json!({
            "kty": "OKP", "crv": "Ed25519", "alg": ALGORITHM, "use": "sig", "kid": self.kid,
            "x": URL_SAFE_NO_PAD.encode(self.public),
        })
    }

    /// By which name the key is looked up.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The same key under another name.
    #[must_use]
    pub fn named(self, kid: &str) -> Self {
        Self { kid: kid.to_owned(), ..self }
    }

    /// A token of another kind than a ticket, under this name of the key; none if the library fails.
    pub(crate) fn sign_as(&self, kind: &str, kid: &str, claims: &impl Serialize) -> Option<String> {
        let (typ, kid) = (Some(kind.to_owned()), Some(kid.to_owned()));
        let header = Header { typ, kid, ..Header::new(Algorithm::EdDSA) };
        let key = EncodingKey::from_ed_der(&pem::private_der(&self.seed));
        jsonwebtoken::encode(&header, claims, &key).ok()
    }

    /// Signs a ticket. Returns the token for the URL.
    ///
    /// # Errors
    /// The ticket says what no ticket may.
    pub fn sign(&self, ticket: &Ticket) -> Result<String, TicketError> {
        ticket.check()?;
        let header = Header { kid: Some(self.kid.clone()), ..Header::new(Algorithm::EdDSA) };
        let key = EncodingKey::from_ed_der(&pem::private_der(&self.seed));
        jsonwebtoken::encode(&header, &ticket.to_claims(), &key)
            .map_err(|error| TicketError::Malformed(error.to_string()))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// The keys that are trusted, by `kid`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    keys: BTreeMap<String, [u8; 32]>,
}

/// A ticket whose signature is good and whose time it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// What it says.
    pub ticket: Ticket,
    /// The `kid` of the key that signed it.
    pub key: String,
}

/// The claims of a token whose signature is not verified. Only for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified {
    /// What it says.
    pub ticket: Ticket,
    /// The `kid` of the key that it says signed it.
    pub key: Option<String>,
}

impl Unverified {
    /// Reads a token without asking who signed it.
    ///
    /// # Errors
    /// It is not a ticket.
    pub fn read(token: &str) -> Result<Self, TicketError> {
        let key = TokenHeader::read(token)?.kid;
        let malformed = |why: &str| TicketError::Malformed(why.to_owned());
        let claims = token.split('.').nth(1).ok_or_else(|| malformed("it has no claims"))?;
        let claims = URL_SAFE_NO_PAD
            .decode(claims)
            .map_err(|_| malformed("its claims are not base64url"))?;
        let claims: Claims = serde_json::from_slice(&claims)
            .map_err(|error| TicketError::Malformed(format!("its claims: {error}")))?;
        Ok(Self { ticket: claims.try_into()?, key })
    }
}

impl KeySet {
    /// Reads a JWK Set, one JWK, or one public key in PEM. Keys of other kinds are passed over; one
    /// without a `kid` is known by its thumbprint. An empty set is valid and trusts no signer.
    ///
    /// # Errors
    /// The text is none of these, has no key for tickets, or holds a private key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if text.contains("PRIVATE KEY-----") {
            return Err(KeyError::Secret);
        }
        if text.contains("-----BEGIN") {
            let reason = || KeyError::Public("the PEM block holds no Ed25519 key".to_owned());
            let key = pem::read_public(text).ok_or_else(reason)?;
            return Ok(Self { keys: BTreeMap::from([(thumbprint(&key)?, key)]) });
        }
        let list = read_list(text)?;
        let mut keys = BTreeMap::new();
        for (at, jwk) in list.iter().enumerate() {
            let Some((kid, key)) = read_jwk(jwk, at)? else { continue };
            if keys.insert(kid.clone(), key).is_some() {
                return Err(KeyError::Key { kid, reason: "its kid occurs twice" });
            }
        }
        // An empty set means that no signer is trusted. A set with only other kinds of keys is a mistake.
        if keys.is_empty() && !list.is_empty() {
            return Err(KeyError::None(list.len()));
        }
        Ok(Self { keys })
    }

    /// Whether there is a key of this name.
    pub fn has(&self, kid: &str) -> bool {
        self.keys.contains_key(kid)
    }

    /// The names of the keys, in order.
    pub fn kids(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Reads a token, if a trusted key signed it and its time is now.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn verify(&self, token: &str, now: UnixTime) -> Result<Verified, TicketError> {
        let verified = self.verify_signature(token)?;
        let ticket = &verified.ticket;
        let id = || ticket.id.clone();
        if let Some(from) = ticket.not_before.filter(|from| now.plus(LEEWAY_S) < *from) {
            return Err(TicketError::NotYet { id: id(), from, now });
        }
        if ticket.expires.plus(LEEWAY_S) < now {
            return Err(TicketError::Expired { id: id(), at: ticket.expires, now });
        }
        Ok(verified)
    }

    /// Reads a token that a trusted key signed, whatever its time: to show it.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn verify_signature(&self, token: &str) -> Result<Verified, TicketError> {
        let header = TokenHeader::read(token)?;
        let (kid, key) = match &header.kid {
            Some(kid) => {
                let short = || TicketError::UnknownKey(kid.chars().take(128).collect());
                self.keys.get_key_value(kid).ok_or_else(short)?
            }
            None if self.keys.len() == 1 => {
                self.keys.iter().next().ok_or(TicketError::NoKeyNamed)?
            }
            None => return Err(TicketError::NoKeyNamed),
        };
        let token = decode::<Claims>(token, key);
        let claims = token.map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => TicketError::Altered(kid.clone()),
            ErrorKind::InvalidAudience => TicketError::Claims {
                id: "(of unknown name)".to_owned(),
                reason: "it has an audience (aud), which is not a depot".to_owned(),
            },
            ErrorKind::Json(error) => TicketError::Claims {
                id: "(of unknown name)".to_owned(),
                reason: error.to_string(),
            },
            _ => TicketError::Malformed(error.to_string()),
        })?;
        Ok(Verified { ticket: claims.try_into()?, key: kid.clone() })
    }

    /// The claims of a token of another kind, if the key of this name has signed it.
    pub(crate) fn verified_claims<T: DeserializeOwned>(&self, token: &str, kid: &str) -> Option<T> {
        decode(token, self.keys.get(kid)?).ok()
    }

    /// The claims without verification of the signature.
    pub(crate) fn unverified_claims<T: DeserializeOwned>(token: &str) -> Option<T> {
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        serde_json::from_slice(&claims).ok()
    }

    /// The kind that a token's header says, and the name of its key; none if it is no such header.
    pub(crate) fn kind_and_key(token: &str) -> Option<(Option<String>, Option<String>)> {
        let TokenHeader { kid, kind } = TokenHeader::read(token).ok()?;
        Some((kind, kid))
    }
}

/// The claims of a token that this key has signed. The time is the caller's to know. A token with an audience (`aud`) is for another
/// recipient.
fn decode<T: DeserializeOwned>(
    token: &str,
    key: &[u8; 32],
) -> Result<T, jsonwebtoken::errors::Error> {
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.validate_exp = false;
    validation.required_spec_claims.clear();
    let token = jsonwebtoken::decode::<T>(token, &DecodingKey::from_ed_der(key), &validation)?;
    Ok(token.claims)
}

/// The keys of a JWK Set, or one JWK, of whatever kind.
fn read_list(text: &str) -> Result<Vec<Value>, KeyError> {
    let json: Value =
        serde_json::from_str(text).map_err(|error| KeyError::Public(error.to_string()))?;
    match json.get("keys") {
        Some(Value::Array(list)) => Ok(list.clone()),
        Some(_) => Err(KeyError::Public("\"keys\" is not a list".to_owned())),
        None => Ok(vec![json]),
    }
}

fn print_set(keys: &[Value]) -> String {
    format!("{:#}\n", json!({ "keys": keys }))
}

/// One key of a set: nothing where it is not for tickets.
fn read_jwk(jwk: &Value, at: usize) -> Result<Option<(String, [u8; 32])>, KeyError> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let is_ours = (text("kty"), text("crv")) == (Some("OKP"), Some("Ed25519"));
    // Of RSA and curves the private part is `d`, of symmetric keys all there is is `k`.
    if jwk.get("d").is_some() || jwk.get("k").is_some() {
        return Err(KeyError::Secret);
    }
    let for_signing = text("use").is_none_or(|usage| usage == "sig")
        && text("alg").is_none_or(|alg| [ALGORITHM, "Ed25519"].contains(&alg));
    if !is_ours || !for_signing {
        return Ok(None);
    }
    let name = text("kid").map_or_else(|| format!("number {}", at + 1), str::to_owned);
    let Some(key) = public_bytes(jwk) else {
        return Err(KeyError::Key { kid: name, reason: "its x is not 32 bytes in base64url" });
    };
    let kid = match text("kid") {
        Some(kid) => kid.to_owned(),
        None => thumbprint(&key)?,
    };
    Ok(Some((kid, key)))
}

/// The public key in a JWK.
fn public_bytes(jwk: &Value) -> Option<[u8; 32]> {
    let x = jwk.get("x")?.as_str()?;
    URL_SAFE_NO_PAD.decode(x).ok()?.try_into().ok()
}

/// The name of a key that has no other: SHA-256 over its JWK (RFC 7638).
fn thumbprint(key: &[u8; 32]) -> Result<String, KeyError> {
    let jwk = Jwk::from_decoding_key(&DecodingKey::from_ed_der(key), Some(Algorithm::EdDSA));
    jwk.and_then(|jwk| jwk.thumbprint(ThumbprintHash::SHA256))
        .map_err(|error| KeyError::Public(error.to_string()))
}
