// SPDX-License-Identifier: GPL-2.0-or-later
//! Fields by which one party speaks for more than its own message: `Via`, which keeps requests from
//! running in circles, and what an origin says to a browser under the name of a depot.

use super::targets::{GET, to_a_depot};
use http::{HeaderName, HeaderValue, header};
use longhaul_protocol::{
    DepotId, Route,
    http::{
        Connection, Fields, NextHop, OutgoingBody, OutgoingRequest, OutgoingResponse, RequestHead,
        RequestRoute, ResponseHead, came_through_depot, interim_for, request_for, response_for,
        trailers_for_client,
    },
};

/// The most entries of `Via` that a request comes with.
const MOST_HOPS: usize = 15;

/// Who passed a message on, to a reader that shares no code with the library: one line, whose
/// comments are taken out first. Each entry gives its last word.
fn hops(line: &[u8]) -> Vec<Vec<u8>> {
    let (mut depth, mut escaped, mut plain) = (0, false, Vec::new());
    for byte in line {
        match (byte, depth) {
            _ if escaped => escaped = false,
            (b'\\', 1..) => escaped = true,
            (b'(', _) => depth += 1,
            (b')', 1..) => depth -= 1,
            (_, 0) => plain.push(*byte),
            _ => {}
        }
    }
    assert_eq!(depth, 0, "a comment has no end in {}", line.escape_ascii());
    let words = |entry: &[u8]| {
        let mut words = entry.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty());
        words.next_back().map(<[u8]>::to_ascii_lowercase)
    };
    plain.split(|b| *b == b',').filter_map(words).collect()
}

fn with_via(value: &HeaderValue) -> Vec<u8> {
    let before = "GET /lh1/fetch/d2:1/http:o/f HTTP/1.1\r\nHost: d\r\nVia: ";
    [before.as_bytes(), value.as_bytes(), b"\r\n\r\n"].concat()
}

/// The head of a request as depot d1 passes it on; nothing where it has come round.
fn passed_on(head: &RequestHead, id: &DepotId) -> Option<Vec<u8>> {
    let out = OutgoingRequest {
        id,
        connection: Connection::Keep,
        extra: &[],
        site: None,
        proxied: false,
    };
    request_for(head, &to_a_depot(), &out).map_err(|fault| assert_eq!(fault.status, 508)).ok()
}

/// The input is a field's value, of a request and of an answer.
pub fn via(input: &[u8]) -> bool {
    let Ok(value) = HeaderValue::from_bytes(input) else { return false };
    let id: DepotId = "d1".parse().unwrap();
    an_answer_can_be_followed(&value, &id);
    let head = match RequestHead::parse(&with_via(&value)) {
        Ok(head) => head.expect("it is whole").0,
        Err(fault) => {
            assert_eq!(fault.status, 400);
            assert!(!came_through_depot([&value]));
            return false;
        }
    };
    assert_eq!(head.came_through_depot(), came_through_depot([&value]));
    let came = head.headers.get(&header::VIA).map_or(Vec::new(), |value| hops(value.as_bytes()));
    let has_been_here = came.contains(&b"d1".to_vec());
    let Some(text) = passed_on(&head, &id) else {
        assert!(has_been_here || came.len() > MOST_HOPS, "a loop is reported where there is none");
        return true;
    };
    assert!(!has_been_here && came.len() <= MOST_HOPS, "a loop is not detected");
    // The next depot sees all hops and this depot, and this depot sees that the request was here.
    let (again, _) = RequestHead::parse(&text).unwrap().expect("what is printed is whole");
    assert!(again.came_through_depot());
    let via: Vec<_> = again.headers.get_all(&header::VIA).collect();
    assert_eq!(via.len(), 1);
    assert_eq!(hops(via[0].as_bytes()), [came, vec![b"d1".to_vec()]].concat());
    assert_eq!(passed_on(&again, &id), None);
    true
}

/// Whatever an answer's field contains, the answer that goes back can be read.
fn an_answer_can_be_followed(value: &HeaderValue, id: &DepotId) {
    let answer = [b"HTTP/1.1 200 OK\r\nVia: ", value.as_bytes(), b"\r\n\r\n"].concat();
    let (head, _) = ResponseHead::parse(&answer).unwrap().expect("it is whole");
    let (again, _) = ResponseHead::parse(&answered(&head, id)).unwrap().expect("it is whole");
    let printed = again.headers.get(&header::VIA).expect("a depot signs");
    assert_eq!(hops(printed.as_bytes()).last(), Some(&b"d1".to_vec()));
}

/// The head of an answer as it goes to a client.
fn answered(head: &ResponseHead, id: &DepotId) -> Vec<u8> {
    let route: Route = GET.target.parse().unwrap();
    let framing = head.framing(&GET).expect("its length is beyond doubt");
    let body = OutgoingBody::of(head, &GET, framing, NextHop::Origin, None).unwrap();
    let out = OutgoingResponse {
        id,
        connection: Connection::Keep,
        origin: Some(route.origin()),
        request_route: RequestRoute::Route(&route),
        body,
        extra: &[],
        site: false,
    };
    response_for(head, &GET, &out)
}

/// What begins the names of fields that browsers obey for more than one answer, or that have others act.
const OBEYED: [&str; 33] = [
    "accept-ch",
    "activate-storage",
    "alt-svc",
    "authentication-info",
    "clear-site",
    "connection-",
    "content-security-policy-report",
    "critical-ch",
    "cross-origin-embedder",
    "cross-origin-opener",
    "document-policy",
    "expect-ct",
    "feature-policy",
    "integrity-policy",
    "keep-alive",
    "longhaul-",
    "nel",
    "no-vary",
    "origin-",
    "permissions-policy",
    "proxy-a",
    "proxy-c",
    "public-key",
    "refresh",
    "report",
    "service-worker",
    "set-",
    "sourcemap",
    "speculation",
    "strict-",
    "supports-",
    "use-as",
    "www-",
];

/// What a depot sets itself, and no trailer may.
const OF_HEADS: [&str; 9] = [
    "content-encoding",
    "content-length",
    "content-security-policy",
    "content-type",
    "host",
    "location",
    "referrer-policy",
    "transfer-encoding",
    "via",
];

fn is_inert(name: &HeaderName) -> bool {
    !OBEYED.iter().any(|begin| name.as_str().starts_with(begin))
}

/// The input is fields, of an answer, of an interim one, and of trailers.
pub fn fields(input: &[u8]) -> bool {
    let id: DepotId = "d1".parse().unwrap();
    let answer = [b"HTTP/1.1 200 OK\r\n", input, b"\r\n\r\n"].concat();
    let Ok(Some((head, _))) = ResponseHead::parse(&answer) else { return false };
    let trailers = trailers_for_client(&head.headers);
    for (name, _) in trailers.iter() {
        assert!(is_inert(name) && !OF_HEADS.contains(&name.as_str()), "{name} goes on");
    }
    let interim = ResponseHead { status: http::StatusCode::EARLY_HINTS, ..head.clone() };
    let interim = interim_for(&interim, &GET, (&id, false)).expect("the client knows them");
    nothing_speaks_for_others(&interim);
    if head.framing(&GET).is_err() {
        return false;
    }
    let fields = nothing_speaks_for_others(&answered(&head, &id));
    let last_is = |name: &str, value: &str| {
        let values = fields.iter().filter(|(given, _)| given.as_str() == name);
        values.last().is_some_and(|(_, given)| given == value)
    };
    assert!(last_is("referrer-policy", "no-referrer"));
    let sandbox = "sandbox allow-downloads allow-popups";
    let mut policies = fields.iter().filter(|(name, _)| *name == header::CONTENT_SECURITY_POLICY);
    assert!(policies.any(|(_, value)| value == sandbox));
    true
}

/// The fields of a head that goes to a client.
fn nothing_speaks_for_others(text: &[u8]) -> Fields {
    let (head, length) = ResponseHead::parse(text).unwrap().expect("what is printed is whole");
    assert_eq!(length, text.len());
    for (name, value) in head.headers.iter() {
        assert!(is_inert(name), "{name} goes on");
        let value = value.as_bytes().to_ascii_lowercase();
        let is_policy = name == header::CONTENT_SECURITY_POLICY;
        assert!(!is_policy || !value.windows(10).any(|part| part == b"report-uri"));
        // Of a route of the origin's choice at this depot.
        assert!(name != header::LOCATION || !value.starts_with(b"/lh1/fetch/-/http:evil"));
    }
    head.headers
}
