// SPDX-License-Identifier: GPL-2.0-or-later
//! One function for each thing that is read from the network. Each says whether it took the input,
//! and panics where it took what it should not have, or reads it differently the second time.

use super::delimit::{self, Body};
use http::{HeaderName, HeaderValue};
use longhaul_protocol::{
    Authority, Fetch, OriginUrl, Route, Scheme, Step,
    announcement::{Announcement, AnnouncementError},
    digest::{self, Digest},
    http::{
        Connection, Fields, Framing, NextHop, OutgoingBody, OutgoingRequest, OutgoingResponse,
        PROXY_STATUS, RequestHead, RequestRoute, ResponseHead, chunked as coding,
        hold::{Hold, prime_asked},
        interim_for, options_for, receipt, reported, request_for, response_for,
        trailers_for_client,
    },
    ticket::{KeySet, Signer, TicketError, TicketRoute, UnixTime},
};
use std::sync::LazyLock;
use units::Bytes;

/// Fields that a depot sets itself.
const OWN: [&str; 8] =
    ["host", "via", "connection", "te", "expect", "content-length", "transfer-encoding", "trailer"];

/// What is asked of another depot.
pub fn to_a_depot() -> Fetch {
    Fetch {
        scheme: Scheme::Http,
        next: Authority::parse("d2:1", None).unwrap(),
        target: "/f".to_owned(),
        host: "d2:1".to_owned(),
        origin: None,
        depots: 1,
    }
}

fn body(framing: Framing) -> Body {
    match framing {
        Framing::Length(length) if length > 0 => Body::Length(length),
        Framing::Chunked => Body::Chunked,
        Framing::Empty | Framing::Length(_) | Framing::UntilClose => Body::Nothing,
    }
}

/// Every prefix of a head is not yet one.
fn no_prefix_is_taken<T>(input: &[u8], length: usize, parse: impl Fn(&[u8]) -> Option<T>) {
    for cut in [0, 1, length / 3, length / 2, length - 2, length - 1] {
        assert!(parse(&input[..cut]).is_none(), "{cut} of {length} bytes are taken");
    }
}

pub fn request(input: &[u8]) -> bool {
    let Ok(Some((head, length))) = RequestHead::parse(input) else { return false };
    // A lenient reader finds the same end, and the same body, in what came ...
    let (lenient, lenient_body) = delimit::head(input).expect("a head ends for all");
    assert_eq!((lenient, lenient_body), (length, body(head.framing())));
    no_prefix_is_taken(input, length, |part| RequestHead::parse(part).ok().flatten());
    // ... and in what is passed on.
    let id = "d1".parse().unwrap();
    let fetch = to_a_depot();
    let _ = options_for(&head, &id, Connection::Keep);
    let length = prime_asked(&head);
    assert!(length < 1 << 63);
    let _ = Hold::asked(&head).map(|hold| hold.answer(length, head.method, Connection::Keep));
    let out = OutgoingRequest {
        id: &id,
        connection: Connection::Keep,
        extra: &[],
        site: None,
        proxied: false,
    };
    let Ok(text) = request_for(&head, &fetch, &out) else { return true };
    let (again, length) = RequestHead::parse(&text).unwrap().expect("what is printed is whole");
    assert_eq!(delimit::head(&text), Some((text.len(), body(head.framing()))));
    assert_eq!((length, again.framing()), (text.len(), head.framing()));
    assert_eq!((again.method, again.version), (head.method, head.version));
    assert_eq!(again.expects_continue(), head.expects_continue());
    assert_eq!(again.target, "/f");
    assert!(again.headers.iter().all(|(name, _)| !name.as_str().starts_with("longhaul-")));
    others_are_the_same(&again.headers, &head.headers);
    true
}

/// Fields that a depot does not set are those that came.
fn others_are_the_same(printed: &Fields, came: &Fields) {
    for (name, _) in printed.iter().filter(|(name, _)| !OWN.contains(&name.as_str())) {
        let set_anew = ["location", "content-security-policy", "max-forwards", "referrer-policy"];
        if set_anew.contains(&name.as_str()) {
            continue;
        }
        let values = |map: &Fields| map.get_all(name).cloned().collect::<Vec<_>>();
        assert_eq!(values(printed), values(came), "{name}");
    }
}

/// A client's request of a depot next to the origin.
pub static GET: LazyLock<RequestHead> = LazyLock::new(|| {
    let text = "GET /lh1/fetch/-/http:o/d/f HTTP/1.1\r\nHost: d\r\n\r\n";
    RequestHead::parse(text.as_bytes()).unwrap().unwrap().0
});

pub fn response(input: &[u8]) -> bool {
    let Ok(Some((head, length))) = ResponseHead::parse(input) else { return false };
    let id = "d1".parse().unwrap();
    no_prefix_is_taken(input, length, |part| ResponseHead::parse(part).ok().flatten());
    if let Some(text) = interim_for(&head, &GET, (&id, false)) {
        assert_eq!(delimit::head(&text), Some((text.len(), Body::Nothing)));
        return true;
    }
    let Ok(framing) = head.framing(&GET) else { return false };
    let (lenient, lenient_body) = delimit::head(input).expect("a head ends for all");
    assert_eq!(lenient, length);
    if !matches!(head.status.as_u16(), 204 | 304) {
        assert_eq!(lenient_body, body(framing));
    }
    let _ = digest::of_response(&head, &GET, &head.headers);
    let route: Route = GET.target.parse().unwrap();
    for next in [NextHop::Depot, NextHop::Origin] {
        let Ok(out) = OutgoingBody::of(&head, &GET, framing, next, None) else { continue };
        let text = response_for(
            &head,
            &GET,
            &OutgoingResponse {
                id: &id,
                connection: Connection::Keep,
                origin: Some(route.origin()),
                request_route: RequestRoute::Route(&route),
                body: out,
                extra: &[],
                site: false,
            },
        );
        let (again, length) = ResponseHead::parse(&text).unwrap().expect("it is whole");
        assert_eq!(length, text.len());
        assert_eq!(again.framing(&GET).unwrap(), out.framing);
        assert_eq!((again.status, &again.reason), (head.status, &head.reason));
        let closes = !again.keeps_alive(out.framing);
        assert_eq!(closes, out.framing == Framing::UntilClose);
        others_are_the_same(&again.headers, &head.headers);
    }
    true
}

/// Tokens of receipts, against a reader that shares no code with the library: 32 digits, in one field only.
pub fn receipt(input: &[u8]) -> bool {
    let Ok(Some((head, length))) = RequestHead::parse(input) else { return false };
    let text = String::from_utf8_lossy(&input[..length]).into_owned();
    let is_token = |text: &str| {
        text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let fields: Vec<&str> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("longhaul-receipt"))
        .map(|(_, value)| value.trim_matches([' ', '\t']))
        .collect();
    let named = match fields[..] {
        [value] if is_token(value) => Some(value.to_owned()),
        _ => None,
    };
    assert_eq!(receipt::wanted(&head).map(|token| token.to_string()), named, "{fields:?}");
    if let Some(token) = receipt::asked(&head).flatten() {
        assert_eq!(head.target, format!("/lh1/receipt/{token}"));
    }
    true
}

/// Data, trailers and the length of a chunked body, shown to the decoder in parts of this size.
fn decode(input: &[u8], part: usize) -> Option<(Vec<u8>, Fields, usize)> {
    let mut decoder = coding::Decoder::new(Bytes::new(1024));
    let (mut at, mut data) = (0, Vec::new());
    loop {
        let shown = &input[at..(at + part).min(input.len())];
        let step = decoder.next(shown).ok()?;
        at += step.framing;
        match step.next {
            coding::Next::End(trailers) => return Some((data, trailers, at)),
            _ if at >= input.len() => return None,
            coding::Next::More => {}
            coding::Next::Data(left) => {
                let length = part.min(left as usize).min(input.len() - at);
                data.extend_from_slice(&input[at..at + length]);
                at += length;
                decoder.moved(length as u64);
            }
        }
    }
}

pub fn chunked(input: &[u8]) -> bool {
    let whole = decode(input, usize::MAX / 2);
    for part in [1, 2, 7] {
        assert_eq!(decode(input, part), whole, "in parts of {part}");
    }
    let Some((data, trailers, length)) = whole else { return false };
    assert_eq!(delimit::chunked(input), Some((data.clone(), length)));
    let mut again = Vec::new();
    if !data.is_empty() {
        coding::put_head(data.len() as u64, &mut again);
        again.extend_from_slice(&data);
        again.extend_from_slice(coding::DATA_END);
    }
    coding::put_last(&trailers, &mut again);
    let length = again.len();
    assert_eq!(decode(&again, usize::MAX / 2), Some((data, trailers.clone(), length)));
    let _ = trailers_for_client(&trailers);
    true
}

pub fn route(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(route) = text.parse::<Route>() else { return false };
    assert_eq!(route.to_string().parse::<Route>(), Ok(route.clone()));
    let origin = route.origin().clone();
    assert_eq!(origin.to_string().parse::<OriginUrl>(), Ok(origin));
    match route.step() {
        Step::Lead(to) => assert_eq!(to.route.to_string().parse(), Ok(to.route)),
        Step::Fetch(fetch) if fetch.origin.is_none() => {
            assert!(fetch.target.parse::<Route>().is_ok(), "{}", fetch.target);
        }
        Step::Fetch(fetch) => {
            assert!(fetch.target.starts_with('/'));
            // Nothing that ends a request line.
            assert!(fetch.target.bytes().all(|b| b.is_ascii_graphic()), "{}", fetch.target);
        }
    }
    true
}

pub fn ticket_route(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let _ = TicketRoute::redacted(text);
    let Ok(route) = text.parse::<TicketRoute>() else { return false };
    assert_eq!(route.to_string(), text);
    let secret = route.token().rsplit('.').next().unwrap();
    let shown = TicketRoute::redacted(text);
    let around = text.replacen(&format!(".{secret}/"), "", 1);
    assert!(shown.contains(secret) <= around.contains(secret), "{shown}");
    // Under the prefix of a ticket, whatever it is.
    if let Ok(fetch) = KEYS.1.step(&route) {
        let target = fetch.origin.map_or(fetch.target, |origin| origin.target().to_owned());
        assert!(target.starts_with("/dir/") || target.starts_with("/lh2/"), "{target}");
    }
    true
}

/// The key that signed the tokens of the corpus, and what one of them says.
static KEYS: LazyLock<(KeySet, longhaul_protocol::ticket::Ticket)> = LazyLock::new(|| {
    let keys = KeySet::parse(&Signer::from_seed([1; 32]).unwrap().public_set()).unwrap();
    let token = include_str!("../../corpus/token/prefix");
    let ticket = keys.verify(token, now()).unwrap().ticket;
    (keys, ticket)
});

fn now() -> UnixTime {
    UnixTime::try_from(1_800_000_000).unwrap()
}

/// No token but those that were signed is taken. Hardly an input is one of them, so those count that
/// are refused only for their signature.
pub fn token(input: &[u8]) -> bool {
    const SIGNED: [&str; 2] =
        [include_str!("../../corpus/token/prefix"), include_str!("../../corpus/token/exact")];
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let verified = match KEYS.0.verify(text, now()) {
        Ok(verified) => verified,
        Err(error) => return matches!(error, TicketError::Altered(_)),
    };
    assert!(SIGNED.contains(&text), "{text} was never signed");
    assert!(TicketRoute::new(text, "f").is_ok());
    let signer = Signer::from_seed([1; 32]).unwrap();
    assert_eq!(signer.sign(&verified.ticket).unwrap(), text);
    true
}

/// The same for announcements.
pub fn announcement(input: &[u8]) -> bool {
    const SIGNED: [&str; 2] = [
        include_str!("../../corpus/announcement/whole"),
        include_str!("../../corpus/announcement/short"),
    ];
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match Announcement::verify_signature(text, &DEPOT_KEYS) {
        Ok(read) => {
            assert!(SIGNED.contains(&text), "{text} was never signed");
            assert_eq!(Announcement::read_unverified(text), Ok(read));
            true
        }
        Err(error) => matches!(error, AnnouncementError::Altered(_)),
    }
}

static DEPOT_KEYS: LazyLock<KeySet> = LazyLock::new(|| {
    let signer = Signer::from_seed([1; 32]).unwrap().named("a:3880");
    KeySet::parse(&signer.public_set()).unwrap()
});

/// The input is a file of keys.
pub fn keys(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(keys) = KeySet::parse(text) else { return false };
    let kids: Vec<_> = keys.kids().collect();
    // A key is taken under the name that tickets use, and no ticket of another's opens by it.
    let token = include_str!("../../corpus/token/prefix");
    if let Ok(verified) = keys.verify(token, now()) {
        assert!(kids.contains(&verified.key.as_str()), "{}", verified.key);
    }
    true
}

/// The input is a field's value, of an answer or of trailers.
pub fn proxy_status(input: &[u8]) -> bool {
    let Ok(value) = HeaderValue::from_bytes(input) else { return false };
    let mut fields = Fields::from_iter([(PROXY_STATUS.clone(), value.clone())]);
    let Some(fault) = reported(&fields) else { return false };
    assert!(!fault.reason.contains(char::is_control), "it writes lines of the log");
    // The field that is written for it is read as the same fault.
    let said = fault.proxy_status(&"d1".parse().unwrap());
    let again = reported(&Fields::from_iter([(PROXY_STATUS.clone(), said)])).expect("an error");
    assert_eq!(again.error, fault.error);
    fields.append(PROXY_STATUS.clone(), value);
    let _ = reported(&fields);
    true
}

/// The input is a field's value.
pub fn digest(input: &[u8]) -> bool {
    let Ok(value) = HeaderValue::from_bytes(input) else { return false };
    let mut taken = false;
    for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
        let mut fields = Fields::new();
        fields.append(HeaderName::from_static(name), value.clone());
        let head = ResponseHead::parse(b"HTTP/1.1 200 OK\r\n\r\n").unwrap().unwrap().0;
        if let Some(found) = digest::of_response(&head, &GET, &fields) {
            assert_eq!(Digest::new(found.algorithm(), found.bytes()).as_ref(), Some(&found));
            let printed = Fields::from_iter([(digest::CONTENT_DIGEST.clone(), found.to_value())]);
            assert_eq!(digest::of_response(&head, &GET, &printed), Some(found));
            taken = true;
        }
        fields.append(HeaderName::from_static("want-repr-digest"), value.clone());
        let _ = digest::wanted(&fields);
    }
    taken
}
