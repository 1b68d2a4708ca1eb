// SPDX-License-Identifier: GPL-2.0-or-later
//! A server and a document, from a URL or the name of a host.

use http::{Uri, uri::Scheme};

/// What is asked of which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Name or address of the server, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it is asked over TLS.
    pub is_tls: bool,
    /// The header section of a request for the document.
    pub head: String,
    /// That of an upload to the same URL, of a document that is larger than what is ever sent.
    pub upload_head: String,
}

/// The length of a document that no upload of ten seconds sends.
const ENDLESS: u64 = 1 << 42;

/// Why nothing can be asked.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    /// It is neither a URL nor a host.
    #[error("{0:?} is neither a host nor a URL, as in http://files.example.org/large.tar")]
    Text(String),
    /// No other scheme is spoken.
    #[error("{0}: only http and https URLs are measured")]
    Scheme(String),
}

impl Request {
    /// Of a URL, or of a host alone, whose `/` is asked for.
    ///
    /// # Errors
    /// It is neither, or a URL of another scheme.
    pub fn parse(text: &str) -> Result<Self, RequestError> {
        let wrong = || RequestError::Text(text.to_owned());
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}/") };
        let uri: Uri = whole.parse().map_err(|_| wrong())?;
        let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
        if !is_tls && uri.scheme() != Some(&Scheme::HTTP) {
            return Err(RequestError::Scheme(text.to_owned()));
        }
        let authority = uri.authority().ok_or_else(wrong)?;
        // A password of a URL would be sent in the clear.
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(wrong());
        }
        // A port that is no number of 16 bits is none to the parser.
        let has_port = authority.as_str().len() > authority.host().len();
        if has_port && authority.port_u16().is_none() {
            return Err(wrong());
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let agent = concat!("longhaul-doctor/", env!("CARGO_PKG_VERSION"));
        let common = format!(
            "Host: {authority}\r\nUser-Agent: {agent}\r\nAccept: */*\r\nConnection: close\r\n"
        );
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            is_tls,
            head: format!("GET {path} HTTP/1.1\r\n{common}Accept-Encoding: identity\r\n\r\n"),
            upload_head: format!(
                "PUT {path} HTTP/1.1\r\n{common}Content-Length: {ENDLESS}\r\n\r\n"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_made_of_urls_and_hosts() {
        let request = Request::parse("http://files.example.org:8080/a?b=c").unwrap();
        assert_eq!((request.host.as_str(), request.port), ("files.example.org", 8080));
        assert!(
            request.head.starts_with("GET /a?b=c HTTP/1.1\r\nHost: files.example.org:8080\r\n")
        );
        assert!(request.head.ends_with("\r\n\r\n"));
        let request = Request::parse("10.0.0.1").unwrap();
        assert_eq!((request.host.as_str(), request.port), ("10.0.0.1", 80));
        assert!(request.head.starts_with("GET / HTTP/1.1\r\n"));
        assert_eq!(Request::parse("http://[::1]:81/").unwrap().host, "::1");
        let secure = Request::parse("https://files.example.org/a").unwrap();
        assert!(secure.is_tls && secure.port == 443 && !request.is_tls);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in
            ["", "http://", "a b", "http://a/\r\nX: y", "http://user:secret@a/", "http://a:99999/"]
        {
            assert!(Request::parse(text).is_err(), "{text:?}");
        }
        assert!(matches!(Request::parse("ftp://a/"), Err(RequestError::Scheme(_))));
    }
}
