// SPDX-License-Identifier: GPL-2.0-or-later
//! Records that no depot on the path can read (docs/lsl.md, section 12): Noise, with what both ends know already as
//! its pre-shared key.
//!
//! ```text
//! initiator [`Sealing`] HELLO or ATTACH in message 1 ──▶  [`SealedCall`]
//!                       ◀── message 2 with WELCOME, ATTACHED or END
//!           [`Sealer`], [`Opener`]  further messages in both directions  [`Sealer`], [`Opener`]
//! ```

mod primitives;

use crate::session::{
    SessionId, SessionKey,
    fields::Malformed,
    record::{MAX_SEALED, RECORD_HEAD, RecordHead, RecordKind, record},
};
use bytes::{Buf, BytesMut};
use primitives::{Primitives, TAG};
use snow::{Builder, HandshakeState, StatelessTransportState, params::NoiseParams};
use std::{fmt, sync::Arc};

/// The protocol of the messages.
const NOISE: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";
/// The contexts of BLAKE3's key derivation (rule 12.3).
const OF_SECRET: &str = "longhaul lsl 1 sealed beginning";
const OF_KEY: &str = "longhaul lsl 1 sealed continuation";
/// The most that one record seals.
const MOST: usize = MAX_SEALED - TAG;
/// Bytes of message 1 in addition to its payload.
const FIRST_OVERHEAD: usize = 1 + 32 + TAG;

/// How a sealed connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SealedStart {
    /// With HELLO: both ends have a secret.
    Hello = 1,
    /// With ATTACH: both ends have the session's key.
    Attach = 2,
}

/// A secret that both ends need.
#[derive(Clone)]
pub struct PreSharedKey([u8; 32]);

impl PreSharedKey {
    /// For the beginning of a session.
    pub fn of_secret(secret: &[u8]) -> Self {
        Self(blake3::derive_key(OF_SECRET, secret))
    }

    /// For its continuation.
    pub fn of_key(key: &SessionKey) -> Self {
        Self(blake3::derive_key(OF_KEY, key.as_bytes()))
    }

    /// The messages of this session, of either end.
    fn noise(&self, session: SessionId, random: [u8; 32], is_initiator: bool) -> HandshakeState {
        let params: NoiseParams = NOISE.parse().expect("a name that Noise has");
        let made = Builder::with_resolver(params, Box::new(Primitives(random)))
            .prologue(&session.0)
            .and_then(|builder| builder.psk(0, &self.0))
            .and_then(|builder| {
                if is_initiator { builder.build_initiator() } else { builder.build_responder() }
            });
        made.expect("everything that this protocol needs is there")
    }
}

impl fmt::Debug for PreSharedKey {
    /// Omits the key: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreSharedKey")
    }
}

/// It was not sealed with the key that this end has, or was changed.
const CANNOT_OPEN: Malformed = Malformed(
    "an encrypted message cannot be opened: it was changed on the way, or has another key",
);

/// An initiator that has sent message 1.
#[derive(Debug)]
pub struct Sealing {
    noise: HandshakeState,
}

impl Sealing {
    /// Seals HELLO or ATTACH, a whole record; `random` is for this connection alone. With the record to send.
    pub fn begin(
        session: SessionId,
        start: SealedStart,
        key: &PreSharedKey,
        random: [u8; 32],
        first: &[u8],
    ) -> (Self, Vec<u8>) {
        let mut noise = key.noise(session, random, true);
        let mut payload = vec![0; FIRST_OVERHEAD + first.len()];
        payload[0] = start as u8;
        let length = noise.write_message(first, &mut payload[1..]).expect("handshakes are short");
        debug_assert_eq!(length + 1, payload.len());
        (Self { noise }, record(RecordKind::Sealed, &payload))
    }

    /// Opens the answer; with the record that was in it.
    ///
    /// # Errors
    /// The other end does not have the key.
    pub fn answered(mut self, payload: &[u8]) -> Result<(Sealer, Opener, Vec<u8>), Malformed> {
        let record = read(&mut self.noise, payload)?;
        let (sealer, opener) = halves(self.noise);
        Ok((sealer, opener, record))
    }
}

/// Message 1, as received by the acceptor.
#[derive(Debug)]
pub struct SealedCall {
    noise: HandshakeState,
}

impl SealedCall {
    /// The pre-shared key for this message.
    ///
    /// # Errors
    /// It does not say.
    pub fn start(payload: &[u8]) -> Result<SealedStart, Malformed> {
        match payload.first() {
            Some(1) => Ok(SealedStart::Hello),
            Some(2) => Ok(SealedStart::Attach),
            _ => Err(Malformed("a sealed connection begins in an unknown way")),
        }
    }

    /// Opens it; `random` is for this connection alone. With the record that was in it.
    ///
    /// # Errors
    /// The initiator does not have the key.
    pub fn read(
        session: SessionId,
        key: &PreSharedKey,
        random: [u8; 32],
        payload: &[u8],
    ) -> Result<(Self, Vec<u8>), Malformed> {
        let mut noise = key.noise(session, random, false);
        let record = read(&mut noise, payload.get(1..).unwrap_or_default())?;
        Ok((Self { noise }, record))
    }

    /// Seals the answer, a whole record. With the record to send.
    pub fn answer(mut self, first: &[u8]) -> (Sealer, Opener, Vec<u8>) {
        let mut payload = vec![0; 32 + first.len() + TAG];
        self.noise.write_message(first, &mut payload).expect("handshakes are short");
        let (sealer, opener) = halves(self.noise);
        (sealer, opener, record(RecordKind::Sealed, &payload))
    }
}

fn read(noise: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut record = vec![0; message.len()];
    let length = noise.read_message(message, &mut record).map_err(|_| CANNOT_OPEN)?;
    record.truncate(length);
    Ok(record)
}

fn halves(noise: HandshakeState) -> (Sealer, Opener) {
    let transport = noise.into_stateless_transport_mode().expect("both messages have passed");
    let transport = Arc::new(transport);
    (Sealer { transport: Arc::clone(&transport), next: 0 }, Opener { transport, next: 0 })
}

/// Seals what one end sends.
#[derive(Debug)]
pub struct Sealer {
    transport: Arc<StatelessTransportState>,
    next: u64,
}

impl Sealer {
    /// Appends records that seal these bytes, which are records or parts of records.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        for piece in plain.chunks(MOST) {
            out.extend(RecordHead::to_bytes(RecordKind::Sealed, piece.len() + TAG));
            let from = out.len();
            out.resize(from + piece.len() + TAG, 0);
            let written = self.transport.write_message(self.next, piece, &mut out[from..]);
            debug_assert_eq!(written, Ok(piece.len() + TAG));
            self.next += 1;
        }
    }
}

/// Opens what it receives.
#[derive(Debug)]
pub struct Opener {
    transport: Arc<StatelessTransportState>,
    next: u64,
}

impl Opener {
    /// Takes the sealed records that are whole from the front of `sealed`, and appends what was in them.
    ///
    /// # Errors
    /// It is not a sealed record, or not the next one from the other end. The connection cannot be used any more.
    pub fn open(&mut self, sealed: &mut BytesMut, plain: &mut BytesMut) -> Result<(), Malformed> {
        while let Some(head) = sealed.first_chunk::<RECORD_HEAD>() {
            let RecordHead { kind, length } = RecordHead::parse(*head)?;
            if kind != Some(RecordKind::Sealed) {
                return Err(Malformed("a record is not sealed on a sealed connection"));
            }
            let Some(message) = sealed.get(RECORD_HEAD..RECORD_HEAD + length) else { break };
            let from = plain.len();
            plain.resize(from + length, 0);
            let read = self.transport.read_message(self.next, message, &mut plain[from..]);
            plain.truncate(from + read.as_ref().unwrap_or(&0));
            read.map_err(|_| CANNOT_OPEN)?;
            sealed.advance(RECORD_HEAD + length);
            self.next += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    /// Vectors of the Haskell implementation of Noise (cacophony), for this protocol.
    #[test]
    fn messages_are_those_of_noise() {
        let psk = bytes("54686973206973206d7920417573747269616e20706572737065637469766521");
        let psk = psk.try_into().unwrap();
        let prologue = bytes("4a6f686e2047616c74");
        let end = |random: &str, is_initiator| {
            let random = bytes(random).try_into().unwrap();
            let builder =
                Builder::with_resolver(NOISE.parse().unwrap(), Box::new(Primitives(random)));
            let builder = builder.prologue(&prologue).unwrap().psk(0, &psk).unwrap();
            let ends =
                if is_initiator { Builder::build_initiator } else { Builder::build_responder };
            ends(builder).unwrap()
        };
        let one = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
        let two = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
        let (mut initiator, mut acceptor) = (end(one, true), end(two, false));
        let mut out = vec![0; 200];
        let first = "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79447c37a89f\
                     c17813788d30df2d59501d6066f5f8aecc3406bbd9829f2d24a531b1";
        let length = initiator.write_message(b"Ludwig von Mises", &mut out).unwrap();
        assert_eq!(out[..length], bytes(first));
        assert_eq!(read(&mut acceptor, &bytes(first)).unwrap(), b"Ludwig von Mises");
        let second = "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088432f29d793\
                      68ef9de4e1ae7a362fb05bf0ad668e026bf5714554497b3a720461";
        let length = acceptor.write_message(b"Murray Rothbard", &mut out).unwrap();
        assert_eq!(out[..length], bytes(second));
        assert_eq!(read(&mut initiator, &bytes(second)).unwrap(), b"Murray Rothbard");
        let mut from = [halves(initiator), halves(acceptor)];
        for (sender, text, message) in [
            (0, &b"F. A. Hayek"[..], "7c01e898a6201f36aecee532e29cd0b7f8ffa29d3366ad0dce39a6"),
            (1, b"Carl Menger", "a9ff535aace3db6a1da1a7fb00fe2de2622bb373abad9fb42c00e0"),
            (
                0,
                b"Jean-Baptiste Say",
                "6cfc49a3e65472edc2d0152abe5ce950170a8a47c959f30bd48b5f0aacf29adbfd",
            ),
        ] {
            let mut sealed = Vec::new();
            from[sender].0.seal(text, &mut sealed);
            assert_eq!(sealed[RECORD_HEAD..], bytes(message));
            let (mut sealed, mut plain) = (BytesMut::from(&sealed[..]), BytesMut::new());
            from[1 - sender].1.open(&mut sealed, &mut plain).unwrap();
            assert_eq!(plain, text);
        }
    }
}
