// SPDX-License-Identifier: GPL-2.0-or-later
//! Origins that ask for a login: the client is sent back to the site, once, and nowhere else.

use crate::common::{
    client::{curl, exchange, get, status},
    process::Daemon,
    scripted::Scripted,
};
use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

const CHALLENGE: &str = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"files\"\r\n\
    Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\nlogin";

/// A depot near the client and one near the origin.
struct Pair(Daemon, Daemon);

impl Pair {
    fn new() -> Self {
        let [near, far] = ["near", "far"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
        Self(near, far)
    }

    /// What a client gets through none, one or both of them before the last.
    fn get(&self, origin: &Scripted, path: &str) -> [(String, Vec<u8>); 2] {
        ["-".to_owned(), self.1.authority()].map(|chain| {
            let (head, body, end) = get(self.0.address, &origin.route(&chain, path));
            end.unwrap();
            (head, body)
        })
    }
}

fn location(head: &str) -> Option<&str> {
    head.lines().find_map(|line| line.strip_prefix("Location: "))
}

#[test]
fn challenge_sends_the_client_back_to_the_site() {
    let (depots, origin) = (Pair::new(), Scripted::answering(CHALLENGE));
    let site = format!("http://{}/f.bin?a=b&lh-direct=1", origin.address);
    for (head, body) in depots.get(&origin, "/f.bin?a=b") {
        assert_eq!((status(&head), &body[..]), (302, &b"login"[..]), "{head}");
        assert_eq!(location(&head), Some(site.as_str()), "{head}");
        // The answer must not be cached, and no client may be asked for a password under the depot's name.
        assert_eq!(head.matches("Cache-Control: no-store\r\n").count(), 1, "{head}");
        for dropped in ["WWW-Authenticate", "Set-Cookie", "max-age"] {
            assert!(!head.to_lowercase().contains(&dropped.to_lowercase()), "{dropped}: {head}");
        }
    }
    let route = origin.route(&depots.1.authority(), "/f.bin");
    let head = format!("HEAD {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
    let (head, body, _) = exchange(depots.0.address, head.as_bytes());
    assert!(status(&head) == 302 && body.is_empty(), "{head}");
    assert!(location(&head).unwrap().ends_with("/f.bin?lh-direct=1"), "{head}");
    // The log has what the client got.
    depots.1.await_log(&["complete", "status=302"]);
}

#[test]
fn client_sent_back_before_gets_the_error_explained() {
    let (depots, origin) = (Pair::new(), Scripted::answering(CHALLENGE));
    for (head, body) in depots.get(&origin, "/f.bin?lh-direct=1") {
        assert!(status(&head) == 401 && location(&head).is_none(), "{head}");
        let text = String::from_utf8(body).unwrap();
        assert!(text.contains("asks for a login") && text.contains("lh-direct=1"), "{text}");
        assert!(head.contains("error=http_request_denied"), "{head}");
    }
}

#[test]
fn site_that_ignores_the_mark_makes_no_loop() {
    let depot = Daemon::depot("id = \"near\"");
    let (near, own) = (depot.authority(), Arc::new(OnceLock::<SocketAddr>::new()));
    let at = Arc::clone(&own);
    let origin = Scripted::new(move |mut stream, head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let answer = if head.contains("(longhaul)") {
            CHALLENGE.to_owned()
        } else {
            let to = format!("http://{near}/lh1/fetch/-/http:{}{target}", at.get().unwrap());
            format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
        };
        let _ = stream.write_all(answer.as_bytes());
    });
    own.set(origin.address).unwrap();
    let url = format!("http://{}/f.bin", origin.address);
    let got = curl(&["-L", "-w", "\n%{http_code} %{num_redirects}", &url]);
    let said = String::from_utf8_lossy(&got.stdout);
    // To the depot, back, and to the depot again.
    assert!(said.contains("lh-direct=1") && said.ends_with("\n401 3"), "{said}");
}

#[test]
fn origin_cannot_choose_login_destination() {
    let depots = Pair::new();
    for fields in [
        "Location: http://evil.example/login",
        "Location: //evil.example/x.bin\r\nSet-Cookie: a=b",
        "Location: https://evil.example/in.php?next=/dir/f.bin",
        "Location: /lh1/fetch/-/http:evil.example/",
        "Location: http://evil.example/login\r\nLocation: http://evil.example/f.bin",
    ] {
        let answer = format!("HTTP/1.1 302 Found\r\n{fields}\r\nContent-Length: 0\r\n\r\n");
        let origin = Scripted::answering(answer);
        for (head, _) in depots.get(&origin, "/dir/f.bin") {
            let site = format!("http://{}/dir/f.bin?lh-direct=1", origin.address);
            assert_eq!(location(&head), Some(site.as_str()), "{fields}: {head}");
            assert!(!head.contains("evil"), "{fields}: {head}");
        }
    }
}

#[test]
fn redirects_between_files_are_as_without_logins() {
    let depots = Pair::new();
    for (given, stays) in [
        ("/v2/g.bin", true),
        ("g.bin?signed=1", true),
        ("http://mirror.example/f.bin", false),
        ("http://mirror.example/pub/g.bin?k=v", false),
    ] {
        let origin = Scripted::answering(format!(
            "HTTP/1.1 302 Found\r\nLocation: {given}\r\nContent-Length: 0\r\n\r\n"
        ));
        for (head, _) in depots.get(&origin, "/f.bin") {
            let to = location(&head).unwrap();
            assert!(!to.contains("lh-direct"), "{given}: {to}");
            let is_route = to.starts_with("/lh1/fetch/") && to.ends_with(given.trim_matches('/'));
            assert!(if stays { is_route } else { to == given }, "{given}: {to}");
        }
    }
}

#[test]
fn login_at_an_upload_is_left_to_the_client() {
    let depot = Daemon::depot(
        "id = \"d\"\n[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
         local = true\nmethods = [\"PUT\", \"POST\"]",
    );
    let origin = Scripted::answering(CHALLENGE);
    for method in ["PUT", "POST"] {
        let route = origin.route("-", "/f.bin");
        let text = format!(
            "{method} {route} HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let (head, ..) = exchange(depot.address, text.as_bytes());
        assert!(status(&head) == 401 && location(&head).is_none(), "{head}");
    }
}
