// SPDX-License-Identifier: GPL-2.0-or-later
//! CONNECT: the bytes of a tunnel.

use super::{Proxy, SECRET, ann, answered, connect_head, passwords, refused, tunnel};
use crate::{
    common::{
        client::connect, noise, pki::Pki, process::Daemon, refusing_address, scripted::Scripted,
    },
    sessions::peers::{Acceptor, await_reset, echo, echoes, reset, sending, to_end},
};
use std::io::{Read, Write};

#[test]
fn bytes_pass_both_ways_and_ends_are_passed_on() {
    let (proxy, server) = (Proxy::new(), Acceptor::raw(echo));
    let bytes = noise(1, 3 << 20);
    let stream = tunnel(proxy.address(), &server.address.to_string());
    let sent = sending(&stream, bytes.clone());
    assert!(to_end(&stream) == bytes, "what came back differs");
    sent.join().unwrap();
    let line = proxy.depot.await_log(&["ended", "CONNECT"]);
    for part in [
        "method=\"CONNECT\"",
        "user=\"ann\"",
        "status=200",
        "bytes=3145728",
        "sent_bytes=3145728",
        &format!("target=\"{}\"", server.address),
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn bytes_behind_the_head_are_the_servers() {
    let (proxy, server) = (Proxy::new(), Acceptor::raw(echo));
    let mut stream = connect(proxy.address());
    let head = connect_head(&server.address.to_string(), &ann());
    stream.write_all(format!("{head}GET / HTTP/1.1\r\n").as_bytes()).unwrap();
    let mut got = vec![0; "HTTP/1.1 200 Connection established\r\n\r\nGET / HTTP/1.1\r\n".len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got.ends_with(b"established\r\n\r\nGET / HTTP/1.1\r\n"), "{got:?}");
}

#[test]
fn failures_are_passed_on() {
    let proxy = Proxy::new();
    let server = Acceptor::raw(|mut stream| {
        let _ = stream.read(&mut [0]);
        reset(stream);
    });
    let mut stream = tunnel(proxy.address(), &server.address.to_string());
    stream.write_all(b"x").unwrap();
    await_reset(&stream);
    let closed = refusing_address().to_string();
    let (status, reason) = refused(proxy.address(), &closed);
    assert_eq!(status, 502, "{reason}");
    assert!(reason.contains("refused") && reason.contains(&closed), "{reason}");
}

/// The next depot connects to the server, by its own lists.
#[test]
fn tunnels_lead_through_further_depots() {
    let server = Acceptor::raw(echo);
    let next = Daemon::depot("id = \"d2\"");
    let proxy = Proxy::with("", &format!("via = [\"{}\"]", next.address), "");
    let stream = tunnel(proxy.address(), &server.address.to_string());
    echoes(&stream);
    drop(stream);
    next.await_log(&["ended", "method=\"SESSION\"", &format!("tcp:{}", server.address)]);
    proxy.depot.await_log(&["ended", "CONNECT", &format!("upstream=\"{}\"", next.address)]);

    let closed = Daemon::depot(
        "id = \"d2\"\n[allow]\nclients = [\"127.0.0.0/8\"]\nservers = [\"127.0.0.1:1\"]",
    );
    let proxy = Proxy::with("", &format!("via = [\"{}\"]", closed.address), "");
    let (status, reason) = refused(proxy.address(), &server.address.to_string());
    assert_eq!(status, 403, "{reason}");
    assert!(reason.contains("`allow.servers` does not list it"), "{reason}");
}

#[test]
fn next_depot_may_be_asked_over_tls() {
    let pki = Pki::new();
    pki.issue("own", "127.0.0.1");
    let server = Acceptor::raw(echo);
    let next = pki.depot("id = \"d2\"");
    let roots = format!("tls.roots = {:?}", pki.roots().display().to_string());
    let proxy = Proxy::with(&roots, &format!("via = [\"https:{}\"]", next.address), "");
    echoes(&tunnel(proxy.address(), &server.address.to_string()));
    let proxy = Proxy::with("", &format!("via = [\"https:{}\"]", next.address), "");
    let (status, reason) = refused(proxy.address(), &server.address.to_string());
    assert_eq!(status, 502, "the certificate is not trusted: {reason}");
}

#[test]
fn proxy_may_be_asked_over_tls() {
    let (pki, dir) = (Pki::new(), tempfile::tempdir().unwrap());
    pki.issue("own", "127.0.0.1");
    let file = passwords(dir.path(), &format!("ann:{SECRET}\n"));
    let proxy =
        pki.depot(&format!("id = \"d1\"\n[proxy]\npasswords = {:?}", file.display().to_string()));
    let served = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nserved";
    let (origin, roots) = (Scripted::answering(served), pki.roots());
    let roots = roots.to_str().unwrap();
    for (login, tunnelled, expected) in [
        ("ann:secret", &[][..], "served"),
        ("ann:secret", &["-p"], "served"),
        ("ann:guess", &["-f"], ""),
        ("ann:guess", &["-p"], ""),
    ] {
        let at = format!("https://{login}@{}", proxy.address);
        let common = ["--noproxy", "", "-x", &at, "--proxy-cacert", roots];
        let url = format!("http://{}/", origin.address);
        let output = pki.curl(&[&common[..], tunnelled, &[&url]].concat());
        let got = String::from_utf8_lossy(&output.stdout);
        assert_eq!(got, expected, "{login} {tunnelled:?}");
        assert_eq!(output.status.success(), !expected.is_empty(), "{login} {tunnelled:?}");
    }
}

/// One reader would take for a body what another takes for a request.
#[test]
fn connect_with_a_body_is_refused() {
    let (proxy, server) = (Proxy::new(), Acceptor::raw(echo));
    let target = server.address.to_string();
    for fields in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let request = format!("{}hello", connect_head(&target, &format!("{}{fields}", ann())));
        let (status, head, body) = answered(connect(proxy.address()), &request);
        assert_eq!(status, 400, "{head}");
        assert!(body.contains("CONNECT has no body"), "{body}");
    }
}
