// SPDX-License-Identifier: GPL-2.0-or-later
//! Records: what two ends of a session put into the bytes behind the headers (docs/lsl.md, sections 5, 8, 9 and 10).

use crate::session::{
    Direction, SessionKey, Value,
    fields::{Malformed, cut},
    tree::{GROUP, MAX_STREAM},
};
use units::text::shown;

/// The length of a record's type and length.
pub const RECORD_HEAD: usize = 4;
/// Length of the fields before the bytes in DATA: offset and check.
pub const DATA_HEAD: usize = 40;
/// The longest payload of a handshake's record.
pub const MAX_HANDSHAKE: usize = 8192;
/// The longest text of END, in bytes.
pub const MAX_END_TEXT: usize = 1024;
/// Length of the fields before the text of END: code and proof.
const END_HEAD: usize = 34;
/// The longest message of Noise, and so the longest payload of SEALED.
pub const MAX_SEALED: usize = 65_535;
/// The shortest: one byte and its authentication tag.
const MIN_SEALED: usize = 17;
/// The longest digest that FIN carries.
const MAX_DIGEST: usize = 32;

/// The types of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "docs/lsl.md has them")]
pub enum RecordKind {
    Hello = 1,
    Welcome = 2,
    Attach = 3,
    Attached = 4,
    Confirm = 5,
    Data = 16,
    Ack = 17,
    Again = 18,
    Fin = 19,
    Done = 20,
    Ping = 21,
    Pong = 22,
    End = 23,
    Sealed = 24,
    Got = 25,
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// Its type; `None` if it is unknown and to be ignored.
    pub kind: Option<RecordKind>,
    /// How many bytes follow.
    pub length: usize,
}

/// The fields before the bytes of DATA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHead {
    /// Offset of the bytes in the stream.
    pub offset: u64,
    /// The chaining value of their group up to their end.
    pub check: Value,
}

/// ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ack {
    /// Everything before it has been delivered.
    pub offset: u64,
    /// How far the other end may send.
    pub limit: u64,
}

/// FIN or DONE: a stream as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Its length in bytes.
    pub length: u64,
    /// Its BLAKE3 hash.
    pub hash: Value,
    /// The proof that an end of the session says so.
    pub proof: Value,
    /// Its other digest, if one was agreed on. FIN alone has it.
    pub digest: Vec<u8>,
}

/// Why a session or a connection ends (rule 10.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum EndCode {
    /// The acceptor does not know the session.
    UnknownSession = 1,
    /// A proof is wrong, or a secret is required.
    WrongProof = 2,
    /// The beginning of the stream is not the same.
    PrefixDiffers = 3,
    /// The sender no longer has the bytes from that position.
    BytesGone = 4,
    /// The session exists already, or there is no room for another.
    NoRoom = 5,
    /// The application ended it.
    Application = 6,
    /// Data keep arriving damaged.
    Damaged = 7,
    /// The whole differs from what was sent.
    WholeDiffers = 8,
    /// A record is malformed, or not allowed at that point.
    Malformed = 9,
    /// The depot that is to keep the session has no space for it.
    NoSpace = 10,
}

/// END.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Why, as a number; [`EndCode::of`] knows some.
    pub code: u16,
    /// For the user.
    pub text: String,
    /// Whether the other end of the session proved that it sent this. `false`: a depot on the path may have sent it.
    pub is_proved: bool,
}

impl RecordKind {
    /// The shortest and the longest payload.
    fn lengths(self) -> (usize, usize) {
        match self {
            Self::Hello | Self::Welcome | Self::Attach | Self::Attached | Self::Confirm => {
                (0, MAX_HANDSHAKE)
            }
            Self::Data => (DATA_HEAD + 1, DATA_HEAD + GROUP as usize),
            Self::Ack => (16, 16),
            Self::Again | Self::Ping | Self::Pong | Self::Got => (8, 8),
            Self::Fin => (72, 72 + MAX_DIGEST),
            Self::Done => (72, 72),
            Self::End => (END_HEAD, END_HEAD + MAX_END_TEXT),
            Self::Sealed => (MIN_SEALED, MAX_SEALED),
        }
    }

    fn of(number: u8) -> Option<Self> {
        const ALL: [RecordKind; 15] = [
            RecordKind::Hello,
            RecordKind::Welcome,
            RecordKind::Attach,
            RecordKind::Attached,
            RecordKind::Confirm,
            RecordKind::Data,
            RecordKind::Ack,
            RecordKind::Again,
            RecordKind::Fin,
            RecordKind::Done,
            RecordKind::Ping,
            RecordKind::Pong,
            RecordKind::End,
            RecordKind::Sealed,
            RecordKind::Got,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

impl RecordHead {
    /// Reads it, and holds the length to what the type allows.
    ///
    /// # Errors
    /// The type is unknown and must not be ignored, or the length is not one of this type.
    pub fn parse([kind, a, b, c]: [u8; RECORD_HEAD]) -> Result<Self, Malformed> {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let Some(kind) = RecordKind::of(kind) else {
            let ignored = kind >= 128 && length <= DATA_HEAD + GROUP as usize;
            return if ignored {
                Ok(Self { kind: None, length })
            } else {
                Err(Malformed("the record's type is unknown, or it is too long to be ignored"))
            };
        };
        let (least, most) = kind.lengths();
        if (least..=most).contains(&length) {
            Ok(Self { kind: Some(kind), length })
        } else {
            Err(Malformed("the record's length is not one of its type"))
        }
    }

    /// As it travels.
    pub fn to_bytes(kind: RecordKind, length: usize) -> [u8; RECORD_HEAD] {
        let [_, a, b, c] = (length as u32).to_be_bytes();
        [kind as u8, a, b, c]
    }
}

/// A whole record.
pub fn record(kind: RecordKind, payload: &[u8]) -> Vec<u8> {
    [&RecordHead::to_bytes(kind, payload.len()), payload].concat()
}

impl DataHead {
    /// Reads it; `length` is that of the bytes behind it.
    ///
    /// # Errors
    /// The bytes cross the end of a group, or the longest stream's.
    pub fn parse(head: &[u8; DATA_HEAD], length: usize) -> Result<Self, Malformed> {
        let (offset, check) = head.split_at(8);
        let offset = u64::from_be_bytes(offset.try_into().expect("8 bytes"));
        let check = check.try_into().expect("32 bytes");
        if offset >= MAX_STREAM || offset % GROUP + length as u64 > GROUP {
            return Err(Malformed("DATA crosses the end of a group or of the longest stream"));
        }
        Ok(Self { offset, check })
    }

    /// The head of a DATA record with `length` bytes behind it.
    pub fn to_record(&self, length: usize) -> [u8; RECORD_HEAD + DATA_HEAD] {
        let mut out = [0; RECORD_HEAD + DATA_HEAD];
        out[..4].copy_from_slice(&RecordHead::to_bytes(RecordKind::Data, DATA_HEAD + length));
        out[4..12].copy_from_slice(&self.offset.to_be_bytes());
        out[12..].copy_from_slice(&self.check);
        out
    }
}

/// Reads an offset of 8 bytes, as AGAIN consists of.
///
/// # Errors
/// It is another length, or beyond the longest stream.
pub fn offset(payload: &[u8]) -> Result<u64, Malformed> {
    let bytes = payload.try_into().map_err(|_| Malformed("an offset has 8 bytes"))?;
    let offset = u64::from_be_bytes(bytes);
    if offset > MAX_STREAM {
        Err(Malformed("an offset is beyond the longest stream"))
    } else {
        Ok(offset)
    }
}

/// Reads how many bytes have arrived on a connection, as GOT has it.
///
/// # Errors
/// It has another length.
pub fn got(payload: &[u8]) -> Result<u64, Malformed> {
    payload.try_into().map(u64::from_be_bytes).map_err(|_| Malformed("GOT has 8 bytes"))
}

impl Ack {
    /// Reads it.
    ///
    /// # Errors
    /// It has another length, or the limit is below the offset.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let (at, limit) = payload.split_at_checked(8).ok_or(Malformed("ACK has 16 bytes"))?;
        let ack = Self { offset: offset(at)?, limit: offset(limit)? };
        if ack.limit < ack.offset {
            Err(Malformed("a limit is below what was delivered"))
        } else {
            Ok(ack)
        }
    }

    /// As it travels.
    pub fn to_record(self) -> Vec<u8> {
        let payload = [self.offset.to_be_bytes(), self.limit.to_be_bytes()].concat();
        record(RecordKind::Ack, &payload)
    }
}

impl Whole {
    /// Reads FIN or DONE.
    ///
    /// # Errors
    /// It is too short, or too long a stream.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let short = Malformed("FIN and DONE have 72 bytes at least");
        let (length, rest) = payload.split_at_checked(8).ok_or(short)?;
        let (hash, rest) = rest.split_first_chunk::<32>().ok_or(short)?;
        let (proof, digest) = rest.split_first_chunk::<32>().ok_or(short)?;
        let length = offset(length)?;
        Ok(Self { length, hash: *hash, proof: *proof, digest: digest.to_vec() })
    }

    /// As it travels.
    pub fn to_record(&self, kind: RecordKind) -> Vec<u8> {
        let length = self.length.to_be_bytes();
        record(kind, &[&length[..], &self.hash, &self.proof, &self.digest].concat())
    }
}

impl EndCode {
    /// The code of this number.
    pub fn of(number: u16) -> Option<Self> {
        const ALL: [EndCode; 10] = [
            EndCode::UnknownSession,
            EndCode::WrongProof,
            EndCode::PrefixDiffers,
            EndCode::BytesGone,
            EndCode::NoRoom,
            EndCode::Application,
            EndCode::Damaged,
            EndCode::WholeDiffers,
            EndCode::Malformed,
            EndCode::NoSpace,
        ];
        ALL.into_iter().find(|code| *code as u16 == number)
    }
}

impl End {
    /// Reads what the `sender` of that direction has sent. What is not UTF-8, and control characters, are replaced in
    /// the text.
    ///
    /// # Errors
    /// It is too short.
    pub fn parse(
        payload: &[u8],
        sender: Direction,
        key: Option<&SessionKey>,
    ) -> Result<Self, Malformed> {
        let short = Malformed("END has 34 bytes at least");
        let (code, rest) = payload.split_first_chunk::<2>().ok_or(short)?;
        let (proof, text) = rest.split_first_chunk::<32>().ok_or(short)?;
        let is_proved =
            key.is_some_and(|key| key.proves(proof, "end", &[&[sender as u8], code, text]));
        let text = String::from_utf8_lossy(text).chars().map(shown).collect();
        Ok(Self { code: u16::from_be_bytes(*code), text, is_proved })
    }

    /// As the `sender` of that direction sends it, proved if it has a key; a longer text than is allowed is
    /// cut off.
    pub fn to_record(
        code: EndCode,
        text: &str,
        sender: Direction,
        key: Option<&SessionKey>,
    ) -> Vec<u8> {
        let text = cut(text, MAX_END_TEXT).as_bytes();
        let code = (code as u16).to_be_bytes();
        let prove = |key: &SessionKey| key.proof("end", &[&[sender as u8], &code, text]);
        let proof = key.map_or([0; 32], prove);
        record(RecordKind::End, &[&code[..], &proof, text].concat())
    }
}
