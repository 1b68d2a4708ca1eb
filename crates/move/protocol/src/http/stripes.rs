// SPDX-License-Identifier: GPL-2.0-or-later
//! One answer over several connections between two depots: what they say to each other for it. The
//! blocks in which its body travels are `relay::stripes::blocks`.
//!
//! ```text
//! asker    GET ...              Longhaul-Streams: 4
//! answerer 200, as always       Longhaul-Streams: 4; token=<32 hexadecimal digits>
//! asker    GET /lh1/join/<token>     on each of at most 3 further connections
//! answerer 200                  and from then on blocks, as on the first one
//! ```
//! The blocks contain the body as it would have followed the header section on one connection: of any
//! length, in chunks, with trailers.

use super::{Fault, Fields, RequestHead, framing};
use http::{HeaderName, HeaderValue};
use std::{fmt, str::FromStr};

/// In a request: over how many connections the answer may come. In an answer: over how many it does.
pub static STREAMS: HeaderName = HeaderName::from_static("longhaul-streams");
/// Path of a joining connection's request, without the token.
pub const JOIN: &str = "/lh1/join/";
/// Maximum number of connections of a transfer.
pub const MAX_STREAMS: u8 = 16;
/// Unguessable token that lets further connections join a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; 16]);

/// The connections that the answering depot grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripeAgreement {
    /// How many connections, with the first.
    pub streams: u8,
    /// Lets further connections join.
    pub token: Token,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Token {
    /// Omits the token: debug output may reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl FromStr for Token {
    type Err = ();
    /// As it is printed, and in no other form.
    fn from_str(text: &str) -> Result<Self, ()> {
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 32 || !text.bytes().all(lower) {
            return Err(());
        }
        u128::from_str_radix(text, 16).map(|n| Self(n.to_be_bytes())).map_err(drop)
    }
}

impl StripeAgreement {
    /// The field that says so.
    pub fn field(&self) -> (HeaderName, HeaderValue) {
        let value = format!("{}; token={}", self.streams, self.token);
        (STREAMS.clone(), HeaderValue::from_str(&value).expect("digits and letters"))
    }

    /// Reads the answer of a depot that was asked for `asked` connections.
    ///
    /// # Errors
    /// What to answer (502): the field is invalid, so the framing of the body is unknown.
    pub fn of(headers: &Fields, asked: u8) -> Result<Option<Self>, Fault> {
        let mut values = headers.get_all(&STREAMS);
        let Some(value) = values.next() else { return Ok(None) };
        let read = || {
            let (streams, token) = value.to_str().ok()?.split_once("; token=")?;
            let streams = number(streams).filter(|streams| *streams <= asked)?;
            Some(Self { streams, token: token.parse().ok()? })
        };
        match (read(), values.next()) {
            (Some(agreed), None) => Ok(Some(agreed)),
            _ => Err(Fault::bad_response("the next depot's Longhaul-Streams makes no sense")),
        }
    }
}

/// The field that asks for `streams` connections.
pub fn ask(streams: u8) -> (HeaderName, HeaderValue) {
    (STREAMS.clone(), HeaderValue::from(u16::from(streams)))
}

/// How many connections a depot asks for. `None` for requests of others and for invalid values.
pub fn asked(request: &RequestHead) -> Option<u8> {
    let mut values = request.headers.get_all(&STREAMS);
    let value = values.next().filter(|_| request.came_through_depot())?;
    number(value.to_str().ok()?).filter(|_| values.next().is_none())
}

fn number(text: &str) -> Option<u8> {
    let streams = framing::decimal(text)?;
    u8::try_from(streams).ok().filter(|streams| (2..=MAX_STREAMS).contains(streams))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depots_agree_or_go_on_without() {
        let token = Token([0xab; 16]);
        let agreed = StripeAgreement { streams: 4, token };
        let headers = |values: &[&str]| {
            let value = |v: &&str| (STREAMS.clone(), HeaderValue::from_str(v).unwrap());
            values.iter().map(value).collect::<Fields>()
        };
        let said = Fields::from_iter([agreed.field()]);
        assert_eq!(StripeAgreement::of(&said, 4), Ok(Some(agreed)));
        assert!(StripeAgreement::of(&said, 3).is_err(), "more than was asked");
        assert_eq!(StripeAgreement::of(&headers(&[]), 4), Ok(None));
        let same = agreed.field().1.to_str().unwrap().to_owned();
        for bad in ["4", "4; token=", "1; token=ab", "4; token=AB", &same.to_uppercase()] {
            assert!(StripeAgreement::of(&headers(&[bad]), 16).is_err(), "{bad}");
        }
        assert!(StripeAgreement::of(&headers(&[&same, &same]), 16).is_err());
        let request = |via: &str, streams: &str| {
            let text =
                format!("GET / HTTP/1.1\r\nHost: d\r\n{via}Longhaul-Streams: {streams}\r\n\r\n");
            asked(&RequestHead::parse(text.as_bytes()).unwrap().unwrap().0)
        };
        let depot = "Via: 1.1 d1 (longhaul)\r\n";
        assert_eq!(request(depot, "16"), Some(16));
        assert_eq!(request("", "16"), None, "only depots ask");
        for senseless in ["1", "17", "+4", "4, 4", "4\r\nLonghaul-Streams: 4"] {
            assert_eq!(request(depot, senseless), None, "{senseless}");
        }
    }
}
