// SPDX-License-Identifier: GPL-2.0-or-later
//! Every combination of what was asked for and what came, against a rule that is written in another way: all that a
//! body could be is listed, each statement strikes out what contradicts it, and what remains must be one thing.

use super::*;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::time::SystemTime;

/// The file's length, the range that is asked for, and lengths that are wrong.
const TOTAL: u64 = 1000;
const START: u64 = 400;
const END: u64 = 700;
const OTHER_TOTAL: u64 = 1100;

/// What was asked for, and with which knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// The whole; nothing is known.
    First,
    /// The whole; the length of this version is known.
    Again,
    /// From [`START`] to the end; the length is known.
    Rest,
    /// From [`START`] to the end, whose place is unknown.
    OpenRest,
    /// From [`START`] to [`END`].
    Gap,
}

const QUESTIONS: [Question; 5] =
    [Question::First, Question::Again, Question::Rest, Question::OpenRest, Question::Gap];
const STATUSES: [u16; 6] = [200, 206, 416, 404, 204, 503];
const RANGES: [&[&str]; 15] = [
    &[],
    &["bytes 0-999/1000"],
    &["bytes 400-999/1000"],
    &["bytes 400-699/1000"],
    &["bytes 400-499/1000"],
    &["bytes 401-999/1000"],
    &["bytes 0-599/1000"],
    &["bytes 400-999/1100"],
    &["bytes 0-1099/1100"],
    &["bytes 400-999/*"],
    &["bytes 0-999/*"],
    &["bytes */1000"],
    &["items 400-999/1000"],
    &["bytes 400-999"],
    &["bytes 400-999/1000", "bytes 400-999/1000"],
];
const LENGTHS: [Option<u64>; 6] = [Some(1000), Some(600), Some(300), Some(100), Some(1100), None];
/// With `Content-Length`, the first; without, both.
const CODINGS: [bool; 2] = [false, true];
const VALIDATORS: [&[(&str, &str)]; 5] = [
    &[("etag", "\"a\"")],
    &[("etag", "\"b\"")],
    &[("etag", "W/\"a\"")],
    &[("last-modified", "Tue, 01 Jan 2019 00:00:00 GMT")],
    &[],
];
const TYPES: [&str; 2] = ["application/octet-stream", "multipart/byteranges; boundary=x"];
const ENCODINGS: [Option<&str>; 2] = [None, Some("gzip")];

/// What came.
#[derive(Debug, Clone, Copy)]
struct Came {
    status: u16,
    ranges: &'static [&'static str],
    length: Option<u64>,
    chunked: bool,
    validators: &'static [(&'static str, &'static str)],
    kind: &'static str,
    encoding: Option<&'static str>,
}

impl Came {
    fn answer(&self) -> Answer {
        let mut headers = HeaderMap::new();
        let mut add = |name: &str, value: &str| {
            let name = HeaderName::try_from(name).unwrap();
            headers.append(name, HeaderValue::try_from(value).unwrap());
        };
        self.ranges.iter().for_each(|range| add("content-range", range));
        self.validators.iter().for_each(|(name, value)| add(name, value));
        if let Some(length) = self.length {
            add("content-length", &length.to_string());
        }
        if self.chunked {
            add("transfer-encoding", "chunked");
        }
        if let Some(encoding) = self.encoding {
            add("content-encoding", encoding);
        }
        add("content-type", self.kind);
        let status = StatusCode::from_u16(self.status).unwrap();
        Answer::read(status, &headers, SystemTime::UNIX_EPOCH).unwrap()
    }
}

/// What a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meaning {
    start: u64,
    length: u64,
    total: u64,
}

/// The use of a body, without reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Whole(Option<u64>),
    Part(u64, u64),
    Nothing,
}

fn meanings() -> Vec<Meaning> {
    let mut all = Vec::new();
    for total in [300, 600, 100, TOTAL, OTHER_TOTAL] {
        for start in [0, 1, START, START + 1] {
            for length in [100, 300, 599, 600, TOTAL, OTHER_TOTAL, total] {
                let meaning = Meaning { start, length, total };
                if start + length <= total && !all.contains(&meaning) {
                    all.push(meaning);
                }
            }
        }
    }
    all
}

/// `bytes A-B/T`, read by hand.
fn stated(range: &str) -> Option<(u64, u64, Option<u64>)> {
    let rest = range.strip_prefix("bytes ")?;
    let parts: Vec<_> = rest.split(['-', '/']).collect();
    let [first, last, total] = parts[..] else { return None };
    let first: u64 = first.parse().ok()?;
    Some((first, last.parse::<u64>().ok()? + 1 - first, total.parse().ok()))
}

fn rule(question: Question, came: &Came) -> Outcome {
    let is = |fields: &[(&str, &str)]| came.validators == fields;
    let same = question != Question::First && is(&[("etag", "\"a\"")]);
    let for_range = !matches!(question, Question::First | Question::Again);
    let mut left = meanings();
    if ![200, 206].contains(&came.status) || came.kind.starts_with("multipart") {
        left.clear();
    }
    if let Some(length) = came.length {
        left.retain(|meaning| meaning.length == length);
    }
    match came.ranges {
        [] => {}
        [one] => match stated(one) {
            Some((start, length, Some(total))) => {
                left.retain(|m| *m == Meaning { start, length, total });
            }
            // Without the file's length, nothing says how much is missing.
            Some((.., None)) | None => left.clear(),
        },
        _ => left.clear(),
    }
    if same && question != Question::OpenRest {
        left.retain(|meaning| meaning.total == TOTAL);
    }
    if same && question != Question::OpenRest && came.encoding.is_some() {
        left.clear();
    }
    // A version without a name cannot be gone on with, whatever is said of it.
    if for_range && (!same || came.encoding.is_some()) {
        left.clear();
    }
    let end = if question == Question::Gap { END } else { u64::MAX };
    let whole = |m: &Meaning| (m.start, m.length) == (0, m.total);
    let asked = |m: &Meaning| m.start == START && m.start + m.length <= end;
    match (came.status, for_range) {
        // Only the status says that it is the whole, and nothing contradicts.
        (200, false) => {
            left.retain(whole);
            let total = left.first().map(|m| m.total);
            match (left.is_empty(), left.iter().all(|m| Some(m.total) == total)) {
                (true, _) => Outcome::Nothing,
                (false, true) => Outcome::Whole(total),
                (false, false) => Outcome::Whole(None),
            }
        }
        // The status says nothing here.
        (200, true)
            if left.len() == 1 && left.iter().all(whole) && question != Question::OpenRest =>
        {
            Outcome::Whole(Some(left[0].total))
        }
        (206, true) if left.len() == 1 && left.iter().all(asked) => {
            Outcome::Part(left[0].start + left[0].length, left[0].total)
        }
        _ => Outcome::Nothing,
    }
}

fn outcome(question: Question, came: &Came) -> Outcome {
    let etag = Validators { etag: Some("\"a\"".to_owned()), ..Validators::default() };
    let total = (question != Question::OpenRest).then_some(TOTAL);
    let mut lengths = Lengths::default();
    let known = if question == Question::First {
        Identity::default()
    } else {
        if let Some(total) = total {
            lengths.learn(&etag, total);
        }
        Identity { validators: etag, total, ..Identity::default() }
    };
    let range = match question {
        Question::First | Question::Again => None,
        Question::Rest => Some((START, Some(TOTAL))),
        Question::OpenRest => Some((START, None)),
        Question::Gap => Some((START, Some(END))),
    };
    let asked = Asked { range, known: &known, digest: None, lengths: &lengths };
    match accept(&asked, &came.answer()) {
        Use::Whole(End::At(total)) => Outcome::Whole(Some(total)),
        Use::Whole(End::LastChunk | End::Unproven) => Outcome::Whole(None),
        Use::Part { end, total } => Outcome::Part(end, total),
        _ => Outcome::Nothing,
    }
}

fn cases() -> Vec<Came> {
    let mut cases = Vec::new();
    for status in STATUSES {
        for ranges in RANGES {
            for length in LENGTHS {
                for chunked in CODINGS.into_iter().filter(|chunked| length.is_none() || !chunked) {
                    for validators in VALIDATORS {
                        for kind in TYPES {
                            for encoding in ENCODINGS {
                                cases.push(Came {
                                    status,
                                    ranges,
                                    length,
                                    chunked,
                                    validators,
                                    kind,
                                    encoding,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn every_combination_agrees_with_the_rule() {
    let (mut used, mut all, mut wrong) = (0, 0, Vec::new());
    for question in QUESTIONS {
        for came in cases() {
            let (is, expected) = (outcome(question, &came), rule(question, &came));
            all += 1;
            used += usize::from(is != Outcome::Nothing);
            if is != expected {
                wrong.push(format!("{question:?}, {came:?}: {is:?} instead of {expected:?}"));
            }
        }
    }
    println!("{all} combinations, {used} with a use");
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Neither everything nor nothing.
    assert!(used > 100 && used * 10 < all);
}

#[test]
fn known_lengths_are_bounded_and_never_replaced() {
    let of = |at: usize| Validators { etag: Some(format!("\"{at}\"")), ..Validators::default() };
    let mut lengths = Lengths::default();
    for at in 0..1000 {
        lengths.learn(&of(at), at as u64);
        lengths.learn(&of(at), 7);
    }
    assert_eq!((lengths.0.len(), lengths.of(&of(999))), (MAX_VERSIONS, Some(999)));
    assert_eq!(lengths.of(&of(0)), None);
    lengths.learn(&Validators::default(), 3);
    assert_eq!(lengths.of(&Validators::default()), None);
}

#[test]
fn range_of_another_digest_or_coding_is_not_used() {
    let digest = |byte| Digest::new(protocol::digest::Algorithm::Sha256, &[byte; 32]).unwrap();
    let came = Came {
        status: 206,
        ranges: RANGES[2],
        length: Some(600),
        chunked: false,
        validators: VALIDATORS[0],
        kind: TYPES[0],
        encoding: None,
    };
    let mut answer = came.answer();
    let known = Identity { validators: answer.validators.clone(), ..Identity::default() };
    let (held, lengths) = (digest(1), Lengths::default());
    let range = Some((START, None));
    let asked = Asked { range, known: &known, digest: Some(&held), lengths: &lengths };
    let whole = Use::Part { end: TOTAL, total: TOTAL };
    assert_eq!(accept(&asked, &answer), whole);
    answer.digest = Some(held.clone());
    assert_eq!(accept(&asked, &answer), whole);
    answer.digest = Some(digest(2));
    assert!(matches!(accept(&asked, &answer), Use::OtherVersion(_)));
    answer.digest = None;
    answer.encoding = Some("br".to_owned());
    assert!(matches!(accept(&asked, &answer), Use::OtherVersion(_)));
}
