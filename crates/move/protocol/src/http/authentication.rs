// SPDX-License-Identifier: GPL-2.0-or-later
//! Authentication of a connection instead of each request.
//!
//! `Negotiate` (RFC 4559) and NTLM prove who a client is once, and the server then takes all that comes on that
//! connection for that client's. A connection to a next hop serves many clients, so one on which this has
//! happened, or may have, serves no other client. Schemes that are not known to authenticate each request
//! are treated in the same way.

use super::{Fields, RequestHead, ResponseHead, fields::trim};
use http::{HeaderName, header};

/// Schemes whose credentials come with each request.
static OF_REQUESTS: [&str; 13] = [
    "aws",
    "aws4-hmac-sha256",
    "basic",
    "bearer",
    "digest",
    "dpop",
    "goog4-rsa-sha256",
    "hawk",
    "hoba",
    "oauth",
    "scram-sha-256",
    "sharedkey",
    "signature",
];

/// Schemes by which a server asks a connection to prove itself.
static OF_CONNECTIONS: [&str; 4] = ["kerberos", "negotiate", "nego2", "ntlm"];

/// Field in which Microsoft's servers say whether the connection was authenticated.
static PERSISTENT_AUTH: HeaderName = HeaderName::from_static("persistent-auth");

impl RequestHead {
    /// Whether it may make the connection on which it goes on that of its client.
    pub fn authenticates_connection(&self) -> bool {
        let mut credentials = self.headers.get_all(&header::AUTHORIZATION);
        credentials.any(|value| {
            let scheme = value.to_str().map_or("", |text| scheme(text));
            !is_one_of(&OF_REQUESTS, scheme)
        })
    }
}

impl ResponseHead {
    /// Whether the connection on which it came may have become that of one client.
    pub fn authenticates_connection(&self) -> bool {
        self.headers.contains(&PERSISTENT_AUTH)
            || asks_connection(&self.headers, &header::WWW_AUTHENTICATE)
            || asks_connection(&self.headers, &header::PROXY_AUTHENTICATE)
    }
}

/// Whether one of the challenges, or of what might be one, is for connections.
fn asks_connection(headers: &Fields, name: &HeaderName) -> bool {
    headers.get_all(name).any(|value| {
        // A challenge begins after a comma, and so do its parameters.
        let text = String::from_utf8_lossy(value.as_bytes());
        text.split(',').any(|part| is_one_of(&OF_CONNECTIONS, scheme(part)))
    })
}

fn scheme(text: &str) -> &str {
    trim(text).split([' ', '\t']).next().unwrap_or_default()
}

fn is_one_of(schemes: &[&str], scheme: &str) -> bool {
    schemes.iter().any(|known| known.eq_ignore_ascii_case(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_and_request_credentials_are_distinguished() {
        for (credentials, of_connection) in [
            ("", false),
            ("Authorization: Basic YTpi\r\n", false),
            ("Authorization: bearer x\r\n", false),
            ("Authorization: Digest username=\"Negotiate\"\r\n", false),
            ("Authorization: AWS4-HMAC-SHA256 Credential=x\r\n", false),
            ("Authorization: Negotiate YII=\r\n", true),
            ("Authorization: NTLM TlRM\r\n", true),
            ("authorization:\tntlm\tTlRM\r\n", true),
            ("Authorization: Basic x\r\nAuthorization: NTLM x\r\n", true),
            ("Authorization: SomethingNew x\r\n", true),
            ("Authorization:\r\n", true),
            ("Authorization: N\u{e9}\r\n", true),
        ] {
            let text = format!("GET /x HTTP/1.1\r\nHost: d\r\n{credentials}\r\n");
            let (head, _) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
            assert_eq!(head.authenticates_connection(), of_connection, "{credentials}");
        }
        for (fields, of_connection) in [
            ("", false),
            ("WWW-Authenticate: Basic realm=\"NTLM, not\"\r\n", false),
            ("WWW-Authenticate: Basic realm=\"x\", NTLM\r\n", true),
            ("WWW-Authenticate: Negotiate YII=\r\n", true),
            ("Www-Authenticate: Bearer\r\nWWW-Authenticate: negotiate\r\n", true),
            ("Proxy-Authenticate: NTLM\r\n", true),
            ("Persistent-Auth: true\r\n", true),
        ] {
            let text = format!("HTTP/1.1 401 Who\r\n{fields}\r\n");
            let (head, _) = ResponseHead::parse(text.as_bytes()).unwrap().unwrap();
            assert_eq!(head.authenticates_connection(), of_connection, "{fields}");
        }
    }
}
