// SPDX-License-Identifier: GPL-2.0-or-later
//! Digests of bodies, as fields of HTTP carry them. Nothing is hashed here.
//!
//! Read and written: `Content-Digest` and `Repr-Digest` (RFC 9530). Read only, because servers in
//! use send them: `Digest` (RFC 3230) and `Content-MD5` (RFC 2616, section 14.15). `Content-Digest`
//! is of the bytes of this message; all others are of the whole thing asked for, so they are of
//! this message's bytes only where those are the whole thing.

use crate::http::{Fields, Framing, Method, RequestHead, ResponseHead};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderName, HeaderValue, StatusCode, header};
use sfv::{BareItem, Dictionary, ListEntry, Parser};
use std::fmt;

/// In trailers and heads: of the bytes of this message.
pub static CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// Field with the digest of the whole representation (RFC 9530).
pub static REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// Between two depots: how the digest is made that follows a body, so that the next one can hash what passes.
pub(crate) static LONGHAUL_DIGEST: HeaderName = HeaderName::from_static("longhaul-digest");
static WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");
static DIGEST: HeaderName = HeaderName::from_static("digest");
static CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// Hash algorithms, weakest first. MD5 detects accidental damage, not deliberate changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are their own")]
pub enum Algorithm {
    Md5,
    Sha256,
    Sha512,
}

impl Algorithm {
    /// All of them, the strongest first.
    pub const ALL: [Self; 3] = [Self::Sha512, Self::Sha256, Self::Md5];

    /// The key in the IANA registry of hash algorithms for HTTP digest fields.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha256 => "sha-256",
            Self::Sha512 => "sha-512",
        }
    }

    /// How many bytes a digest has.
    pub const fn length(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// A digest of the length that its algorithm gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    algorithm: Algorithm,
    bytes: Vec<u8>,
}

impl Digest {
    /// A digest of these bytes; nothing where their number is not that of the algorithm.
    pub fn new(algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
        (bytes.len() == algorithm.length()).then(|| Self { algorithm, bytes: bytes.to_vec() })
    }

    /// How it was made.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digest itself.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// As the value of `Content-Digest` or `Repr-Digest`.
    pub fn to_value(&self) -> HeaderValue {
        let text = format!("{}=:{}:", self.algorithm, STANDARD.encode(&self.bytes));
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

impl fmt::Display for Digest {
    /// `sha-256:` and the bytes in hexadecimal, as `sha256sum` prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm)?;
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Algorithm of the digest that follows this body: the one that the next depot names, or SHA-256 if a
/// digest is announced without an algorithm.
pub fn announced(headers: &Fields) -> Option<Algorithm> {
    let said = headers.get(&LONGHAUL_DIGEST).and_then(|value| value.to_str().ok());
    let known = said.and_then(|said| Algorithm::ALL.into_iter().find(|a| a.key() == said));
    known.or_else(|| follows(headers).then_some(Algorithm::Sha256))
}

/// Algorithms with which to hash a body whose digest is announced, so that it can be checked. If the
/// announcement names no algorithm, these are the algorithms in use.
pub fn candidates(headers: &Fields) -> Vec<Algorithm> {
    match announced(headers) {
        Some(_) if headers.get(&LONGHAUL_DIGEST).is_none() => {
            vec![Algorithm::Sha256, Algorithm::Sha512]
        }
        said => Vec::from_iter(said),
    }
}

/// Whether a digest is announced as a trailer.
pub(crate) fn follows(headers: &Fields) -> bool {
    let digests = [&CONTENT_DIGEST, &REPR_DIGEST];
    digests.iter().any(|digest| headers.lists(&header::TRAILER, digest.as_str()))
}

/// The strongest digest in `fields` that is of the bytes of this answer's body.
///
/// `fields` are the head's or, when the body has ended, its trailers.
pub fn of_response(head: &ResponseHead, request: &RequestHead, fields: &Fields) -> Option<Digest> {
    let no_body = request.method == Method::Head
        || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if no_body {
        return None;
    }
    // An answer to anything else, or with another status, may hold something else than the whole.
    of_body(fields, request.method == Method::Get && head.status == StatusCode::OK)
}

/// The strongest digest in `fields` (the head's, or the trailers) of the bytes of this request's
/// body. Only PUT brings the whole of something (RFC 9530, section 3; without `Content-Range`).
pub fn of_request(head: &RequestHead, fields: &Fields) -> Option<Digest> {
    if head.framing() == Framing::Empty {
        return None;
    }
    let whole = head.method == Method::Put && !head.headers.contains(&header::CONTENT_RANGE);
    of_body(fields, whole)
}

/// The strongest digest of the body's bytes; `whole`: which are the whole of something.
fn of_body(fields: &Fields, whole: bool) -> Option<Digest> {
    let mut known = dictionary(fields, &CONTENT_DIGEST);
    if whole {
        known.extend(dictionary(fields, &REPR_DIGEST));
        known.extend(legacy(fields));
        known.extend(content_md5(fields));
    }
    // The first of the strongest: Content-Digest before the others.
    known.into_iter().rev().max_by_key(Digest::algorithm)
}

/// The algorithm that is wanted most (`Want-Repr-Digest`, RFC 9530, section 4), of those known
/// here; of two that are wanted alike the stronger.
pub fn wanted(headers: &Fields) -> Option<Algorithm> {
    let wants = structured(headers, &WANT_REPR_DIGEST);
    let weight = |algorithm: &Algorithm| match wants.get(algorithm.key()) {
        Some(ListEntry::Item(item)) => match &item.bare_item {
            BareItem::Integer(weight) => i64::from(*weight),
            _ => 0,
        },
        _ => 0,
    };
    let wanted = Algorithm::ALL.into_iter().filter(|a| (1..=10).contains(&weight(a)));
    wanted.max_by_key(|algorithm| (weight(algorithm), *algorithm))
}

/// The digests of a field of RFC 9530.
fn dictionary(fields: &Fields, name: &HeaderName) -> Vec<Digest> {
    let members = structured(fields, name);
    let read = |algorithm: Algorithm| match members.get(algorithm.key())? {
        ListEntry::Item(item) => match &item.bare_item {
            BareItem::ByteSequence(bytes) => Digest::new(algorithm, bytes),
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    };
    Algorithm::ALL.into_iter().filter_map(read).collect()
}

/// A field that is a structured dictionary (RFC 9651, section 3.2). As section 4.2 says, its lines
/// are one value, and one that does not parse is as if it were not there.
fn structured(fields: &Fields, name: &HeaderName) -> Dictionary {
    let value = fields.joined(name);
    if value.is_empty() {
        return Dictionary::default();
    }
    Parser::new(&value).parse().unwrap_or_default()
}

/// The digests of `Digest` (RFC 3230): `algorithm=base64`, names in any case.
fn legacy(fields: &Fields) -> Vec<Digest> {
    let read = |member: &str| {
        let (name, value) = member.split_once('=')?;
        let mut known = Algorithm::ALL.into_iter();
        let algorithm = known.find(|algorithm| algorithm.key().eq_ignore_ascii_case(name))?;
        Digest::new(algorithm, &STANDARD.decode(value).ok()?)
    };
    fields.members(&DIGEST).filter_map(read).collect()
}

fn content_md5(fields: &Fields) -> Option<Digest> {
    let value = fields.get(&CONTENT_MD5)?;
    Digest::new(Algorithm::Md5, &STANDARD.decode(value.as_bytes()).ok()?)
}
