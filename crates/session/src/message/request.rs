// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of a request.

use super::{Fault, MAX_FIELDS, ProxyError, framing, header_map, version};
use http::{HeaderMap, StatusCode, Version, header};

/// The methods that are relayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Wants head and body.
    Get,
    /// Wants the head alone.
    Head,
}

impl Method {
    /// As on a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
        }
    }
}

/// A request that may be passed on: GET or HEAD, without a body, its framing beyond doubt.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// GET or HEAD.
    pub method: Method,
    /// Path and query. Where the client sent a whole URL, its scheme and host are gone.
    pub target: String,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub headers: HeaderMap,
}

impl RequestHead {
    /// Reads a head from the start of `bytes`.
    ///
    /// Gives the head and its length, or nothing while the head is not yet complete.
    ///
    /// # Errors
    /// What to answer: 400 for what is malformed or ambiguous, 405 and 501 for what is not done
    /// here, 431 for too many fields, 505 for another HTTP.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Err(Fault::bad_request("the request line is not complete"));
        };
        let head = Self {
            method: self::method(method)?,
            target: origin_form(target),
            version: version(request.version),
            headers: header_map(request.headers).map_err(Fault::bad_request)?,
        };
        head.check_host()?;
        head.check_no_body()?;
        Ok(Some((head, length)))
    }

    /// One `Host` and no more (RFC 9112, section 3.2); HTTP/1.0 knew none.
    fn check_host(&self) -> Result<(), Fault> {
        match (self.headers.get_all(header::HOST).iter().count(), self.version) {
            (1, _) | (0, Version::HTTP_10) => Ok(()),
            (n, _) => Err(Fault::bad_request(format!("the request has {n} Host fields, not one"))),
        }
    }

    /// GET and HEAD need no body, and a body that two readers delimit differently is how
    /// requests are smuggled: none is relayed.
    fn check_no_body(&self) -> Result<(), Fault> {
        let length = framing::content_length(&self.headers).map_err(Fault::bad_request)?;
        match (framing::ends_chunked(&self.headers), length) {
            (Some(_), Some(_)) => {
                Err(Fault::bad_request("the request has both Transfer-Encoding and Content-Length"))
            }
            (Some(_), None) => Err(Fault::new(
                StatusCode::NOT_IMPLEMENTED,
                ProxyError::HttpRequestError,
                "bodies of requests are not relayed",
            )),
            (None, None | Some(0)) => Ok(()),
            (None, Some(_)) => Err(Fault::bad_request("bodies of requests are not relayed")),
        }
    }
}

/// The fault for what the parser does not take.
fn unreadable(error: httparse::Error) -> Fault {
    let (status, reason) = match error {
        httparse::Error::TooManyHeaders => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            format!("the request has more than {MAX_FIELDS} fields"),
        ),
        httparse::Error::Version => (
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "the request is neither HTTP/1.1 nor HTTP/1.0".to_owned(),
        ),
        other => (StatusCode::BAD_REQUEST, format!("the request is malformed: {other}")),
    };
    Fault::new(status, ProxyError::HttpRequestError, reason)
}

/// GET and HEAD; known methods are not allowed, unknown ones not implemented.
fn method(text: &str) -> Result<Method, Fault> {
    let status = match text {
        "GET" => return Ok(Method::Get),
        "HEAD" => return Ok(Method::Head),
        "POST" | "PUT" | "DELETE" | "OPTIONS" | "PATCH" | "TRACE" | "CONNECT" => {
            StatusCode::METHOD_NOT_ALLOWED
        }
        _ => StatusCode::NOT_IMPLEMENTED,
    };
    let reason = format!("{text} is not relayed, only GET and HEAD are");
    Err(Fault::new(status, ProxyError::HttpRequestError, reason))
}

/// A server must take `http://host/path` on the request line too (RFC 9112, section 3.2.2).
fn origin_form(target: &str) -> String {
    let after_host = target
        .get(..7)
        .filter(|scheme| scheme.eq_ignore_ascii_case("http://"))
        .and_then(|_| target[7..].find('/').map(|slash| &target[7 + slash..]));
    after_host.unwrap_or(target).to_owned()
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
        assert_eq!(head.headers[header::RANGE], "bytes=0-1");
        for cut in 0..length {
            assert!(RequestHead::parse(&text.as_bytes()[..cut]).unwrap().is_none(), "{cut}");
        }
    }

    #[test]
    fn forms_that_servers_must_take() {
        for text in [
            "HEAD /x HTTP/1.0\r\n\r\n",
            "GET HTTP://depot:3880/x HTTP/1.1\r\nHost: other\r\n\r\n",
            "\r\nGET /x HTTP/1.1\nHost:d\nContent-Length: 0\n\n",
        ] {
            let (head, _) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
            assert_eq!(head.target, "/x", "{text}");
        }
    }

    #[test]
    fn ambiguous_and_malformed_requests_are_refused() {
        let get = |fields: &str| format!("GET /x HTTP/1.1\r\nHost: d\r\n{fields}\r\n");
        for (text, expected) in [
            (get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400),
            (get("Content-Length: 5\r\nContent-Length: 6\r\n"), 400),
            (get("Content-Length: 0, 1\r\n"), 400),
            (get("Content-Length: +0\r\n"), 400),
            (get("Content-Length: -1\r\n"), 400),
            (get("Content-Length: 0x0\r\n"), 400),
            (get("Content-Length:\r\n"), 400),
            (get("Content-Length: 99999999999999999999\r\n"), 400),
            (get("Content-Length: 5\r\n"), 400),
            (get("Transfer-Encoding: chunked\r\n"), 501),
            (get("Transfer-Encoding : chunked\r\n"), 400),
            (get(" folded\r\n"), 400),
            (get("X: a\r\n b\r\n"), 400),
            (get("Bad Name: x\r\n"), 400),
            (get("X: a\0b\r\n"), 400),
            (get("X: a\rb\r\n"), 400),
            (get("Host: e\r\n"), 400),
            ("GET /x HTTP/1.1\r\n\r\n".to_owned(), 400),
            ("GET /x y HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 505),
            ("GET /x\r\n\r\n".to_owned(), 400),
            ("GET /x HTTP/2.0\r\nHost: d\r\n\r\n".to_owned(), 505),
            ("POST /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 405),
            ("CONNECT d:1 HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 405),
            ("BREW /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 501),
            ("get /x HTTP/1.1\r\nHost: d\r\n\r\n".to_owned(), 501),
            (get(&"X: y\r\n".repeat(MAX_FIELDS)), 431),
        ] {
            assert_eq!(status(&text), Some(expected), "{text:?}");
        }
    }
}
