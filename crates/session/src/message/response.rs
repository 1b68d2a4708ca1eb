// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of a response.

use super::{Fault, Framing, MAX_FIELDS, Method, RequestHead, framing, header_map, version};
use http::{HeaderMap, StatusCode, Version};

/// A response as it came from the next hop.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// The reason phrase, possibly empty.
    pub reason: String,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub headers: HeaderMap,
}

impl ResponseHead {
    /// Reads a head from the start of `bytes`: the head and its length, or nothing while it is
    /// not yet complete.
    ///
    /// # Errors
    /// What to answer (502): the next hop does not speak HTTP/1.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => {
                return Err(Fault::bad_response(format!(
                    "the next hop's answer is malformed: {error}"
                )));
            }
        };
        let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
        let Some(status) = status else {
            return Err(Fault::bad_response("the next hop's answer has no valid status"));
        };
        let head = Self {
            status,
            reason: response.reason.unwrap_or_default().to_owned(),
            version: version(response.version),
            headers: header_map(response.headers).map_err(Fault::bad_response)?,
        };
        Ok(Some((head, length)))
    }

    /// An interim response (1xx): the final one follows. 101 is none: nobody asked to switch.
    pub fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }

    /// How the end of the body is known (RFC 9112, section 6.3).
    ///
    /// # Errors
    /// What to answer (502): a length that can be read in two ways is not passed on.
    pub fn framing(&self, request: &RequestHead) -> Result<Framing, Fault> {
        if self.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Fault::bad_response("the next hop switched protocols unasked"));
        }
        let length = framing::content_length(&self.headers)
            .map_err(|error| Fault::bad_response(format!("the next hop's answer: {error}")))?;
        let chunked = framing::ends_chunked(&self.headers);
        if chunked.is_some() && length.is_some() {
            return Err(Fault::bad_response(
                "the next hop's answer has both Transfer-Encoding and Content-Length",
            ));
        }
        let no_body = request.method == Method::Head
            || matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match (chunked, length) {
            _ if no_body => Ok(Framing::Empty),
            // A client of HTTP/1.0 could not read it, and HTTP/1.0 has no transfer codings.
            (Some(_), _) if [self.version, request.version].contains(&Version::HTTP_10) => {
                Err(Fault::bad_response("the next hop sent a transfer coding in HTTP/1.0"))
            }
            (Some(true), _) => Ok(Framing::Chunked),
            (Some(false), _) | (None, None) => Ok(Framing::UntilClose),
            (None, Some(length)) => Ok(Framing::Length(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The framing of a response to a request line.
    fn framing(request: &str, response: &str) -> Result<Framing, u16> {
        let request = format!("{request}\r\nHost: d\r\n\r\n");
        let (request, _) = RequestHead::parse(request.as_bytes()).unwrap().unwrap();
        let response = format!("{response}\r\n\r\n");
        ResponseHead::parse(response.as_bytes())
            .map(Option::unwrap)
            .and_then(|(head, _)| head.framing(&request))
            .map_err(|fault| fault.status.as_u16())
    }

    #[test]
    fn bodies_end_as_the_rfc_says() {
        let get = "GET / HTTP/1.1";
        for (request, response, expected) in [
            (get, "HTTP/1.1 200 OK", Ok(Framing::UntilClose)),
            (get, "HTTP/1.1 200", Ok(Framing::UntilClose)),
            (get, "HTTP/1.1 200 OK\r\nContent-Length: 5", Ok(Framing::Length(5))),
            (get, "HTTP/1.1 200 OK\r\nContent-Length: 0", Ok(Framing::Length(0))),
            (
                get,
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5",
                Ok(Framing::Length(5)),
            ),
            (get, "HTTP/1.1 200 OK\r\nContent-Length: 5, 5", Ok(Framing::Length(5))),
            (get, "HTTP/1.1 200 OK\r\nContent-Length: 5, 6", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nContent-Length: five", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", Ok(Framing::Chunked)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked", Ok(Framing::Chunked)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip", Ok(Framing::UntilClose)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", Err(502)),
            (get, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", Err(502)),
            ("GET / HTTP/1.0", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", Err(502)),
            ("GET / HTTP/1.0", "HTTP/1.1 200 OK", Ok(Framing::UntilClose)),
            ("HEAD / HTTP/1.1", "HTTP/1.1 200 OK\r\nContent-Length: 5", Ok(Framing::Empty)),
            (
                "HEAD / HTTP/1.1",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
                Ok(Framing::Empty),
            ),
            (get, "HTTP/1.1 204 No Content\r\nContent-Length: 5", Ok(Framing::Empty)),
            (get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5", Ok(Framing::Empty)),
            (get, "HTTP/1.1 101 Switching Protocols", Err(502)),
            (get, "HTTP/1.1 99 Early", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nX : y", Err(502)),
            (get, "ICY 200 OK", Err(502)),
        ] {
            assert_eq!(framing(request, response), expected, "{request}: {response}");
        }
    }
}
