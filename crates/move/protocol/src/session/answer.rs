// SPDX-License-Identifier: GPL-2.0-or-later
//! ANSWER: the result of an OPEN, and what each depot reports about its connection to the next hop (docs/lsl.md,
//! section 3).

use crate::{
    DepotId,
    http::{Fault, ProxyError},
    session::{
        Congestion, Malformed, fields,
        header::{Header, UnknownField, put_unknown, take, take_counted, text},
        open::{MAX_HOPS, depot_id},
        stripes::Striped,
    },
};
use http::StatusCode;

/// The most bytes of a text for the user.
pub const MAX_TEXT: usize = 1024;
/// The name of a session's other end.
const END: &str = "end";
/// The longest error type.
const MAX_ERROR: usize = 64;

const STATUS: u8 = 1;
const ERROR: u8 = 2;
const BY: u8 = 3;
const TEXT: u8 = 4;
const HOP: u8 = 5;
const STRIPED: u8 = 6;

/// The answer to an OPEN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// With the meaning of HTTP: 200 the session is open, 1xx a final answer follows, else it failed.
    pub status: StatusCode,
    /// An error type of RFC 9209, where it failed.
    pub error: Option<String>,
    /// The depot that made this answer, or `end`.
    pub by: DepotId,
    /// For the user: the cause and what to do.
    pub text: String,
    /// The connections between the depots, the initiator's end first.
    pub hops: Vec<HopReport>,
    /// Where the hop on which this comes was asked for several connections.
    pub striped: Option<Striped>,
    /// Fields that this version does not know, and passes on.
    pub unknown: Vec<UnknownField>,
}

/// A depot's report about its connection to the next hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopReport {
    /// The depot.
    pub depot: DepotId,
    /// Over how many connections.
    pub streams: u8,
    /// The round-trip time in microseconds.
    pub rtt_us: u32,
    /// The congestion control in force, as far as the system tells.
    pub congestion: Option<Congestion>,
}

impl Answer {
    /// An answer without an error.
    pub fn of(status: StatusCode, by: DepotId) -> Self {
        let (error, text, hops, unknown) = (None, String::new(), Vec::new(), Vec::new());
        Self { status, error, by, text, hops, striped: None, unknown }
    }

    /// The answer of a depot that cannot open the session.
    pub fn of_fault(fault: &Fault, by: DepotId) -> Self {
        let text = fields::cut(&fault.reason, MAX_TEXT).to_owned();
        let error = Some(fault.error.token().to_owned());
        Self { error, text, ..Self::of(fault.status, by) }
    }

    /// Whether the other end of the session made it, and no depot.
    pub fn is_of_end(&self) -> bool {
        self.by.as_str() == END
    }

    /// Whether a final answer follows.
    pub fn is_interim(&self) -> bool {
        self.status.is_informational()
    }

    /// Why there is no session; `None` where there is one.
    pub fn fault(&self) -> Option<Fault> {
        if self.status == StatusCode::OK || self.is_interim() {
            return None;
        }
        let known = self.error.as_deref().and_then(ProxyError::of_token);
        let error = known.unwrap_or(ProxyError::HttpProtocolError);
        Some(Fault::new(self.status, error, format!("{} says: {}", self.by, self.text)))
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let known = |kind| (STATUS..=STRIPED).contains(&kind);
        let all = fields::read(bytes, known, |kind| kind == HOP)?;
        let (mut status, mut error, mut by, mut says) = (None, None, None, String::new());
        let (mut hops, mut striped, mut unknown) = (Vec::new(), None, Vec::new());
        for field in all {
            match field.kind {
                STATUS => status = Some(read_status(field.array()?)?),
                ERROR => error = Some(read_error(field.value)?),
                BY => by = Some(depot_id(field.value)?),
                TEXT if field.value.len() > MAX_TEXT => {
                    return Err(Malformed("the text is longer than 1 024 bytes"));
                }
                TEXT => text(field.value)?.clone_into(&mut says),
                HOP => hops.push(HopReport::read(field.value)?),
                STRIPED => striped = Some(Striped::read(field.value)?),
                _ => unknown.push(UnknownField::of(&field)),
            }
        }
        if hops.len() > MAX_HOPS {
            return Err(Malformed("ANSWER has reports of more than 16 depots"));
        }
        let status = status.ok_or(Malformed("ANSWER has no status"))?;
        let by = by.ok_or(Malformed("ANSWER does not say who made it"))?;
        if error.is_some() && status.as_u16() < 400 {
            return Err(Malformed("ANSWER has an error and a status below 400"));
        }
        Ok(Self { status, error, by, text: says, hops, striped, unknown })
    }

    pub(super) fn fields(&self) -> Result<Vec<u8>, Malformed> {
        if self.text.len() > MAX_TEXT {
            return Err(Malformed("the text is longer than 1 024 bytes"));
        }
        if self.hops.len() > MAX_HOPS {
            return Err(Malformed("ANSWER has reports of more than 16 depots"));
        }
        let mut out = Vec::with_capacity(128);
        fields::put(STATUS, &self.status.as_u16().to_be_bytes(), &mut out);
        if let Some(error) = &self.error {
            fields::put(ERROR, read_error(error.as_bytes())?.as_bytes(), &mut out);
        }
        fields::put(BY, self.by.as_str().as_bytes(), &mut out);
        if !self.text.is_empty() {
            fields::put(TEXT, self.text.as_bytes(), &mut out);
        }
        for hop in &self.hops {
            fields::put(HOP, &hop.value(), &mut out);
        }
        if let Some(striped) = &self.striped {
            fields::put(STRIPED, &striped.value(), &mut out);
        }
        put_unknown(&self.unknown, &mut out);
        Ok(out)
    }
}

/// The ANSWERs to one OPEN: interim ones, then the final one. Each end and each depot that has sent OPEN reads what comes
/// back by it.
#[derive(Debug, Default)]
pub struct Answers {
    interims: u32,
    length: usize,
}

impl Answers {
    /// The most interim ANSWERs (3.3): each gives the next hop more time.
    pub const MOST_INTERIMS: u32 = 8;

    /// Reads the ANSWER at the start of `bytes`, and its length. `None`: it is incomplete.
    ///
    /// # Errors
    /// It is no ANSWER, or there are too many interim ones.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<(Answer, usize)>, Malformed> {
        let Some((answer, length)) = Header::parse_answer(bytes)? else { return Ok(None) };
        if answer.is_interim() {
            if self.interims == Self::MOST_INTERIMS {
                return Err(Malformed("more than 8 ANSWERs come before the final one"));
            }
            self.interims += 1;
        }
        self.length += length;
        Ok(Some((answer, length)))
    }

    /// Whether any has come.
    pub fn have_begun(&self) -> bool {
        self.length > 0
    }

    /// How many bytes all of them had together.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl HopReport {
    fn read(mut value: &[u8]) -> Result<Self, Malformed> {
        let depot = depot_id(take_counted(&mut value)?)?;
        let [streams] = *take::<1>(&mut value)?;
        let rtt_us = u32::from_be_bytes(*take::<4>(&mut value)?);
        let congestion = if value.is_empty() { None } else { Some(text(value)?.parse()?) };
        Ok(Self { depot, streams, rtt_us, congestion })
    }

    fn value(&self) -> Vec<u8> {
        let name = self.depot.as_str().as_bytes();
        let mut out = vec![u8::try_from(name.len()).expect("a depot's name is short")];
        out.extend(name);
        out.push(self.streams);
        out.extend(self.rtt_us.to_be_bytes());
        out.extend(self.congestion.as_ref().map_or("", Congestion::as_str).as_bytes());
        out
    }
}

fn read_status(value: [u8; 2]) -> Result<StatusCode, Malformed> {
    let status = StatusCode::from_u16(u16::from_be_bytes(value)).ok();
    let status = status.filter(|status| status.as_u16() < 600);
    status.ok_or(Malformed("the status is not one of HTTP's"))
}

fn read_error(value: &[u8]) -> Result<String, Malformed> {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    if !(1..=MAX_ERROR).contains(&value.len()) || !value.iter().all(plain) {
        return Err(Malformed("the error is not a type of RFC 9209"));
    }
    Ok(text(value)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::JoinToken;

    type RawField<'a> = (u8, &'a [u8]);

    fn read(fields: &[RawField<'_>]) -> Result<Answer, Malformed> {
        let mut out = Vec::new();
        for (kind, value) in fields {
            fields::put(*kind, value, &mut out);
        }
        Answer::read(&out)
    }

    #[test]
    fn answer_is_printed_and_read_the_same() {
        let report = HopReport {
            depot: "d1".parse().unwrap(),
            streams: 1,
            rtt_us: 70_000,
            congestion: Some("bbr".parse().unwrap()),
        };
        let unknown = HopReport { congestion: None, ..report.clone() };
        let answer = Answer {
            hops: vec![report, unknown],
            striped: Some(Striped {
                streams: 16,
                onward: JoinToken([1; 16]),
                back: JoinToken([2; 16]),
            }),
            unknown: vec![UnknownField { kind: 128, value: Vec::new() }],
            ..Answer::of(StatusCode::OK, "end".parse().unwrap())
        };
        let bytes = answer.to_bytes().unwrap();
        assert_eq!(Header::parse(&bytes), Ok(Some((Header::Answer(answer.clone()), bytes.len()))));
        assert_eq!(answer.fault(), None);
        assert!(Header::parse_open(&bytes).is_err());
    }

    #[test]
    fn a_fault_survives_the_way_back() {
        let long = "\u{e9}".repeat(2000);
        let fault = Fault::new(StatusCode::BAD_GATEWAY, ProxyError::DnsError, long);
        let answer = Answer::of_fault(&fault, "d2".parse().unwrap());
        let bytes = answer.to_bytes().unwrap();
        let (again, _) = Header::parse_answer(&bytes).unwrap().unwrap();
        let told = again.fault().unwrap();
        assert_eq!((told.status, told.error), (fault.status, fault.error));
        assert!(told.reason.starts_with("d2 says: \u{e9}"), "{told}");
        let fits = Answer { hops: vec![], text: "x".repeat(1025), ..answer };
        assert!(fits.to_bytes().is_err());
    }

    #[test]
    fn interim_answers_are_counted_and_bounded() {
        let bytes = |status| Answer::of(status, "d1".parse().unwrap()).to_bytes().unwrap();
        let (interim, last) = (bytes(StatusCode::CONTINUE), bytes(StatusCode::OK));
        let mut answers = Answers::default();
        assert_eq!(answers.next(&interim[..interim.len() - 1]), Ok(None));
        assert!(!answers.have_begun());
        for _ in 0..Answers::MOST_INTERIMS {
            let (answer, length) = answers.next(&interim).unwrap().unwrap();
            assert!(answer.is_interim() && length == interim.len());
        }
        assert!(answers.next(&interim).is_err());
        assert!(!answers.next(&last).unwrap().unwrap().0.is_interim());
        assert_eq!(answers.length(), 8 * interim.len() + last.len());
        assert!(Answers::default().next(b"HTTP/1.1 200 OK").is_err());
    }

    #[test]
    fn answer_that_breaks_a_rule_is_refused() {
        let (ok, by): (RawField<'_>, RawField<'_>) = ((1, b"\0\xc8"), (3, b"d1"));
        assert!(read(&[ok, by]).is_ok());
        let long = [b'x'; 1025];
        for (bad, why) in [
            (&[by][..], "no status"),
            (&[ok], "who made it"),
            (&[(1, b"\0\x63"), by], "HTTP's"),
            (&[(1, b"\x02\x58"), by], "HTTP's"),
            (&[ok, (2, b"dns_error"), by], "below 400"),
            (&[(1, b"\x01\xf6"), (2, b"DNS"), by], "RFC 9209"),
            (&[ok, by, (4, b"\xff")], "UTF-8"),
            (&[ok, by, (4, &long)], "1 024"),
            (&[ok, by, (5, b"\x02d1\x01\0\0\0")], "too short"),
            (&[ok, by, (6, b"")], "too short"),
            (&[ok, by, (6, &[17; 33])], "2 to 16"),
            (&[ok, by, (6, &[2; 34])], "too long"),
            (&[ok, by, (7, b"")], "unknown"),
        ] {
            let error = read(bad).expect_err(why).to_string();
            assert!(error.contains(why), "{error}, not {why}");
        }
    }
}
