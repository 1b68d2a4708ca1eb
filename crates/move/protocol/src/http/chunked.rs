// SPDX-License-Identifier: GPL-2.0-or-later
//! The chunked transfer coding (RFC 9112, section 7.1): its framing, without touching the data.
//!
//! ```text
//! chunk      = size [ extension ] CRLF data CRLF     size: hexadecimal, 1 to 16 digits
//! last chunk = 1*"0" [ extension ] CRLF trailers CRLF
//! ```
//! The [`Decoder`] is shown bytes and eats those of the framing. When data comes next it says how
//! much, and the caller moves it as it likes (from the buffer, or straight from socket to socket)
//! and tells the decoder. What it has eaten is never passed on: heads of chunks are written again
//! ([`put_head`]), so extensions and odd ways to write a number end here.
//!
//! Strict where readers are known to differ: lines end in CRLF; a size has no sign, no `0x`, no
//! spaces around it; it is at most 2^63-1, so that no reader's integer turns negative.

use super::{Fault, Fields, MAX_FIELDS, lines, print::print_fields};

/// The largest number of digits of a size; leading zeros count.
pub const MAX_DIGITS: usize = 16;
/// The longest extension of one chunk, in bytes. No sender in use writes any.
pub const MAX_EXTENSION: usize = 256;
/// End of the data of each chunk.
pub const DATA_END: &[u8] = b"\r\n";

/// Reads the framing of one body.
#[derive(Debug, Clone)]
pub struct Decoder {
    state: State,
    max_trailers: usize,
}

#[derive(Debug, Clone)]
enum State {
    /// In the size's digits.
    Size { size: u64, digits: usize },
    /// Behind the size: the extension.
    Extension { size: u64, length: usize },
    /// The CR that ends a chunk's head has come.
    HeadLf { size: u64 },
    /// So many bytes of data are left.
    Data { left: u64 },
    /// Behind the data: its CR.
    DataCr,
    /// Then its LF.
    DataLf,
    /// In the trailers, of which this has come.
    Trailers(Vec<u8>),
    /// The body has ended.
    Over,
}

/// Number of framing bytes that were read, and the part of the body after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Number of framing bytes that have been processed. The caller removes them from its buffer.
    pub framing: usize,
    /// The part of the body after them.
    pub next: Next,
}

/// The next part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// More framing, which is not here yet. All bytes shown were framing.
    More,
    /// So many bytes of data, never 0. The caller moves any part of them, says so with
    /// [`Decoder::moved`], and asks again.
    Data(u64),
    /// Nothing: the body has ended, with these trailers. Any further bytes in the buffer belong to the
    /// next message.
    End(Fields),
}

/// The bytes are not valid chunks: an error of the body's sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the chunked body is malformed: {0}")]
pub struct ChunkError(String);

impl ChunkError {
    /// The fault if the client sent the body (400).
    pub fn in_request(&self) -> Fault {
        Fault::bad_request(self.to_string())
    }

    /// The fault if the next hop sent the body (502).
    pub fn in_response(&self) -> Fault {
        Fault::bad_response(self.to_string())
    }
}

impl Decoder {
    /// A decoder at the start of a body, whose trailers may have at most `max_trailers`.
    pub fn new(max_trailers: units::Bytes) -> Self {
        let max_trailers = usize::try_from(max_trailers.get()).unwrap_or(usize::MAX);
        Self { state: START, max_trailers }
    }

    /// Eats the framing at the start of `bytes`, which are those that follow what was eaten and
    /// moved before.
    ///
    /// # Errors
    /// The bytes are not valid chunks, or exceed a limit. The decoder cannot be used after that.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Step, ChunkError> {
        for (at, byte) in bytes.iter().enumerate() {
            if let Some(next) = self.pause() {
                return Ok(Step { framing: at, next });
            }
            if let Some(trailers) = self.eat(*byte)? {
                return Ok(Step { framing: at + 1, next: Next::End(trailers) });
            }
        }
        let next = self.pause().unwrap_or(Next::More);
        Ok(Step { framing: bytes.len(), next })
    }

    /// The caller has moved `bytes` of the data that [`Next::Data`] announced.
    ///
    /// # Panics
    /// `bytes` exceeds the rest of the chunk: the caller would have moved what follows the chunk.
    pub fn moved(&mut self, bytes: u64) {
        let left = match self.state {
            State::Data { left } if bytes <= left => left - bytes,
            _ if bytes == 0 => return,
            _ => panic!("{bytes} bytes of data moved where fewer were left in the chunk"),
        };
        self.state = if left == 0 { State::DataCr } else { State::Data { left } };
    }

    /// Whether the body has ended. If the connection does before, the body is cut short.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The result at a point where the decoder must stop reading.
    fn pause(&self) -> Option<Next> {
        match self.state {
            State::Data { left } => Some(Next::Data(left)),
            State::Over => Some(Next::End(Fields::new())),
            _ => None,
        }
    }

    /// Takes one byte of framing; gives the trailers when it was the last.
    fn eat(&mut self, byte: u8) -> Result<Option<Fields>, ChunkError> {
        self.state = match (std::mem::replace(&mut self.state, State::Over), byte) {
            (State::Size { size, digits }, _) => in_size(size, digits, byte)?,
            (State::Extension { size, .. }, b'\r') => State::HeadLf { size },
            (State::Extension { size, length }, _) => in_extension(size, length, byte)?,
            (State::HeadLf { size: 0 }, b'\n') => State::Trailers(Vec::new()),
            (State::HeadLf { size }, b'\n') => State::Data { left: size },
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => START,
            (State::Trailers(mut text), _) => {
                text.push(byte);
                if byte == b'\n'
                    && let Some(trailers) = trailers(&text)?
                {
                    return Ok(Some(trailers));
                }
                if text.len() >= self.max_trailers {
                    return Err(error(format!("its trailers exceed {} bytes", self.max_trailers)));
                }
                State::Trailers(text)
            }
            (State::HeadLf { .. }, _) => return Err(error("a chunk's head does not end in CRLF")),
            (State::DataCr | State::DataLf, _) => {
                return Err(error("a chunk's data is not followed by CRLF"));
            }
            (State::Data { .. } | State::Over, _) => unreachable!("nothing is eaten in a pause"),
        };
        Ok(None)
    }
}

const START: State = State::Size { size: 0, digits: 0 };

fn error(reason: impl Into<String>) -> ChunkError {
    ChunkError(reason.into())
}

fn in_size(size: u64, digits: usize, byte: u8) -> Result<State, ChunkError> {
    match char::from(byte).to_digit(16) {
        Some(_) if digits == MAX_DIGITS => {
            Err(error(format!("a chunk's size has more than {MAX_DIGITS} digits")))
        }
        Some(digit) => {
            let size = (size << 4) | u64::from(digit);
            if i64::try_from(size).is_err() {
                return Err(error("a chunk's size is 2^63 or more"));
            }
            Ok(State::Size { size, digits: digits + 1 })
        }
        None if digits == 0 => Err(error("a chunk does not begin with a hexadecimal size")),
        None => match byte {
            b'\r' => Ok(State::HeadLf { size }),
            b';' => Ok(State::Extension { size, length: 1 }),
            _ => Err(error("a chunk's size is not followed by ';' or CRLF")),
        },
    }
}

fn in_extension(size: u64, length: usize, byte: u8) -> Result<State, ChunkError> {
    if byte.is_ascii_control() && byte != b'\t' {
        return Err(error("a chunk's extension holds a control character"));
    }
    if length == MAX_EXTENSION {
        return Err(error(format!("a chunk's extension is longer than {MAX_EXTENSION} bytes")));
    }
    Ok(State::Extension { size, length: length + 1 })
}

/// Reads the trailers, if they are all there.
fn trailers(text: &[u8]) -> Result<Option<Fields>, ChunkError> {
    let in_trailers = |why: &dyn std::fmt::Display| error(format!("in its trailers {why}"));
    let Some(length) = lines::block(text).map_err(|why| in_trailers(&why))? else {
        return Ok(None);
    };
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    match httparse::parse_headers(&text[..length], &mut fields) {
        Ok(httparse::Status::Complete((_, fields))) => {
            Fields::parsed(fields).map(Some).map_err(|why| in_trailers(&why))
        }
        Ok(httparse::Status::Partial) => Err(in_trailers(&"a field is not complete")),
        Err(why) => Err(in_trailers(&why)),
    }
}

/// Writes the head of a chunk of that length. The caller writes the data after it, and then [`DATA_END`].
///
/// # Panics
/// The size is 0: that would be the last chunk, see [`put_last`].
pub fn put_head(size: u64, out: &mut Vec<u8>) {
    assert!(size > 0, "a chunk without data ends the body");
    out.extend_from_slice(format!("{size:x}\r\n").as_bytes());
}

/// Prints the last chunk and the trailers.
pub fn put_last(trailers: &Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    print_fields(trailers, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of a body at once: its data, its trailers as printed, and what follows it.
    fn decode(mut bytes: &[u8]) -> Result<Option<(Vec<u8>, String, usize)>, String> {
        let mut decoder = Decoder::new(units::Bytes::new(64));
        let mut data = Vec::new();
        loop {
            let step = decoder.next(bytes).map_err(|error| error.to_string())?;
            bytes = &bytes[step.framing..];
            match step.next {
                Next::More => return Ok(None),
                Next::Data(left) => {
                    let part = bytes.len().min(left as usize);
                    if part == 0 {
                        return Ok(None);
                    }
                    data.extend_from_slice(&bytes[..part]);
                    bytes = &bytes[part..];
                    decoder.moved(part as u64);
                }
                Next::End(trailers) => {
                    let mut text = Vec::new();
                    print_fields(&trailers, &mut text);
                    return Ok(Some((data, String::from_utf8(text).unwrap(), bytes.len())));
                }
            }
        }
    }

    #[test]
    fn decoder_stops_at_the_end_of_the_chunks() {
        for (text, data, trailers, rest) in [
            ("0\r\n\r\n", "", "\r\n", 0),
            ("0\r\n\r\n0\r\n\r\n", "", "\r\n", 5),
            (
                "3\r\nabc\r\n00000000000000A\r\n0123456789\r\n000\r\n\r\n",
                "abc0123456789",
                "\r\n",
                0,
            ),
            ("3;a=\"b;c\"; d\r\nabc\r\n0;e\r\n\r\nGET", "abc", "\r\n", 3),
            ("1\r\n\n\r\n0\r\nA: 1\r\nb:2\r\n\r\nx", "\n", "A: 1\r\nB: 2\r\n\r\n", 1),
        ] {
            let expected = (data.as_bytes().to_vec(), trailers.to_owned(), rest);
            assert_eq!(decode(text.as_bytes()), Ok(Some(expected)), "{text:?}");
            for cut in 0..text.len() - rest {
                assert_eq!(decode(&text.as_bytes()[..cut]), Ok(None), "{text:?} up to {cut}");
            }
        }
    }

    #[test]
    fn ambiguous_chunks_are_refused() {
        let extension = format!("1;{}\r\n", "x".repeat(MAX_EXTENSION));
        let trailers = format!("0\r\nA: {}\r\n\r\n", "x".repeat(64));
        let many = format!("0\r\n{}", "a:\r\n".repeat(40));
        for (text, reason) in [
            ("\r\n", "begin with a hexadecimal"),
            (" 1\r\n", "begin with a hexadecimal"),
            ("-1\r\n", "begin with a hexadecimal"),
            ("+1\r\n", "begin with a hexadecimal"),
            ("0x1\r\n", "not followed"),
            ("1 \r\n", "not followed"),
            ("1\n", "not followed"),
            ("1 ;x\r\n", "not followed"),
            ("1_0\r\n", "not followed"),
            ("1\rx", "does not end in CRLF"),
            ("1;x\n", "control character"),
            ("1;x\ry", "does not end in CRLF"),
            ("1;\0\r\n", "control character"),
            ("8000000000000000\r\n", "2^63"),
            ("ffffffffffffffff\r\n", "2^63"),
            ("00000000000000001\r\n", "16 digits"),
            ("1\r\nabc", "not followed by CRLF"),
            ("1\r\na\n", "not followed by CRLF"),
            ("1\r\na\r\r", "not followed by CRLF"),
            ("0\r\nA: 1\n\r\n", "LF without CR"),
            ("0\r\n\n", "LF without CR"),
            ("0\r\n A: 1\r\n\r\n", "trailers"),
            ("0\r\nA: 1\r\n b\r\n\r\n", "folded"),
            ("0\r\nA : 1\r\n\r\n", "trailers"),
            ("0\r\nA\r\n\r\n", "trailers"),
            (&extension, "longer than 256"),
            (&trailers, "exceed 64 bytes"),
            (&many, "exceed 64 bytes"),
        ] {
            let error = decode(text.as_bytes()).expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn faults_are_of_the_side_that_sent_the_body() {
        let error = Decoder::new(units::Bytes::new(64)).next(b"x").unwrap_err();
        assert_eq!(error.in_request().status, 400);
        assert_eq!(error.in_response().status, 502);
    }
}
