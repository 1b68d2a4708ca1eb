// SPDX-License-Identifier: GPL-2.0-or-later
//! How a session begins, and how it continues on another connection (docs/lsl.md, sections 6 and 7).
//!
//! ```text
//! initiator [`Greeting`]  HELLO   ──▶  [`Hello`]
//!                         ◀── WELCOME  [`Welcoming`]
//!                         CONFIRM ──▶                 both have the key
//! initiator [`Attaching`] ATTACH  ──▶  [`Attach`]
//!                         ◀── ATTACHED [`Reattaching`]
//!                         CONFIRM ──▶
//! ```

use crate::session::{
    Position, SessionId,
    fields::{Field, Malformed, put, read},
    key::{KeyPair, SessionKey},
    record::{EndCode, MAX_HANDSHAKE},
    scheduler::MAX_LANES,
};
use std::{fmt, str::FromStr};

/// BLAKE3 in groups of 256 KiB: the one encoding so far.
const ENCODING: u8 = 1;
/// The longest note, in bytes.
pub const MAX_NOTE: usize = 4096;
/// How far an initiator may send before it has WELCOME (rule 6.5).
pub const EARLY_LIMIT: u64 = 16 << 20;

const SESSION: u8 = 1;
const ENCODINGS: u8 = 2;
const KEY: u8 = 3;
const NONCE: u8 = 4;
const LIMIT: u8 = 5;
const NOTE: u8 = 6;
const DIGEST: u8 = 7;
const POSITION: u8 = 8;
const SECRET: u8 = 9;
const JOIN: u8 = 10;
const CONNECTIONS: u8 = 128;
/// The last of all types: what precedes it is what is proved.
const PROOF: u8 = 255;
/// Length of a payload's last field: its header and the proof.
const PROOF_FIELD: usize = 3 + 32;

/// A digest of the whole that both ends also make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum WholeDigest {
    Sha256,
    Md5,
}

/// The text names no digest that can be agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected sha256 or md5")]
pub struct UnknownDigest;

impl WholeDigest {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Md5];

    /// Its name on command lines and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Md5 => "md5",
        }
    }

    /// Its number in HELLO.
    pub const fn number(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Md5 => 2,
        }
    }

    /// The digest of this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|digest| digest.number() == number)
    }
}

impl fmt::Display for WholeDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WholeDigest {
    type Err = UnknownDigest;
    fn from_str(text: &str) -> Result<Self, UnknownDigest> {
        Self::ALL.into_iter().find(|digest| digest.name() == text).ok_or(UnknownDigest)
    }
}

/// Settings that an end announces in its handshake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// How far it takes data.
    pub limit: u64,
    /// For the application at the other end.
    pub note: Vec<u8>,
}

/// Why a handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// A message breaks the rules.
    #[error("the other end's handshake is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// It does not know an encoding that is known here.
    #[error("the two ends know no common encoding of the data")]
    Encoding,
    /// It does not have the key, or another secret.
    #[error(
        "the other end cannot prove that it is the right one: a wrong code, or not the end of this session"
    )]
    Proof,
    /// The session has begun with another further digest.
    #[error("this session has begun, with another digest of the whole")]
    OtherDigest,
    /// A secret is required.
    #[error("the other end has no code, and this session requires one")]
    NoSecret,
}

impl HandshakeError {
    /// The code to send to the other end.
    pub fn code(self) -> EndCode {
        match self {
            Self::Malformed(_) | Self::Encoding => EndCode::Malformed,
            Self::Proof | Self::NoSecret => EndCode::WrongProof,
            Self::OtherDigest => EndCode::NoRoom,
        }
    }
}

/// The state that both ends share after a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The session's key.
    pub key: SessionKey,
    /// The other end's settings.
    pub terms: Terms,
    /// What it has received.
    pub position: Position,
    /// How many connections the session may have at once.
    pub connections: u8,
}

/// The initiator of a new session.
#[derive(Debug)]
pub struct Greeting {
    session: SessionId,
    pair: KeyPair,
    secret: Vec<u8>,
    hello: Vec<u8>,
}

impl Greeting {
    /// Begins; `random` is for this session alone, and `secret` empty if there is none.
    pub fn new(
        session: SessionId,
        random: [u8; 32],
        secret: &[u8],
        terms: &Terms,
        digest: Option<WholeDigest>,
    ) -> Self {
        let pair = KeyPair::from_random(random);
        let mut hello = Vec::new();
        put(SESSION, &session.0, &mut hello);
        put(ENCODINGS, &[ENCODING], &mut hello);
        put(KEY, &pair.public, &mut hello);
        put_terms(terms, &mut hello);
        if let Some(digest) = digest {
            put(DIGEST, &[digest.number()], &mut hello);
        }
        if !secret.is_empty() {
            put(SECRET, &[1], &mut hello);
        }
        Self { session, pair, secret: secret.to_vec(), hello }
    }

    /// Asks for this many connections at once; 1 is what there is without asking.
    #[must_use]
    pub fn with_connections(mut self, connections: u8) -> Self {
        put_connections(connections, &mut self.hello);
        self
    }

    /// The payload of HELLO.
    pub fn hello(&self) -> &[u8] {
        &self.hello
    }

    /// Reads WELCOME; with the payload of CONFIRM.
    ///
    /// # Errors
    /// It is malformed, or its proof is wrong.
    pub fn welcomed(&self, welcome: &[u8]) -> Result<(Agreed, Vec<u8>), HandshakeError> {
        let fields = Fields::read(welcome, &[ENCODINGS, KEY, LIMIT, NOTE, POSITION, PROOF])?;
        if fields.required(ENCODINGS)?.value != [ENCODING] {
            return Err(HandshakeError::Encoding);
        }
        let other = fields.required(KEY)?.array()?;
        let publics = [&self.pair.public, &other];
        let key = self.pair.agree(&other, self.session, publics, &self.secret)?;
        let (proof, unproved) = fields.proof(welcome)?;
        if !key.proves(&proof, "welcome", &[&self.hello, unproved]) {
            return Err(HandshakeError::Proof);
        }
        let confirm = confirm(&key, &self.hello, welcome);
        let (terms, position, connections) =
            (fields.terms()?, fields.position()?, fields.connections()?);
        Ok((Agreed { key, terms, position, connections }, confirm))
    }
}

/// HELLO, as its acceptor reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The session's name.
    pub session: SessionId,
    /// The initiator's settings.
    pub terms: Terms,
    /// The further digest that it wants.
    pub digest: Option<WholeDigest>,
    /// How many connections at once WELCOME grants; never more than HELLO asks for.
    connections: u8,
    key: [u8; 32],
    has_secret: bool,
    payload: Vec<u8>,
}

impl Hello {
    /// Reads it.
    ///
    /// # Errors
    /// It is malformed, or names no known encoding.
    pub fn parse(payload: &[u8]) -> Result<Self, HandshakeError> {
        let known = [SESSION, ENCODINGS, KEY, LIMIT, NOTE, DIGEST, SECRET];
        let fields = Fields::read(payload, &known)?;
        if !fields.required(ENCODINGS)?.value.contains(&ENCODING) {
            return Err(HandshakeError::Encoding);
        }
        let unknown = Malformed("the digest is unknown");
        let digest = match fields.get(DIGEST).map(|field| field.value) {
            None => None,
            Some(&[number]) => Some(WholeDigest::of_number(number).ok_or(unknown)?),
            Some(_) => return Err(unknown.into()),
        };
        let has_secret = match fields.get(SECRET).map(|field| field.value) {
            None => false,
            Some([1]) => true,
            Some(_) => return Err(Malformed("the field secret is not 1").into()),
        };
        Ok(Self {
            session: SessionId(fields.required(SESSION)?.array()?),
            terms: fields.terms()?,
            digest,
            connections: fields.connections()?,
            key: fields.required(KEY)?.array()?,
            has_secret,
            payload: payload.to_vec(),
        })
    }

    /// Grants at most this many connections at once.
    #[must_use]
    pub fn granting(mut self, most: u8) -> Self {
        self.connections = self.connections.min(most);
        self
    }

    /// Its initiator's public key, whose private half it proves to have in CONFIRM.
    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// Whether the initiator has a secret.
    pub fn has_secret(&self) -> bool {
        self.has_secret
    }

    /// Answers with what was received already; `random` is for this session alone, and `secret` what
    /// the initiator has to have, or empty.
    ///
    /// # Errors
    /// The initiator's key is not usable, or it has no secret and one is required, or the other way round.
    pub fn welcome(
        &self,
        random: [u8; 32],
        secret: &[u8],
        terms: &Terms,
        position: &Position,
    ) -> Result<Welcoming, HandshakeError> {
        if self.has_secret == secret.is_empty() {
            return Err(HandshakeError::NoSecret);
        }
        let pair = KeyPair::from_random(random);
        let key = pair.agree(&self.key, self.session, [&self.key, &pair.public], secret)?;
        let mut payload = Vec::new();
        put(ENCODINGS, &[ENCODING], &mut payload);
        put(KEY, &pair.public, &mut payload);
        put_terms(terms, &mut payload);
        put_position(position, &mut payload);
        put_connections(self.connections, &mut payload);
        let proof = key.proof("welcome", &[&self.payload, &payload]);
        put(PROOF, &proof, &mut payload);
        let (expected, connections) = (confirm(&key, &self.payload, &payload), self.connections);
        Ok(Welcoming { key, payload, connections, expected })
    }
}

/// An acceptor that awaits the initiator's proof.
#[derive(Debug)]
pub struct Welcoming {
    key: SessionKey,
    /// The payload of WELCOME or ATTACHED.
    pub payload: Vec<u8>,
    /// How many connections at once it grants.
    pub connections: u8,
    expected: Vec<u8>,
}

impl Welcoming {
    /// The session's key, which the initiator has not proved to have yet.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Reads CONFIRM.
    ///
    /// # Errors
    /// It is malformed, or its proof is wrong.
    pub fn confirmed(&self, confirm: &[u8]) -> Result<(), HandshakeError> {
        let given = Fields::read(confirm, &[PROOF])?.required(PROOF)?.array::<32>()?;
        let expected = self.expected[3..].try_into().expect("a proof has 32 bytes");
        // As hashes: those compare in a time that does not depend on where they differ.
        if blake3::Hash::from_bytes(given) == blake3::Hash::from_bytes(expected) {
            Ok(())
        } else {
            Err(HandshakeError::Proof)
        }
    }
}

/// The initiator of a session that continues.
#[derive(Debug)]
pub struct Attaching {
    key: SessionKey,
    attach: Vec<u8>,
}

/// What a further connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachPurpose {
    /// It replaces those before it. The session may have this many at once from then on.
    Continue(u8),
    /// It is used at the same time as those that there are.
    Join,
}

impl Attaching {
    /// Begins, to replace the connection before; `nonce` is random.
    pub fn new(
        key: &SessionKey,
        session: SessionId,
        nonce: [u8; 32],
        limit: u64,
        position: &Position,
    ) -> Self {
        Self::to(AttachPurpose::Continue(1), key, session, nonce, limit, position)
    }

    /// Begins; `nonce` is random. A connection that joins has no position.
    pub fn to(
        purpose: AttachPurpose,
        key: &SessionKey,
        session: SessionId,
        nonce: [u8; 32],
        limit: u64,
        position: &Position,
    ) -> Self {
        let mut attach = Vec::new();
        put(SESSION, &session.0, &mut attach);
        put_again(nonce, limit, position, &mut attach);
        match purpose {
            AttachPurpose::Continue(connections) => put_connections(connections, &mut attach),
            AttachPurpose::Join => put(JOIN, &[1], &mut attach),
        }
        let proof = key.proof("attach", &[&attach]);
        put(PROOF, &proof, &mut attach);
        Self { key: key.clone(), attach }
    }

    /// The payload of ATTACH.
    pub fn attach(&self) -> &[u8] {
        &self.attach
    }

    /// Reads ATTACHED: the acceptor's limit and position, and the payload of CONFIRM.
    ///
    /// # Errors
    /// It is malformed, or its proof is wrong.
    pub fn attached(&self, attached: &[u8]) -> Result<(u64, Position, Vec<u8>), HandshakeError> {
        let fields = Fields::read(attached, &[NONCE, LIMIT, POSITION, PROOF])?;
        fields.required(NONCE)?.array::<32>()?;
        fields.connections()?;
        let (proof, unproved) = fields.proof(attached)?;
        if !self.key.proves(&proof, "attached", &[&self.attach, unproved]) {
            return Err(HandshakeError::Proof);
        }
        let confirm = confirm(&self.key, &self.attach, attached);
        Ok((fields.terms()?.limit, fields.position()?, confirm))
    }
}

/// How many connections at once ATTACHED grants, which was found to be proved.
pub fn granted_connections(attached: &[u8]) -> u8 {
    let fields = Fields::read(attached, &[NONCE, LIMIT, POSITION, PROOF]);
    fields.and_then(|fields| fields.connections()).unwrap_or(1)
}

/// ATTACH, as an acceptor reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// The session's name, which decides whose key counts.
    pub session: SessionId,
    /// How far the initiator takes data.
    pub limit: u64,
    /// What it has received.
    pub position: Position,
    /// What the connection is for; the number of connections at once is what ATTACHED grants.
    pub purpose: AttachPurpose,
    payload: Vec<u8>,
}

impl Attach {
    /// Reads it, without a look at its proof.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(payload: &[u8]) -> Result<Self, HandshakeError> {
        let fields = Fields::read(payload, &[SESSION, NONCE, LIMIT, POSITION, JOIN, PROOF])?;
        fields.required(NONCE)?.array::<32>()?;
        fields.proof(payload)?;
        let purpose = match fields.get(JOIN).map(|field| field.value) {
            None => AttachPurpose::Continue(fields.connections()?),
            Some([1]) => AttachPurpose::Join,
            Some(_) => return Err(Malformed("the field join is not 1").into()),
        };
        Ok(Self {
            session: SessionId(fields.required(SESSION)?.array()?),
            limit: fields.terms()?.limit,
            position: fields.position()?,
            purpose,
            payload: payload.to_vec(),
        })
    }

    /// Grants at most this many connections at once.
    #[must_use]
    pub fn granting(mut self, most: u8) -> Self {
        if let AttachPurpose::Continue(connections) = &mut self.purpose {
            *connections = (*connections).min(most);
        }
        self
    }

    /// Whether it is of an initiator that has this key.
    pub fn is_by(&self, key: &SessionKey) -> bool {
        let (unproved, proof) = self.payload.split_at(self.payload.len() - PROOF_FIELD);
        let proof = proof[3..].try_into().expect("a proof has 32 bytes");
        key.proves(&proof, "attach", &[unproved])
    }

    /// Checks that the initiator has the key, and answers.
    ///
    /// # Errors
    /// It does not.
    pub fn attached(
        &self,
        key: &SessionKey,
        nonce: [u8; 32],
        limit: u64,
        position: &Position,
    ) -> Result<Welcoming, HandshakeError> {
        if !self.is_by(key) {
            return Err(HandshakeError::Proof);
        }
        let mut payload = Vec::new();
        put_again(nonce, limit, position, &mut payload);
        let connections = match self.purpose {
            AttachPurpose::Continue(connections) => connections,
            AttachPurpose::Join => 1,
        };
        put_connections(connections, &mut payload);
        let proof = key.proof("attached", &[&self.payload, &payload]);
        put(PROOF, &proof, &mut payload);
        let expected = confirm(key, &self.payload, &payload);
        Ok(Welcoming { key: key.clone(), expected, payload, connections })
    }
}

fn confirm(key: &SessionKey, first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put(PROOF, &key.proof("confirm", &[first, second]), &mut out);
    out
}

fn put_terms(terms: &Terms, out: &mut Vec<u8>) {
    put(LIMIT, &terms.limit.to_be_bytes(), out);
    if !terms.note.is_empty() {
        put(NOTE, &terms.note[..terms.note.len().min(MAX_NOTE)], out);
    }
}

fn put_again(nonce: [u8; 32], limit: u64, position: &Position, out: &mut Vec<u8>) {
    put(NONCE, &nonce, out);
    put(LIMIT, &limit.to_be_bytes(), out);
    put_position(position, out);
}

/// One connection is what there is without the field.
fn put_connections(connections: u8, out: &mut Vec<u8>) {
    if connections > 1 {
        put(CONNECTIONS, &[connections], out);
    }
}

fn put_position(position: &Position, out: &mut Vec<u8>) {
    put(POSITION, &position.to_bytes(), out);
}

/// The fields of a handshake's record.
struct Fields<'a>(Vec<Field<'a>>);

impl<'a> Fields<'a> {
    fn read(payload: &'a [u8], known: &[u8]) -> Result<Self, Malformed> {
        if payload.len() > MAX_HANDSHAKE {
            return Err(Malformed("a handshake is too long"));
        }
        read(payload, |kind| known.contains(&kind), |_| false).map(Self)
    }

    fn get(&self, kind: u8) -> Option<&Field<'a>> {
        self.0.iter().find(|field| field.kind == kind)
    }

    fn required(&self, kind: u8) -> Result<&Field<'a>, Malformed> {
        self.get(kind).ok_or(Malformed("a required field is missing"))
    }

    fn terms(&self) -> Result<Terms, Malformed> {
        let limit = u64::from_be_bytes(self.required(LIMIT)?.array()?);
        let note = self.get(NOTE).map_or(&[][..], |field| field.value);
        if note.len() > MAX_NOTE {
            return Err(Malformed("the note is too long"));
        }
        Ok(Terms { limit, note: note.to_vec() })
    }

    fn connections(&self) -> Result<u8, Malformed> {
        match self.get(CONNECTIONS).map(|field| field.value) {
            None => Ok(1),
            Some(&[connections]) if (2..=MAX_LANES).contains(&connections.into()) => {
                Ok(connections)
            }
            Some(_) => Err(Malformed("a session has 2 to 16 connections at once")),
        }
    }

    fn position(&self) -> Result<Position, Malformed> {
        Position::parse(self.required(POSITION)?.value)
    }

    /// The proof, which is the last field, and what precedes it.
    fn proof(&self, payload: &'a [u8]) -> Result<([u8; 32], &'a [u8]), Malformed> {
        let last = self.0.last().filter(|field| field.kind == PROOF);
        let proof = last.ok_or(Malformed("the proof is not the last field"))?.array()?;
        Ok((proof, &payload[..payload.len() - PROOF_FIELD]))
    }
}
