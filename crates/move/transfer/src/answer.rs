// SPDX-License-Identifier: GPL-2.0-or-later
//! Strict reader of the file properties in a response's header section.
//!
//! Framing that could be read in two ways is refused: `Content-Length` twice or together with `Transfer-Encoding`,
//! any coding except `chunked`. Validators are strong as RFC 9110, section 8.8, says: an entity tag without `W/`, or
//! a
//! `Last-Modified` that is a minute older than `Date`.

use http::{HeaderMap, HeaderName, StatusCode, header};
use protocol::{
    digest::{self, Algorithm, CONTENT_DIGEST, Digest, REPR_DIGEST},
    http::{Fields, RequestHead, ResponseHead, reported},
};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

/// How much older than `Date` a date of change is that no second change can have kept.
const SETTLED: Duration = Duration::from_secs(60);
/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Validators are short; what is longer is not kept.
const LONGEST_VALIDATOR: usize = 1024;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// By what two versions of a file are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Validators {
    /// As it was sent, weak or strong.
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    /// The date was old enough when it was sent.
    pub settled: bool,
}

impl Validators {
    /// The value of `If-Range`; nothing where no validator is strong.
    pub(crate) fn strong(&self) -> Option<&str> {
        match self.etag.as_deref() {
            Some(etag) if !etag.starts_with("W/") => Some(etag),
            None if self.settled => self.last_modified.as_deref(),
            // A weak tag next to a date means that the server makes changes that the date does not show.
            _ => None,
        }
    }

    /// Whether an answer with `other` is of the same version, for certain.
    pub(crate) fn same_version(&self, other: &Self) -> bool {
        match self.strong() {
            Some(strong) if self.etag.is_some() => other.etag.as_deref() == Some(strong),
            Some(_) => other.etag.is_none() && other.last_modified == self.last_modified,
            None => false,
        }
    }
}

/// `Content-Range` of a 206: the first byte, the one after the last, and the length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentRange {
    pub start: u64,
    pub end: u64,
    pub total: Option<u64>,
}

/// `Content-Range`, as far as it occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RangeField {
    None,
    Bytes(ContentRange),
    /// `bytes */LENGTH`, as in a 416.
    Unsatisfied(u64),
    /// Twice, in another unit, or malformed.
    Unusable,
}

/// The properties in a header section.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub status: StatusCode,
    /// The URL that it came from, after redirects.
    pub sender: Option<Url>,
    pub framing: Framing,
    pub validators: Validators,
    pub range: RangeField,
    /// The body is `multipart/byteranges`: several ranges with header sections of their own.
    pub multipart: bool,
    pub encoding: Option<String>,
    pub digest: Option<Digest>,
    pub modified: Option<SystemTime>,
    pub hops: u32,
    /// Other connections may bring parts of it: no depot on the way, and no word against ranges.
    pub may_be_split: bool,
    pub retry_after: Option<Duration>,
    /// This machine's address of its connection, and the peer's.
    pub sockets: Option<(SocketAddr, SocketAddr)>,
    /// Where depots tell what limited it, if they promise to.
    pub receipts: Option<Url>,
    /// A depot or other proxy says in `Proxy-Status` that it is its own answer, to a request that it refuses or cannot carry out.
    pub is_of_proxy: bool,
}

impl Answer {
    /// Reads a header section. `now` is held against a date in `Retry-After`.
    ///
    /// # Errors
    /// The framing is not beyond doubt; the text says why.
    pub(crate) fn read(
        status: StatusCode,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Self, String> {
        let framing = framing(headers)?;
        let modified = single(headers, &header::LAST_MODIFIED).and_then(date);
        let via = headers.get_all(header::VIA);
        let fields = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Self {
            status,
            sender: None,
            framing,
            validators: validators(headers),
            range: range_field(headers),
            multipart: is_multipart(headers),
            encoding: encoding(headers),
            digest: promised(headers, status == StatusCode::OK),
            modified,
            hops: via.iter().map(|value| entries(value.as_bytes())).sum(),
            may_be_split: !protocol::http::came_through_depot(via)
                && !single(headers, &header::ACCEPT_RANGES)
                    .is_some_and(|value| value.eq_ignore_ascii_case("none")),
            retry_after: single(headers, &header::RETRY_AFTER).and_then(|v| wait(v, now)),
            sockets: None,
            receipts: None,
            is_of_proxy: reported(&fields).is_some(),
        })
    }
}

/// The value of a field that occurs exactly once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok().map(str::trim) }
}

/// Digits only, as `u64`'s own parser would take a sign.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

fn framing(headers: &HeaderMap) -> Result<Framing, String> {
    let lengths = headers.get_all(header::CONTENT_LENGTH).iter().count();
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter().count();
    match (lengths, codings) {
        (0, 0) => Ok(Framing::UntilClose),
        (1, 0) => single(headers, &header::CONTENT_LENGTH)
            .and_then(number)
            .map(Framing::Length)
            .ok_or_else(|| "Content-Length is not a number".to_owned()),
        (0, 1) => match single(headers, &header::TRANSFER_ENCODING) {
            Some(coding) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
            _ => Err("its Transfer-Encoding is not \"chunked\"".to_owned()),
        },
        (_, 0) => Err("it has Content-Length more than once".to_owned()),
        (0, _) => Err("it has Transfer-Encoding more than once".to_owned()),
        _ => Err("it has both Content-Length and Transfer-Encoding".to_owned()),
    }
}

fn validators(headers: &HeaderMap) -> Validators {
    let short = |value: &&str| value.len() <= LONGEST_VALIDATOR;
    let etag = single(headers, &header::ETAG).filter(short).filter(|etag| is_etag(etag));
    let last_modified = single(headers, &header::LAST_MODIFIED).filter(short);
    let changed = last_modified.and_then(date);
    let sent = single(headers, &header::DATE).and_then(date);
    let settled = changed.zip(sent).is_some_and(|(changed, sent)| {
        sent.duration_since(changed).is_ok_and(|age| age >= SETTLED)
    });
    Validators {
        etag: etag.map(str::to_owned),
        last_modified: changed.and(last_modified).map(str::to_owned),
        settled,
    }
}

/// `entity-tag` of RFC 9110, section 8.8.3, of visible ASCII.
fn is_etag(text: &str) -> bool {
    let opaque = text.strip_prefix("W/").unwrap_or(text);
    let inner = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| inner.bytes().all(|b| b.is_ascii_graphic() && b != b'"'))
}

fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

fn range_field(headers: &HeaderMap) -> RangeField {
    if !headers.contains_key(header::CONTENT_RANGE) {
        return RangeField::None;
    }
    let Some(text) = single(headers, &header::CONTENT_RANGE) else { return RangeField::Unusable };
    match (content_range(text), text.strip_prefix("bytes */").and_then(number)) {
        (Some(range), _) => RangeField::Bytes(range),
        (None, Some(total)) => RangeField::Unsatisfied(total),
        (None, None) => RangeField::Unusable,
    }
}

fn is_multipart(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let mut kinds = kinds.map(|kind| String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase());
    kinds.any(|kind| kind.trim_start().starts_with("multipart/byteranges"))
}

fn content_range(text: &str) -> Option<ContentRange> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
    let total = if total == "*" { None } else { Some(number(total)?) };
    let fits = start < end && total.is_none_or(|total| end <= total);
    fits.then_some(ContentRange { start, end, total })
}

/// The content codings other than `identity`, of all lines together.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(header::CONTENT_ENCODING).iter();
    let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    let members = lines.iter().flat_map(|line| line.split(',')).map(str::trim);
    let codings: Vec<_> = members
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
        .map(str::to_ascii_lowercase)
        .collect();
    (!codings.is_empty()).then(|| codings.join(", "))
}

/// The digest of the whole file that a header or trailer section promises. `whole`: the body is the whole file, so that
/// its own digest will do.
pub(crate) fn promised(headers: &HeaderMap, whole: bool) -> Option<Digest> {
    let names = [&REPR_DIGEST, &CONTENT_DIGEST];
    let names = &names[..if whole { 2 } else { 1 }];
    let fields = headers.iter().filter(|(name, _)| names.contains(name));
    let fields: Fields = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    let asked = RequestHead::parse(b"GET / HTTP/1.1\r\nHost: host\r\n\r\n").ok()??.0;
    let head = ResponseHead {
        status: StatusCode::OK,
        reason: String::new(),
        version: http::Version::HTTP_11,
        headers: Fields::new(),
    };
    let digest = digest::of_response(&head, &asked, &fields)?;
    // MD5 does not protect against deliberate changes.
    (digest.algorithm() != Algorithm::Md5).then_some(digest)
}

/// How many proxies a `Via` line names: commas inside comments separate nothing.
fn entries(line: &[u8]) -> u32 {
    let (mut depth, mut count, mut filled) = (0_u32, 0, false);
    for byte in line {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => filled = false,
            b' ' | b'\t' => {}
            _ if depth == 0 && !filled => {
                filled = true;
                count += 1;
            }
            _ => {}
        }
    }
    count
}

/// Seconds or a date.
fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    let wait = match number(text) {
        Some(seconds) => Duration::from_secs(seconds),
        None => date(text)?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_WAIT))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
