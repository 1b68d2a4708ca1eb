// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a proxy leads: to listed servers, and never into its own host or unlisted networks.

use super::{Proxy, ann, answered, connect_head, get, refused};
use crate::common::{
    client::{self, connect},
    process::Daemon,
    scripted::Scripted,
};
use std::net::TcpListener;
use testkit::until;

fn status_of(proxy: &Proxy, url: &str) -> (u16, String) {
    let (status, _, body) = answered(connect(proxy.address()), &get(url, ""));
    (status, body)
}

#[test]
fn local_address_spelling_cannot_hide_it() {
    let tables = "[allow]\nclients = [\"127.0.0.0/8\"]\n\
        servers = [\"0.0.0.0/0:*\", \"::/0:*\", \"localhost:*\"]";
    let server = TcpListener::bind("[::]:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let port = server.local_addr().unwrap().port();
    for (proxy, via) in [
        (Proxy::with("", "", tables), false),
        // This depot judges addresses also if another one would connect.
        (Proxy::with("", "via = [\"127.0.0.1:1\"]", tables), true),
    ] {
        for host in [
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "0.0.0.0",
            "[::]",
            "169.254.169.254",
            "[::ffff:169.254.169.254]",
            "[fe80::1]",
            "10.0.0.1",
            "[::ffff:10.0.0.1]",
            "192.168.1.1",
            "[fd00::1]",
            "localhost",
        ] {
            if via && host == "localhost" {
                continue;
            }
            let (status, reason) = refused(proxy.address(), &format!("{host}:{port}"));
            assert_eq!(status, 403, "{host}: {reason}");
            assert!(reason.contains("its address is"), "{host}: {reason}");
            let (status, reason) = status_of(&proxy, &format!("http://{host}:{port}/"));
            assert_eq!(status, 403, "{host}: {reason}");
        }
    }
    assert!(server.accept().is_err(), "the server was connected to");
}

#[test]
fn servers_that_are_not_listed_are_refused() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let address = server.local_addr().unwrap();
    // `allow.upstreams` does not open servers: through a tunnel a client may send more than HTTP.
    let tables = format!(
        "[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\nupstreams = [\"127.0.0.0/8:*\"]\n\
         servers = [\"127.0.0.1:{}\", \"o.example:443\"]",
        address.port() ^ 1
    );
    for via in ["", "via = [\"127.0.0.1:1\"]"] {
        let proxy = Proxy::with("", via, &tables);
        for target in [address.to_string(), "o.example:80".to_owned(), "x.example:443".to_owned()] {
            let (status, reason) = refused(proxy.address(), &target);
            assert_eq!(status, 403, "{target}: {reason}");
            assert!(reason.contains("`allow.servers` does not list it"), "{reason}");
            assert_eq!(status_of(&proxy, &format!("http://{target}/")).0, 403, "{target}");
        }
    }
    assert!(server.accept().is_err());
}

#[test]
fn proxy_does_not_lead_to_itself() {
    let servers = "[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\n\
        servers = [\"127.0.0.0/8:*\", \"::/0:*\", \"d1.example:*\", \"localhost:*\"]";
    let proxy = Proxy::with("names = [\"d1.example\", \"https:d1.example\"]", "", servers);
    let own = proxy.address();
    for target in [
        own.to_string(),
        format!("[::ffff:127.0.0.1]:{}", own.port()),
        "d1.example:3880".to_owned(),
        "D1.EXAMPLE:443".to_owned(),
    ] {
        let (status, reason) = refused(own, &target);
        assert_eq!(status, 508, "{target}: {reason}");
        assert!(reason.contains("is this proxy itself"), "{reason}");
    }
    // A URL that leads here by a name that only a resolver knows comes round once.
    let (status, reason) = status_of(&proxy, &format!("http://localhost:{}/", own.port()));
    assert_eq!(status, 400, "{reason}");
}

#[test]
fn looping_proxy_request_is_refused() {
    let proxy = Proxy::new();
    let via = "Via: 1.1 other, 1.1 D1 (longhaul)\r\n";
    let target = "127.0.0.1:9";
    let head = connect_head(target, &format!("{}{via}", ann()));
    assert_eq!(answered(connect(proxy.address()), &head).0, 508);
    let (status, _, body) =
        answered(connect(proxy.address()), &get(&format!("http://{target}/"), via));
    assert_eq!(status, 508, "{body}");

    // Through two proxies that each use the other.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let second = Proxy::with("", &format!("via = [\"{address}\"]"), "");
    let first = Daemon::depot_with(&format!(
        "id = \"d0\"\nlisten = [\"{address}\"]\n[proxy]\nvia = [\"{}\"]\npasswords = \"{}\"\n\
         [allow]\nclients = [\"127.0.0.0/8\"]\nservers = [\"127.0.0.0/8:*\"]\nlocal = true",
        second.address(),
        second.dir.path().join("passwords").display()
    ));
    let origin = Scripted::answering("HTTP/1.1 204 No Content\r\n\r\n");
    let url = format!("http://{}/", origin.address);
    // A session uses the hops of its OPEN, whatever the next depot's own route.
    assert_eq!(answered(connect(first.address), &get(&url, "")).0, 204);
    assert_eq!(answered(connect(second.address()), &get(&url, "")).0, 204);
}

#[test]
fn targets_cannot_carry_fields_or_names_of_others() {
    let proxy = Proxy::new();
    for target in [
        "127.0.0.1:9\r\nX-Own: y",
        "127.0.0.1:9 HTTP/1.1\r\nX-Own: y\r\n\r\n",
        "127.0.0.1:9\tx",
        "user@127.0.0.1:9",
        "127.0.0.1:9/x",
        "127.0.0.1:9#x",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.1:9",
        "2130706433:9",
        "0x7f000001:9",
        "o.example:443.",
    ] {
        let head = format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n{}\r\n", ann());
        let (status, head, _) = answered(connect(proxy.address()), &head);
        assert_eq!(status, 400, "{target}: {head}");
        assert!(!head.contains("\nX-Own"), "{head}");
    }
    for url in [
        "http://127.0.0.1:9/\r\nX-Own: y",
        "http://user@127.0.0.1:9/",
        "http://127.1:9/",
        "http:///x",
        "https://127.0.0.1:9/",
        "ftp://127.0.0.1:9/",
    ] {
        let (status, head, body) = answered(connect(proxy.address()), &get(url, ""));
        assert_eq!(status, 400, "{url}: {head}{body}");
        assert!(!head.contains("\nX-Own"), "{head}");
    }
}

/// To a client of the proxy, a redirect to a sibling would be the origin's.
#[test]
fn full_depot_does_not_redirect_clients_of_its_proxy() {
    let sibling = Daemon::depot("id = \"d2\"");
    let origin = Scripted::answering("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    let top = "limits.connections = 4\nidle_connections.per_hop = 0";
    let pool =
        format!("[siblings]\nmembers = [\"{}\"]\nabove = 0.5\nevery = \"50ms\"", sibling.address);
    let proxy = Proxy::with(top, "", &pool);
    let url = format!("http://{}/", origin.address);
    let ask = || {
        let (status, head, _) = answered(connect(proxy.address()), &get(&url, ""));
        assert_ne!(status, 302, "{head}");
        status
    };
    let mut held: Vec<_> = (0..3).map(|_| connect(proxy.address())).collect();
    let route = origin.route("-", "/");
    until("requests by routes are redirected", || {
        client::status(&client::get(proxy.address(), &route).0) == 302
    });
    until("the last place is the proxy's", || ask() == 204);
    held.push(connect(proxy.address()));
    until("all places are taken", || ask() == 503);
}
