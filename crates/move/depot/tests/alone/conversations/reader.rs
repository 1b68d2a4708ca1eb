// SPDX-License-Identifier: GPL-2.0-or-later
//! The client's reader of answers: strict, independent of the session crate, and the judge of what comes.

use super::{
    content::is_link,
    ledger::{Answer, Conversation},
};
use std::sync::{Arc, atomic::Ordering::SeqCst};

/// Longer heads are not passed on by any depot here.
const LONGEST: usize = 100 << 10;

/// Reads what comes on one connection.
pub struct Reader {
    conversation: Arc<Conversation>,
    bytes: Vec<u8>,
    state: State,
    /// The number of the request that is answered now, and so of those answered.
    pub answered: usize,
    pub interims: usize,
    /// What was taken for whole, and what the depot said for itself.
    pub whole: usize,
    pub refused: usize,
}

enum State {
    Head,
    Body(Body),
    /// The depot has said that it closes.
    Closing,
}

struct Body {
    /// None where the depot itself answers.
    answer: Option<Answer>,
    at: usize,
    left: Left,
    close: bool,
}

#[derive(Debug, Clone, Copy)]
enum Left {
    Length(usize),
    Size,
    Chunk(usize),
    ChunkEnd,
    Trailers,
    UntilClose,
}

struct Head {
    status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads a head, if it is there; with its length.
    fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            let long = bytes.len() > LONGEST;
            return if long { Err("a head without end".to_owned()) } else { Ok(None) };
        };
        let text = str::from_utf8(&bytes[..end]).map_err(|_| "a head that is not ASCII")?;
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next());
        let status = status.filter(|code| code.len() == 3).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| format!("a first line {first:?}"))?;
        let fields = lines.map(field).collect::<Result<_, _>>()?;
        Ok(Some((Self { status, fields }, end + 4)))
    }

    fn all<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h str> {
        self.fields.iter().filter(move |field| field.0 == name).map(|field| field.1.as_str())
    }

    fn one<'h>(&'h self, name: &'h str) -> Result<Option<&'h str>, String> {
        let mut all = self.all(name);
        let value = all.next();
        if all.next().is_some() { Err(format!("{name} twice")) } else { Ok(value) }
    }
}

fn field(line: &str) -> Result<(String, String), String> {
    let wrong = || format!("a field {:?}", &line[..line.len().min(300)]);
    let (name, value) = line.split_once(':').ok_or_else(wrong)?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) || value.bytes().any(|b| b < b' ' && b != b'\t')
    {
        return Err(wrong());
    }
    Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
}

impl Reader {
    pub fn new(conversation: Arc<Conversation>) -> Self {
        let (bytes, state) = (Vec::new(), State::Head);
        Self { conversation, bytes, state, answered: 0, interims: 0, whole: 0, refused: 0 }
    }

    /// Takes what has come; or says what is wrong with it.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        if matches!(self.state, State::Head)
            && self.answered >= self.conversation.begun.load(SeqCst)
        {
            return Err(format!("unrequested bytes: {}", shown(bytes)));
        }
        self.bytes.extend(bytes);
        while self.step()? {}
        Ok(())
    }

    /// The connection has ended; in good order, or by a reset.
    pub fn end(&mut self, orderly: bool) -> Result<(), String> {
        match &self.state {
            State::Body(Body { left: Left::UntilClose, .. }) if orderly => self.whole(),
            _ => Ok(()),
        }
    }

    /// Whether an answer has begun and not ended.
    pub fn is_in_answer(&self) -> bool {
        matches!(self.state, State::Body(_)) || !self.bytes.is_empty()
    }

    /// Whether there may be more to do.
    fn step(&mut self) -> Result<bool, String> {
        if self.bytes.is_empty() {
            return Ok(false);
        }
        match &mut self.state {
            State::Closing => Err(format!("bytes after the last answer: {}", shown(&self.bytes))),
            State::Head => {
                let read = Head::read(&self.bytes)
                    .map_err(|error| format!("{error}, in: {}", shown(&self.bytes)))?;
                let Some((head, length)) = read else { return Ok(false) };
                self.head(&head)
                    .map_err(|error| format!("{error}, in: {}", shown(&self.bytes[..length])))?;
                self.bytes.drain(..length);
                // What needs no body is whole now.
                if matches!(&self.state, State::Body(Body { left: Left::Length(0), .. })) {
                    self.whole()?;
                }
                Ok(true)
            }
            State::Body(_) => self.body(),
        }
    }

    fn head(&mut self, head: &Head) -> Result<(), String> {
        let conversation = &self.conversation;
        let request = self.answered;
        if request >= conversation.begun.load(SeqCst) {
            return Err(format!("an answer to request {request}, which was not sent"));
        }
        let (asked, token) = (&conversation.requests[request], conversation.token(request));
        conversation.note(format!("client reads a head of {} to request {request}", head.status));
        if (100..200).contains(&head.status) {
            self.interims += 1;
            if asked.http10 || !asked.legal || head.status == 101 {
                return Err(format!("an interim answer {} to request {request}", head.status));
            }
            return match head.all("link").find(|value| !is_link(&token, value)) {
                Some(_) => {
                    Err(format!("an interim answer that is not request {token}'s, or not all"))
                }
                None => Ok(()),
            };
        }
        let answer = match head.one("etag")? {
            Some(tag) => {
                let id = tag.strip_prefix("\"a").and_then(|tag| tag.strip_suffix('"'));
                let answer = id.and_then(|id| conversation.answer(id.parse().ok()?));
                let answer = answer.filter(|answer| answer.request == request && asked.legal);
                let Some(answer) = answer else {
                    return Err(format!("answer {tag} to request {token}, which is not its own"));
                };
                if !answer.readable || answer.status != head.status {
                    return Err(format!("a head that was not sent so: {answer:?}"));
                }
                Some(answer)
            }
            None if head.status >= 400 && head.one("proxy-status")?.is_some() => {
                self.refused += 1;
                None
            }
            None => return Err("neither an origin's answer nor a depot's".to_owned()),
        };
        let codings = head.one("transfer-encoding")?;
        let length = head.one("content-length")?;
        let left = match (codings, length) {
            _ if asked.method == "HEAD" || [204, 304].contains(&head.status) => Left::Length(0),
            (Some("chunked"), None) if !asked.http10 => Left::Size,
            (None, Some(length)) => {
                Left::Length(length.parse().map_err(|_| "a length that is not a number")?)
            }
            (None, None) => Left::UntilClose,
            other => return Err(format!("framing {other:?}")),
        };
        let close = asked.http10
            || matches!(left, Left::UntilClose)
            || head.all("connection").any(|value| value.eq_ignore_ascii_case("close"));
        self.state = State::Body(Body { answer, at: 0, left, close });
        Ok(())
    }

    fn body(&mut self) -> Result<bool, String> {
        let State::Body(body) = &mut self.state else { unreachable!("there is a body") };
        let line = self.bytes.windows(2).position(|window| window == b"\r\n");
        match body.left {
            Left::Length(left) | Left::Chunk(left) => {
                let now = left.min(self.bytes.len());
                body.check(&self.bytes[..now])?;
                self.bytes.drain(..now);
                let chunk = matches!(body.left, Left::Chunk(_));
                match left - now {
                    0 if chunk => body.left = Left::ChunkEnd,
                    0 => self.whole()?,
                    left if chunk => body.left = Left::Chunk(left),
                    left => body.left = Left::Length(left),
                }
            }
            Left::UntilClose => {
                body.check(&self.bytes)?;
                self.bytes.clear();
            }
            Left::ChunkEnd => {
                if self.bytes.len() < 2 {
                    return Ok(false);
                }
                if !self.bytes.starts_with(b"\r\n") {
                    return Err(format!("a chunk without end: {}", shown(&self.bytes)));
                }
                self.bytes.drain(..2);
                body.left = Left::Size;
            }
            Left::Size => {
                let Some(end) = line else { return Ok(false) };
                let text = str::from_utf8(&self.bytes[..end]).ok();
                let size = text.filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
                let size = size.and_then(|text| usize::from_str_radix(text, 16).ok());
                let Some(size) = size else {
                    return Err(format!("a chunk's head: {}", shown(&self.bytes)));
                };
                self.bytes.drain(..end + 2);
                body.left = if size == 0 { Left::Trailers } else { Left::Chunk(size) };
            }
            Left::Trailers => {
                let Some(end) = line else { return Ok(false) };
                let text = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
                self.bytes.drain(..end + 2);
                if text.is_empty() {
                    self.whole()?;
                } else {
                    let (name, value) = field(&text)?;
                    let own = |answer: &Answer| value == format!("a{}", answer.id);
                    if name == "x-trailer" && !body.answer.as_ref().is_some_and(own) {
                        return Err(format!("another answer's trailer {value}"));
                    }
                    if name == "proxy-status" {
                        return Err("a client gets a broken body as whole".to_owned());
                    }
                }
            }
        }
        Ok(true)
    }

    /// An answer is taken for whole.
    fn whole(&mut self) -> Result<(), String> {
        let State::Body(body) = &self.state else { unreachable!("there is a body") };
        let request = self.answered;
        let asked = &self.conversation.requests[request];
        let note = format!("client takes the answer to request {request} for whole, {}", body.at);
        self.conversation.note(note);
        if let Some(answer) = &body.answer {
            let bodiless = asked.method == "HEAD" || [204, 304].contains(&answer.status);
            if !bodiless && (!answer.whole || body.at != answer.length) {
                return Err(format!("a part, {} bytes, that looks whole, of {answer:?}", body.at));
            }
            self.whole += 1;
        }
        self.answered += 1;
        self.state = if body.close { State::Closing } else { State::Head };
        Ok(())
    }
}

impl Body {
    fn check(&mut self, bytes: &[u8]) -> Result<(), String> {
        let is_own = match &self.answer {
            Some(answer) => {
                self.at + bytes.len() <= answer.length && answer.content.is(self.at, bytes)
            }
            None => bytes.iter().all(|b| matches!(b, b'\n' | b' '..=b'~')),
        };
        if !is_own {
            let (at, answer) = (self.at, &self.answer);
            return Err(format!("at {at} of the body of {answer:?} came {}", shown(bytes)));
        }
        self.at += bytes.len();
        Ok(())
    }
}

/// The beginning of some bytes.
pub fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(600)];
    format!("{} bytes, \"{}\"", bytes.len(), start.escape_ascii())
}
