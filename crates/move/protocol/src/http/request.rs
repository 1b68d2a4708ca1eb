// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of a request.

use super::{
    Fault, Fields, Framing, MAX_FIELDS, Method, ProxyError, framing,
    framing::Codings,
    lines::{self, LineError},
    version, via,
};
use crate::origin::OriginUrl;
use http::{StatusCode, Version, header};

/// A request that may be passed on: its method is relayed, its framing beyond doubt.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// Path and query. Where the client sent a whole URL of http, its scheme and host are gone.
    pub target: String,
    /// The whole URL, where the client sent that, as to a forward proxy.
    pub url: Option<String>,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub headers: Fields,
    framing: Framing,
    expects_continue: bool,
    depots_before: usize,
}

impl RequestHead {
    /// Reads a head from the start of `bytes`.
    ///
    /// Gives the head and its length, or nothing while the head is not yet complete.
    ///
    /// # Errors
    /// What to answer: 400 for a malformed or ambiguous request, 405 and 501 for an unsupported
    /// method or feature, 411 for a body of unknown length, 417 for an unknown expectation, 431 for too many
    /// fields, 505 for another HTTP. The connection is of no use after that: where the request
    /// ends is not known.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let Some((parts, end)) = RequestParts::parse(bytes)? else { return Ok(None) };
        Ok(Some((Self::of(parts)?, end)))
    }

    /// The same of a head whose parts have been read.
    pub(super) fn of(parts: RequestParts<'_>) -> Result<Self, Fault> {
        let RequestParts { method, target, version, headers } = parts;
        if method == CONNECT {
            return Err(no_tunnels(target));
        }
        let path = origin_form(target);
        let mut head = Self {
            method: method.parse()?,
            target: path.unwrap_or(target).to_owned(),
            url: is_url(target).then(|| target.to_owned()),
            version,
            headers,
            framing: Framing::Empty,
            expects_continue: false,
            depots_before: 0,
        };
        head.check_target()?;
        check_host(&head.headers, version)?;
        head.depots_before = via::read(&head.headers)?;
        head.framing = head.read_framing()?;
        head.expects_continue = head.read_expectation()?;
        Ok(head)
    }

    /// How the end of the body is known; never [`Framing::UntilClose`].
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110, section
    /// 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// Whether the client accepts trailers (RFC 9110, section 10.1.4).
    pub fn takes_trailers(&self) -> bool {
        self.version != Version::HTTP_10 && self.headers.lists(&header::TE, "trailers")
    }

    /// Whether the client may send another request on this connection. HTTP/1.0 clients may not:
    /// the `Keep-Alive` they know goes wrong behind proxies (RFC 9112, appendix C.2.2).
    pub fn keeps_alive(&self) -> bool {
        self.version != Version::HTTP_10 && !self.headers.lists(&header::CONNECTION, "close")
    }

    /// Whom the client asks: the value of `Host`, or what the whole URL says instead (RFC 9112, section 3.2.2).
    pub fn asked_authority(&self) -> Option<&str> {
        match &self.url {
            Some(url) => url.split_once("://")?.1.split(['/', '?']).next(),
            None => self.headers.get(&header::HOST)?.to_str().ok(),
        }
    }

    /// Whether it came through a depot.
    pub fn came_through_depot(&self) -> bool {
        self.depots_before > 0
    }

    /// Number of depots that have passed it on, as `Via` says.
    pub fn depots_before(&self) -> usize {
        self.depots_before
    }

    /// OPTIONS of a server as a whole is not relayed: which server?
    fn check_target(&self) -> Result<(), Fault> {
        if self.method == Method::Options && !self.target.starts_with('/') {
            let others: Vec<_> =
                Method::ALL.into_iter().filter(|method| *method != Method::Options).collect();
            let reason = "OPTIONS is relayed for a route, not for the depot";
            return Err(Fault::method_not_allowed(&others, reason));
        }
        Ok(())
    }

    /// RFC 9112, section 6.3, with every choice that it leaves taken for refusal.
    fn read_framing(&self) -> Result<Framing, Fault> {
        let length = framing::content_length(&self.headers).map_err(Fault::bad_request)?;
        let framing = match (framing::codings(&self.headers), length) {
            (Codings::None, None) => {
                self.check_length_needed()?;
                Framing::Empty
            }
            (Codings::None, Some(length)) => Framing::Length(length),
            (_, Some(_)) => {
                let reason = "the request has both Transfer-Encoding and Content-Length";
                return Err(Fault::bad_request(reason));
            }
            _ if self.version == Version::HTTP_10 => {
                return Err(Fault::bad_request("HTTP/1.0 has no transfer codings"));
            }
            (Codings::Chunked, None) => Framing::Chunked,
            (Codings::OthersThenChunked, None) => {
                return Err(Fault::new(
                    StatusCode::NOT_IMPLEMENTED,
                    ProxyError::HttpRequestError,
                    "of the transfer codings only chunked is relayed",
                ));
            }
            (Codings::Others | Codings::Malformed, None) => {
                let reason = "Transfer-Encoding is not \"chunked\": the request's end is unknown";
                return Err(Fault::bad_request(reason));
            }
        };
        match framing {
            _ if self.method.may_have_body() => Ok(framing),
            Framing::Empty | Framing::Length(0) => Ok(Framing::Empty),
            _ => Err(Fault::bad_request(format!("{} is not relayed with a body", self.method))),
        }
    }

    /// A body of HTTP/1.0 without a length would end with the connection, and so with the hope of
    /// an answer.
    fn check_length_needed(&self) -> Result<(), Fault> {
        let has_body = matches!(self.method, Method::Put | Method::Post | Method::Patch);
        if has_body && self.version == Version::HTTP_10 {
            let reason = format!("{} in HTTP/1.0 needs a Content-Length", self.method);
            let (status, error) = (StatusCode::LENGTH_REQUIRED, ProxyError::HttpRequestError);
            return Err(Fault::new(status, error, reason));
        }
        Ok(())
    }

    /// HTTP/1.0 knows no expectations, and without a body there is nothing to wait with.
    fn read_expectation(&self) -> Result<bool, Fault> {
        let mut values = self.headers.get_all(&header::EXPECT);
        if self.version == Version::HTTP_10 {
            return Ok(false);
        }
        if values.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
            let reason = "the request expects more than 100-continue";
            let (status, error) = (StatusCode::EXPECTATION_FAILED, ProxyError::HttpRequestError);
            return Err(Fault::new(status, error, reason));
        }
        let has_body = !matches!(self.framing, Framing::Empty | Framing::Length(0));
        Ok(has_body && self.headers.contains(&header::EXPECT))
    }
}

/// The method that asks for a tunnel.
pub(super) const CONNECT: &str = "CONNECT";

/// A head's parts, each well-formed by itself.
pub(super) struct RequestParts<'b> {
    pub method: &'b str,
    pub target: &'b str,
    pub version: Version,
    pub headers: Fields,
}

impl<'b> RequestParts<'b> {
    /// Reads a head from the start of `bytes`, with its length; nothing while it is not yet complete.
    pub(super) fn parse(bytes: &'b [u8]) -> Result<Option<(Self, usize)>, Fault> {
        // Some clients end a body with one line end too many (RFC 9112, section 2.2).
        let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
        let Some(length) = lines::block(&bytes[skipped..]).map_err(bad_line)? else {
            return Ok(None);
        };
        let end = skipped + length;
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&bytes[skipped..end]) {
            Ok(httparse::Status::Complete(read)) if read == length => {}
            Ok(_) => return Err(Fault::bad_request("the request is malformed: an empty line")),
            Err(error) => return Err(unreadable(error)),
        }
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Err(Fault::bad_request("the request line is not complete"));
        };
        let headers = Fields::parsed(request.headers).map_err(Fault::bad_request)?;
        Ok(Some((Self { method, target, version: version(request.version), headers }, end)))
    }
}

/// One `Host` and no more (RFC 9112, section 3.2); HTTP/1.0 knew none.
pub(super) fn check_host(headers: &Fields, version: Version) -> Result<(), Fault> {
    match (headers.get_all(&header::HOST).count(), version) {
        (1, _) | (0, Version::HTTP_10) => Ok(()),
        (n, _) => Err(Fault::bad_request(format!("the request has {n} Host fields, not one"))),
    }
}

/// The fault for lines that are not a valid header section.
fn bad_line(error: LineError) -> Fault {
    let status = match error {
        LineError::TooMany => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        LineError::BareLf | LineError::BareCr | LineError::Folded => StatusCode::BAD_REQUEST,
    };
    let reason = format!("the request's head is malformed: {error}");
    Fault::new(status, ProxyError::HttpRequestError, reason)
}

/// The fault for what the parser does not take.
fn unreadable(error: httparse::Error) -> Fault {
    let (status, reason) = match error {
        httparse::Error::TooManyHeaders => return bad_line(LineError::TooMany),
        httparse::Error::Version => (
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "the request is neither HTTP/1.1 nor HTTP/1.0".to_owned(),
        ),
        other => (StatusCode::BAD_REQUEST, format!("the request is malformed: {other}")),
    };
    Fault::new(status, ProxyError::HttpRequestError, reason)
}

/// A server must take `http://host/path` on the request line too (RFC 9112, section 3.2.2).
fn origin_form(target: &str) -> Option<&str> {
    target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
    target[7..].find('/').map(|slash| &target[7 + slash..])
}

/// Most targets are paths, and are not looked at further.
fn is_url(target: &str) -> bool {
    !target.starts_with('/') && OriginUrl::of_proxy(target).is_ok()
}

/// The fault for a client that takes the depot for a forward proxy and wants to speak TLS through it.
pub(super) fn no_tunnels(target: &str) -> Fault {
    let host = target.strip_suffix(":443").unwrap_or(target);
    let reason = format!(
        "this is a depot and no forward proxy (curl -x): it makes no tunnels; ask it for \
         /lh1/fetch/-/https:{host}/PATH"
    );
    Fault::method_not_allowed(&Method::ALL, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Option<u16> {
        RequestHead::parse(text.as_bytes()).err().map(|fault| fault.status.as_u16())
    }

    #[test]
    fn a_plain_request_is_read_up_to_its_end() {
        let text = "GET /lh1/x HTTP/1.1\r\nHost: d\r\nRange: bytes=0-1\r\n\r\nGET / garbage";
        let (head, length) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(&text[length..], "GET / garbage");
        assert_eq!((head.method, head.target.as_str()), (Method::Get, "/lh1/x"));
        assert_eq!(head.headers.get(&header::RANGE).unwrap(), "bytes=0-1");
        for cut in 0..length {
            assert!(RequestHead::parse(&text.as_bytes()[..cut]).unwrap().is_none(), "{cut}");
        }
    }

    #[test]
    fn forms_that_servers_must_take() {
        for text in [
            "HEAD /x HTTP/1.0\r\n\r\n",
            "GET HTTP://depot:3880/x HTTP/1.1\r\nHost: other\r\n\r\n",
            "\r\nGET /x HTTP/1.1\r\nHost:d\r\nContent-Length: 0\r\n\r\n",
            "OPTIONS /x HTTP/1.1\r\nHost:d\r\nContent-Length: 0\r\n\r\n",
        ] {
            let (head, length) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
            assert_eq!(head.target, "/x", "{text}");
            assert_eq!((head.framing(), length), (Framing::Empty, text.len()), "{text}");
        }
    }

    #[test]
    fn bodies_are_delimited_in_one_way_or_refused() {
        for (line, fields, expected) in [
            ("PUT /x HTTP/1.1", "", Ok(Framing::Empty)),
            ("PUT /x HTTP/1.1", "Content-Length: 0", Ok(Framing::Length(0))),
            ("PUT /x HTTP/1.1", "Content-Length: 5, 5", Ok(Framing::Length(5))),
            ("PUT /x HTTP/1.1", "Content-Length: 18446744073709551616", Err(400)),
            ("POST /x HTTP/1.0", "Content-Length: 5", Ok(Framing::Length(5))),
            ("POST /x HTTP/1.0", "", Err(411)),
            ("DELETE /x HTTP/1.0", "", Ok(Framing::Empty)),
            ("DELETE /x HTTP/1.1", "Content-Length: 5", Ok(Framing::Length(5))),
            ("PATCH /x HTTP/1.1", "Transfer-Encoding: Chunked", Ok(Framing::Chunked)),
            ("PATCH /x HTTP/1.1", "Transfer-Encoding:\t chunked\t ", Ok(Framing::Chunked)),
            ("PATCH /x HTTP/1.0", "Transfer-Encoding: chunked", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: chunked\r\nContent-Length: 0", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: x\r\nContent-Length: 5", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: gzip, chunked", Err(501)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: identity, chunked", Err(501)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: gzip", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: identity", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: chunked, gzip", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: chunked, chunked", Err(400)),
            (
                "POST /x HTTP/1.1",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                Err(400),
            ),
            (
                "POST /x HTTP/1.1",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
                Err(400),
            ),
            ("POST /x HTTP/1.1", "Transfer-Encoding: xchunked", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: \"chunked\"", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: chunked;q=1", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: chunked,", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: , chunked", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding:", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: \u{a0}chunked", Err(400)),
            ("POST /x HTTP/1.1", "Transfer-Encoding: \u{b}chunked", Err(400)),
            ("GET /x HTTP/1.1", "Transfer-Encoding: chunked", Err(400)),
            ("HEAD /x HTTP/1.1", "Content-Length: 5", Err(400)),
            ("OPTIONS /x HTTP/1.1", "Content-Length: 5", Err(400)),
        ] {
            let host = if fields.is_empty() { "Host: d" } else { "Host: d\r\n" };
            let text = format!("{line}\r\n{host}{fields}\r\n\r\n");
            let read = RequestHead::parse(text.as_bytes()).map(|head| head.unwrap().0.framing());
            assert_eq!(read.map_err(|fault| fault.status.as_u16()), expected, "{line}: {fields}");
        }
    }

    #[test]
    fn expectations_and_connections() {
        let put = "Content-Length: 5\r\n";
        for (version, fields, waits, keeps) in [
            ("1.1", put, false, true),
            ("1.1", "Content-Length: 5\r\nExpect: 100-Continue\r\n", true, true),
            ("1.1", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", true, true),
            ("1.1", "Expect: 100-continue\r\n", false, true),
            ("1.1", "Content-Length: 0\r\nExpect: 100-continue\r\n", false, true),
            ("1.0", "Content-Length: 5\r\nExpect: 100-continue\r\n", false, false),
            ("1.0", "Content-Length: 5\r\nExpect: the-impossible\r\n", false, false),
            ("1.0", "Content-Length: 5\r\nConnection: keep-alive\r\n", false, false),
            ("1.1", "Connection: x, CLOSE\r\n", false, false),
            ("1.1", "Connection: x\r\nConnection: close\r\n", false, false),
            ("1.1", "Connection: closed\r\n", false, true),
        ] {
            let text = format!("PUT /x HTTP/{version}\r\nHost: d\r\n{fields}\r\n");
            let (head, _) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
            assert_eq!((head.expects_continue(), head.keeps_alive()), (waits, keeps), "{text}");
        }
    }

    #[test]
    fn ambiguous_and_malformed_requests_are_refused() {
        let get = |fields: &str| format!("GET /x HTTP/1.1\r\nHost: d\r\n{fields}\r\n");
        for (text, expected) in [
            (get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400),
            (get("Content-Length: 5\r\nContent-Length: 6\r\n"), 400),
            (get("Content-Length: 0, 1\r\n"), 400),
            (get("Content-Length: 0,\r\n"), 400),
            (get("Content-Length: +0\r\n"), 400),
            (get("Content-Length: -1\r\n"), 400),
            (get("Content-Length: 0x0\r\n"), 400),
            (get("Content-Length:\r\n"), 400),
            (get("Content-Length: 99999999999999999999\r\n"), 400),
            (get("Content-Length: 5\r\n"), 400),
            (get("Transfer-Encoding : chunked\r\n"), 400),
            (get(" folded\r\n"), 400),
            (get("X: a\r\n b\r\n"), 400),
            (get("X: a\r\n\tb\r\n"), 400),
            (get("Bad Name: x\r\n"), 400),
            (get("X: a\0b\r\n"), 400),
            (get("X: a\rb\r\n"), 400),
            (get("X: a\r\r\n"), 400),
            (get("X: a\n"), 400),
            (get("Host: e\r\n"), 400),
            (get("Expect: 200-ok\r\n"), 417),
            (get("Expect: 100-continue\r\nExpect: more\r\n"), 417),
            ("GET /x HTTP/1.1\nHost: d\r\n\r\n".to_owned(), 400),
            ("GET /x HTTP/1.1\r\nHost: d\r\n\n".to_owned(), 400),
            ("\nGET /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 400),
            ("\r\n\r\nGET /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 400),
            ("GET  /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 400),
            ("GET /x HTTP/1.1\r\n\r\n".to_owned(), 400),
            ("GET /x y HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 505),
            ("GET /x\r\n\r\n".to_owned(), 400),
            ("GET /x HTTP/2.0\r\nHost: d\r\n\r\n".to_owned(), 505),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
            ("OPTIONS * HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 405),
            ("TRACE /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 405),
            ("CONNECT d:1 HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 405),
            ("BREW /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 501),
            ("get /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 501),
            (get(&"X: y\r\n".repeat(MAX_FIELDS)), 431),
        ] {
            assert_eq!(status(&text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn malformed_line_is_refused_before_the_end() {
        for text in ["GET /x HTTP/1.1\n", "GET /x HTTP/1.1\r\nX: y\n", "GET /x\rHTTP/1.1"] {
            assert_eq!(status(text), Some(400), "{text:?}");
        }
    }
}
