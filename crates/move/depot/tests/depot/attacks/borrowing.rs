// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections to origins that authenticate the connection (Negotiate, NTLM): the next client must not get a
//! connection on which another user has logged in.

use super::open_depot;
use crate::common::{
    client::{exchange, status},
    process::Daemon,
    scripted::{Scripted, read_head},
};
use std::io::Write;

/// An origin that keeps its connections, and takes every request on one for its logged-in user's. Its first
/// answer is the challenge of `/challenge`.
fn by_connection(challenge: &'static str) -> Scripted {
    Scripted::new(move |mut stream, head| {
        let mut head = head.to_owned();
        let mut user = "nobody";
        loop {
            let authorization =
                |line: &str| line.to_ascii_lowercase().starts_with("authorization:");
            if head.lines().any(authorization) {
                user = "alice";
            }
            let answer = if head.contains(" /challenge ") {
                user = "half way";
                format!("401 Unauthorized\r\n{challenge}")
            } else {
                "200 OK\r\n".to_owned()
            };
            let text = format!("HTTP/1.1 {answer}Content-Length: {}\r\n\r\n{user}", user.len());
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
            match read_head(&stream) {
                Some(next) => head = next,
                None => return,
            }
        }
    })
}

fn ask(depot: &Daemon, route: &str, fields: &str) -> String {
    let text = format!("GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n{fields}\r\n");
    let (head, body, _) = exchange(depot.address, text.as_bytes());
    // A challenge sends the client back to the site.
    assert!([200, 302].contains(&status(&head)), "{head}");
    String::from_utf8(body).unwrap()
}

/// Whom the origin takes the requests with these fields for, one after the other on one connection to
/// the depot: each finds what the one before has left.
fn in_order(depot: &Daemon, route: &str, all: &[&str]) -> Vec<String> {
    let one = |fields: &&str| format!("GET {route} HTTP/1.1\r\nHost: d\r\n{fields}\r\n");
    let mut text: String = all.iter().map(one).collect();
    text.insert_str(text.len() - 2, "Connection: close\r\n");
    let (head, rest, _) = exchange(depot.address, text.as_bytes());
    let answers = format!("{head}{}", String::from_utf8_lossy(&rest));
    let bodies = answers.split("\r\n\r\n").skip(1);
    bodies.map(|body| body.split("HTTP").next().unwrap().to_owned()).collect()
}

/// Sends `fields` between strangers' requests: the origin must take that request alone for alice's.
fn stranger_after(fields: &str) {
    let (far, near) = (open_depot(""), Daemon::depot("id = \"near\""));
    for (depot, chain) in [(&far, "-".to_owned()), (&near, far.authority())] {
        let origin = by_connection("WWW-Authenticate: Negotiate\r\n");
        let route = origin.route(&chain, "/");
        let users = in_order(depot, &route, &["", fields, "", "", ""]);
        assert_eq!(users, ["nobody", "alice", "nobody", "nobody", "nobody"], "{fields}");
    }
}

#[test]
fn logged_in_connection_is_not_shared() {
    for fields in [
        "Authorization: Negotiate YIIJvwYG\r\n",
        "authorization: NEGOTIATE YIIJvwYG\r\n",
        "Authorization: NTLM TlRMTVNTUAADAAAA\r\n",
        "Authorization:   ntlm\tTlRMTVNTUAADAAAA\r\n",
    ] {
        stranger_after(fields);
    }
}

#[test]
fn connection_during_login_is_not_shared() {
    for challenge in [
        "WWW-Authenticate: NTLM TlRMTVNTUAACAAAA\r\n",
        "WWW-Authenticate: Basic realm=\"a, b\", Negotiate oRQwEqADCgEB\r\n",
        "WWW-Authenticate: Basic realm=\"x\"\r\nwww-authenticate: negotiate\r\n",
    ] {
        let (depot, origin) = (open_depot(""), by_connection(challenge));
        assert_eq!(ask(&depot, &origin.route("-", "/challenge"), ""), "half way");
        assert_eq!(ask(&depot, &origin.route("-", "/"), ""), "nobody", "{challenge}");
    }
}

#[test]
fn connections_with_per_request_logins_are_shared() {
    let (depot, origin) = (open_depot(""), by_connection(""));
    for credentials in ["Basic YTpi", "Bearer Negotiate", "bearer NTLM"] {
        // The origin takes every later client of the connection for alice: it is the same connection.
        let logged_in = format!("Authorization: {credentials}\r\n");
        let users = in_order(&depot, &origin.route("-", "/"), &[&logged_in, ""]);
        assert_eq!(users, ["alice", "alice"], "{credentials}");
    }
}
