// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of a response.

use super::{
    Fault, Fields, Framing, MAX_FIELDS, Method, RequestHead, framing, framing::Codings, lines,
    version,
};
use http::{StatusCode, Version, header};

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
    pub headers: Fields,
}

impl ResponseHead {
    /// Reads a head from the start of `bytes`: the head and its length, or nothing while it is
    /// not yet complete.
    ///
    /// # Errors
    /// What to answer (502): the next hop does not speak HTTP/1.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let malformed = |why: &dyn std::fmt::Display| {
            Fault::bad_response(format!("the next hop's answer is malformed: {why}"))
        };
        let Some(length) = lines::block(bytes).map_err(|why| malformed(&why))? else {
            return Ok(None);
        };
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        match response.parse(&bytes[..length]) {
            Ok(httparse::Status::Complete(read)) if read == length => {}
            Ok(_) => return Err(malformed(&"it begins with an empty line")),
            Err(error) => return Err(malformed(&error)),
        }
        let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
        let Some(status) = status else {
            return Err(Fault::bad_response("the next hop's answer has no valid status"));
        };
        let head = Self {
            status,
            reason: response.reason.unwrap_or_default().to_owned(),
            version: version(response.version),
            headers: Fields::parsed(response.headers).map_err(Fault::bad_response)?,
        };
        Ok(Some((head, length)))
    }

    /// An interim response (1xx): the final one follows. 101 is excluded: depots never ask to switch.
    pub fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }

    /// Whether the connection may be used again when the body has been read to its end.
    pub fn keeps_alive(&self, framing: Framing) -> bool {
        let says = |option| self.headers.lists(&header::CONNECTION, option);
        framing != Framing::UntilClose
            && !says("close")
            && (self.version != Version::HTTP_10 || says("keep-alive"))
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
        let codings = framing::codings(&self.headers);
        let no_body = request.method == Method::Head
            || matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match (codings, length) {
            (Codings::None, _) if no_body => Ok(Framing::Empty),
            (Codings::None, None) => Ok(Framing::UntilClose),
            (Codings::None, Some(length)) => Ok(Framing::Length(length)),
            // Depots ask for no other codings, and what does not end in chunks ends for one reader
            // with the connection, and for another that finds the word in it with the last chunk.
            (Codings::Malformed | Codings::Others | Codings::OthersThenChunked, _) => {
                Err(Fault::bad_response("the next hop's Transfer-Encoding is not \"chunked\""))
            }
            (Codings::Chunked, Some(_)) => Err(Fault::bad_response(
                "the next hop's answer has both Transfer-Encoding and Content-Length",
            )),
            _ if no_body => Ok(Framing::Empty),
            // A client of HTTP/1.0 could not read it, and HTTP/1.0 has no transfer codings.
            _ if [self.version, request.version].contains(&Version::HTTP_10) => {
                Err(Fault::bad_response("the next hop sent a transfer coding in HTTP/1.0"))
            }
            (Codings::Chunked, None) => Ok(Framing::Chunked),
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
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", Ok(Framing::Chunked)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", Err(502)),
            (get, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked;x", Err(502)),
            (get, "\r\nHTTP/1.1 200 OK", Err(502)),
            (get, "HTTP/1.1 200 OK\nContent-Length: 5", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nX: y\r\n z", Err(502)),
            (get, "HTTP/1.1 200 OK\r\nX: y\rz", Err(502)),
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

    #[test]
    fn connection_is_kept_if_version_and_fields_allow_it() {
        for (head, framing, keeps) in [
            ("HTTP/1.1 200 OK", Framing::Length(5), true),
            ("HTTP/1.1 200 OK", Framing::Chunked, true),
            ("HTTP/1.1 200 OK", Framing::UntilClose, false),
            ("HTTP/1.1 200 OK\r\nConnection: Close", Framing::Empty, false),
            ("HTTP/1.1 200 OK\r\nConnection: keep-alive, close", Framing::Empty, false),
            ("HTTP/1.0 200 OK", Framing::Length(5), false),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive", Framing::Length(5), true),
        ] {
            let head = format!("{head}\r\n\r\n");
            let (head, _) = ResponseHead::parse(head.as_bytes()).unwrap().unwrap();
            assert_eq!(head.keeps_alive(framing), keeps, "{head:?}");
        }
    }
}
