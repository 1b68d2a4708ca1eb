// SPDX-License-Identifier: GPL-2.0-or-later
//! Request of a depot to the next one: keep this idle connection open.
//!
//! ```text
//! GET /lh1/hold HTTP/1.1          the depot that has connected, for how long it wants it, and how long an answer
//! Keep-Alive: timeout=600
//! Longhaul-Prime: 1048576
//!
//! HTTP/1.1 200 OK                 for how long it gets it: until then both keep it
//! Content-Length: 1048576
//! {"idle_s":600,"takes":1048576}  and spaces, which grow the window of the depot that answers
//!
//! PUT /lh1/hold HTTP/1.1          and spaces, which grow the window of the depot that has connected: once, and at
//! Keep-Alive: timeout=600         most `takes`. Without it nothing is sent
//! Content-Length: 1048576
//!
//! HTTP/1.1 200 OK
//! {"idle_s":600}
//! ```

use super::{Connection, Method, RequestHead, framing, rewrite::padded_answer};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Path of the request.
pub const HOLD: &str = "/lh1/hold";
/// The maximum length of the answer's body, in bytes, without the spaces.
pub const MAX_HOLD_BODY: usize = 4 << 10;
/// Padding of the answer's body.
pub const PADDING: [u8; 16 << 10] = [b' '; 16 << 10];

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PRIME: HeaderName = HeaderName::from_static("longhaul-prime");

/// Whether a request asks to hold its connection, or grows the window of one.
pub fn asks_hold(request: &RequestHead) -> bool {
    request.target == HOLD && matches!(request.method, Method::Get | Method::Head | Method::Put)
}

/// For how long a connection is held while nothing is asked on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// In seconds, from the end of an answer.
    pub idle_s: u32,
    /// The longest body in bytes of one PUT, with which the depot that asks may grow its own window. 0: it may not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub takes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl Hold {
    /// For so long; parts of a second are left out, so that the side that asks gives up no later than
    /// the one that answers.
    pub fn of(idle: Duration) -> Self {
        Self { idle_s: u32::try_from(idle.as_secs()).unwrap_or(u32::MAX), takes: 0 }
    }

    /// For how long that is.
    pub fn idle(self) -> Duration {
        Duration::from_secs(self.idle_s.into())
    }

    /// The field by which it is asked for.
    pub fn field(self) -> (HeaderName, HeaderValue) {
        let value = HeaderValue::try_from(format!("timeout={}", self.idle_s));
        (KEEP_ALIVE.clone(), value.expect("letters and digits"))
    }

    /// The time that a request asks for. `None` if it names no time, or not a number.
    pub fn asked(request: &RequestHead) -> Option<Self> {
        let mut parameters = request.headers.members(&KEEP_ALIVE);
        let seconds = parameters.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("timeout").then(|| value.trim())
        })?;
        let digits = !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit());
        // More digits than fit are more time than anybody grants.
        digits.then(|| Self { idle_s: seconds.parse().unwrap_or(u32::MAX), takes: 0 })
    }

    /// An answer whose body has `length` bytes, if that is more than what it says, of which it is the beginning; and
    /// how many bytes of [`PADDING`] are to follow.
    pub fn answer(self, length: u64, method: Method, connection: Connection) -> (Vec<u8>, u64) {
        let text = serde_json::to_string(&self).expect("a number is JSON") + "\n";
        let padding = length.saturating_sub(text.len() as u64);
        let answer = padded_answer("application/json", (&text, padding), method, connection);
        (answer, if method.is_answered_with_body() { padding } else { 0 })
    }
}

/// The field by which an answer of this length is asked for.
pub fn prime(length: u64) -> (HeaderName, HeaderValue) {
    (PRIME.clone(), length.into())
}

/// The head of the request that carries `length` bytes to a depot, to grow the window of the one that sends it.
pub fn own_prime(hold: Hold, host: &str, length: u64) -> String {
    let idle_s = hold.idle_s;
    format!(
        "PUT {HOLD} HTTP/1.1\r\nHost: {host}\r\nKeep-Alive: timeout={idle_s}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Length in bytes of the answer that a request asks for. 0 without the field, or if its value is not a number.
pub fn prime_asked(request: &RequestHead) -> u64 {
    let value = request.headers.get(&PRIME).and_then(|value| value.to_str().ok());
    value.filter(|value| !value.is_empty()).and_then(framing::bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(fields: &str) -> Option<u32> {
        let text = format!("GET {HOLD} HTTP/1.1\r\nHost: d\r\n{fields}\r\n");
        let (head, _) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
        assert!(asks_hold(&head));
        Hold::asked(&head).map(|hold| hold.idle_s)
    }

    #[test]
    fn keep_alive_timeout_is_read() {
        let own = Hold::of(Duration::from_millis(600_900));
        let (name, value) = own.field();
        assert_eq!(asked(&format!("{name}: {}\r\n", value.to_str().unwrap())), Some(600));
        assert_eq!(own.idle(), Duration::from_secs(600));
        for (fields, seconds) in [
            ("Keep-Alive: max=5, Timeout = 7\r\n", Some(7)),
            ("Keep-Alive: max=5\r\nKeep-Alive: timeout=8\r\n", Some(8)),
            ("Keep-Alive: timeout=99999999999999999999\r\n", Some(u32::MAX)),
            ("Keep-Alive: timeout=-1\r\n", None),
            ("Keep-Alive: timeout=\r\n", None),
            ("Keep-Alive: timeout\r\n", None),
            ("", None),
        ] {
            assert_eq!(asked(fields), seconds, "{fields}");
        }
    }

    #[test]
    fn depots_without_a_word_of_it_take_no_prime() {
        let old: Hold = serde_json::from_str("{\"idle_s\":600}").unwrap();
        assert_eq!((old.idle_s, old.takes), (600, 0));
        let later = "{\"idle_s\":600,\"takes\":9,\"and\":\"more\"}";
        let later: Hold = serde_json::from_str(later).unwrap();
        assert_eq!((later.idle_s, later.takes), (600, 9));
        assert_eq!(serde_json::to_string(&old).unwrap(), "{\"idle_s\":600}");
    }

    #[test]
    fn own_prime_is_a_request_with_a_body() {
        let text = own_prime(Hold { idle_s: 7, takes: 9 }, "d:3880", 5);
        let (head, length) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!((length, head.framing()), (text.len(), super::super::Framing::Length(5)));
        assert!(asks_hold(&head));
        assert_eq!(Hold::asked(&head).map(|hold| hold.idle_s), Some(7));
    }

    #[test]
    fn other_requests_do_not_ask() {
        for line in ["POST /lh1/hold", "GET /lh1/hold/", "GET /lh1/hold?x", "GET /LH1/hold"] {
            let text = format!("{line} HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\n\r\n");
            let (head, _) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
            assert!(!asks_hold(&head), "{line}");
        }
    }
}
