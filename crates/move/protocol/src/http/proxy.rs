// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests to a forward proxy: CONNECT, absolute URLs, and the client's name and password.
//!
//! Source: RFC 9110, sections 9.3.6 (CONNECT), 7.6 and 11.7; RFC 9112, section 3.2; RFC 7617 (Basic).
//! An absolute URL is read with the rest of a request's head ([`RequestHead::url`]).
//! Limits: a name and a password have at most [`MAX_CREDENTIAL`] bytes each.

use super::{
    Fault, Fields, RequestHead,
    framing::{self, Codings},
    request::{CONNECT, RequestParts, check_host, no_tunnels},
    via,
};
use crate::{authority::Authority, depot_id::DepotId};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderValue, Version, header};

/// The longest name, and the longest password, that is read. A ticket may be the password.
pub const MAX_CREDENTIAL: usize = 16 << 10;

/// The head of a request to a proxy.
#[derive(Debug, Clone)]
pub enum ProxyRequest {
    /// CONNECT.
    Connect(ConnectHead),
    /// Any other method. It may have an absolute URL.
    Request(RequestHead),
}

/// The head of a CONNECT request, of which only the syntax has been checked.
#[derive(Debug, Clone)]
pub struct ConnectHead {
    /// The server, as the client wrote it.
    pub target: String,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub headers: Fields,
}

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: Vec<u8>,
}

impl ProxyRequest {
    /// Reads a head from the start of `bytes`, with its length; nothing while it is not yet complete.
    ///
    /// # Errors
    /// As [`RequestHead::parse`], except that CONNECT is accepted.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let Some((parts, end)) = RequestParts::parse(bytes)? else { return Ok(None) };
        let head = if parts.method == CONNECT {
            let RequestParts { target, version, headers, .. } = parts;
            Self::Connect(ConnectHead { target: target.to_owned(), version, headers })
        } else {
            Self::Request(RequestHead::of(parts)?)
        };
        Ok(Some((head, end)))
    }
}

impl ConnectHead {
    /// The server that the client wants a tunnel to.
    ///
    /// # Errors
    /// What to answer: 400 for a target that is not `HOST:PORT` and for a request with a body, 508 for one that has come
    /// through the proxy `own` before.
    pub fn server(&self, own: &DepotId) -> Result<Authority, Fault> {
        let server = connect_target(&self.target)?;
        check_host(&self.headers, self.version)?;
        via::read(&self.headers)?;
        via::check_loop(&self.headers, own)?;
        // Bytes behind the head belong to the tunnel. A proxy before this one that takes them for a body would find other
        // requests than the server.
        let length = framing::content_length(&self.headers).map_err(Fault::bad_request)?;
        if framing::codings(&self.headers) != Codings::None || length.is_some_and(|it| it > 0) {
            return Err(Fault::bad_request("CONNECT has no body"));
        }
        Ok(server)
    }

    /// The fault where no tunnels are made (405).
    pub fn refused(&self) -> Fault {
        no_tunnels(&self.target)
    }
}

/// The server in a CONNECT request's target.
///
/// # Errors
/// It is not `HOST:PORT` (400).
pub fn connect_target(target: &str) -> Result<Authority, Fault> {
    target.parse().map_err(|error| Fault::bad_request(format!("CONNECT takes HOST:PORT: {error}")))
}

impl Credentials {
    /// A field's value that shows them (Basic, RFC 7617).
    pub fn header(user: &str, password: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
    }

    /// Those of `Proxy-Authorization: Basic`. `None` if the field is missing, is repeated, or has another scheme.
    pub fn of_proxy(headers: &Fields) -> Option<Self> {
        let mut values = headers.get_all(&header::PROXY_AUTHORIZATION);
        Self::read(values.next().filter(|_| values.next().is_none())?)
    }

    /// Those of one value, by the scheme `Basic`.
    pub fn read(value: &HeaderValue) -> Option<Self> {
        let (scheme, code) = value.to_str().ok()?.split_once(' ')?;
        let code = code.trim_matches(' ');
        if !scheme.eq_ignore_ascii_case("basic") || code.len() > 3 * MAX_CREDENTIAL {
            return None;
        }
        let mut bytes = BASE64_STANDARD.decode(code).ok()?;
        let colon = bytes.iter().position(|&byte| byte == b':')?;
        let password = bytes.split_off(colon + 1);
        bytes.truncate(colon);
        let user = String::from_utf8(bytes).ok()?;
        (user.len().max(password.len()) <= MAX_CREDENTIAL).then_some(Self { user, password })
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The whole answer by which a tunnel begins.
pub const CONNECTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(text: &str) -> Result<String, u16> {
        let own = "d1".parse().unwrap();
        let head = ProxyRequest::parse(text.as_bytes()).map_err(|fault| fault.status.as_u16())?;
        let (head, length) = head.expect("a whole head");
        assert_eq!(length, text.len(), "{text}");
        let ProxyRequest::Connect(head) = head else { panic!("no CONNECT: {text}") };
        assert_eq!(head.refused().status, 405);
        head.server(&own).map(|it| it.to_string()).map_err(|fault| fault.status.as_u16())
    }

    #[test]
    fn connect_names_one_server_and_has_no_body() {
        let with = |target: &str, fields: &str| {
            connect(&format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"))
        };
        assert_eq!(with("O.example:443", ""), Ok("o.example:443".to_owned()));
        assert_eq!(with("[2001:db8::1]:22", "Content-Length: 0\r\n").unwrap(), "[2001:db8::1]:22");
        assert_eq!(connect("CONNECT o:1 HTTP/1.0\r\n\r\n").unwrap(), "o:1");
        for target in [
            "o",
            "o:0",
            "o:99999",
            ":443",
            "u@o:443",
            "http://o:443",
            "/x",
            "o:443/",
            "127.1:80",
            "*",
        ] {
            assert_eq!(with(target, ""), Err(400), "{target}");
        }
        for fields in [
            "Content-Length: 1\r\n",
            "Content-Length: 0, 1\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding: \r\n",
            "Host: y\r\n",
            "Via: (\r\n",
        ] {
            assert_eq!(with("o:443", fields), Err(400), "{fields}");
        }
        assert_eq!(with("o:443", "Via: 1.1 x, 1.1 D1 (longhaul)\r\n"), Err(508));
        assert_eq!(connect("CONNECT o:1 HTTP/1.1\r\n\r\n"), Err(400));
        assert_eq!(connect("CONNECT o:1\r\nX: y HTTP/1.1\r\nHost: x\r\n\r\n"), Err(400));
    }

    #[test]
    fn other_proxy_requests_parse_as_usual() {
        let text = b"GET http://o.example/x HTTP/1.1\r\nHost: y\r\n\r\n";
        let Ok(Some((ProxyRequest::Request(head), _))) = ProxyRequest::parse(text) else {
            panic!("no request")
        };
        assert_eq!(head.url.as_deref(), Some("http://o.example/x"));
        assert!(ProxyRequest::parse(b"CONNECT o:443 HTT").unwrap().is_none());
    }

    #[test]
    fn basic_credentials_are_read_from_a_single_field() {
        let read = |values: &[&str]| {
            let field =
                |value: &&str| (header::PROXY_AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            let fields: Fields = values.iter().map(field).collect();
            Credentials::of_proxy(&fields)
        };
        let of = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let me = read(&[&of("me:se:cret")]).unwrap();
        assert_eq!((me.user.as_str(), &me.password[..]), ("me", &b"se:cret"[..]));
        assert!(!format!("{me:?}").contains("cret"), "{me:?}");
        assert_eq!(read(&[&of("me:").replace("Basic", "bASIC")]).unwrap().password, b"");
        let long = "x".repeat(MAX_CREDENTIAL + 1);
        for values in [
            &[][..],
            &["Basic"],
            &["Basic !"],
            &["Bearer bWU6c2VjcmV0"],
            &[&of("nocolon")],
            &[&of(&format!("me:{long}"))],
            &[&of(&format!("{long}:x"))],
            &[&of("me:x"), &of("me:x")],
        ] {
            assert_eq!(read(values), None, "{values:?}");
        }
    }
}
