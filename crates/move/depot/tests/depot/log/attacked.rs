// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines of text that others would write into: each is read by a strict parser, which finds what is true.

use crate::common::{
    client::{connect, exchange, get, status},
    pki::Pki,
    process::Daemon,
    scripted::Scripted,
};
use std::{collections::BTreeMap, io::Write};
use testkit::until;

/// What an attacker wants to see in the log as a field.
const FORGED: &str = "6.6.6.6:66";

/// Reads a line: words without any `=` or quote, and then fields, each once.
fn parse(line: &str) -> Result<BTreeMap<String, String>, String> {
    let bad = |why: &str| format!("{why}: {line}");
    let first = line.find('=').unwrap_or(line.len());
    let words = line[..first].rfind(' ').filter(|_| first < line.len()).unwrap_or(first);
    if line[..words].contains('"') {
        return Err(bad("a quote among the words"));
    }
    let (mut fields, mut rest) = (BTreeMap::new(), &line[words..]);
    while !rest.is_empty() {
        let text = rest.strip_prefix(' ').ok_or_else(|| bad("no space before a field"))?;
        let (name, text) = text.split_once('=').ok_or_else(|| bad("no field"))?;
        let plain = |b: u8| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit();
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(bad("no field's name"));
        }
        let (value, after) = match text.strip_prefix('"') {
            None => text.split_at(text.find(' ').unwrap_or(text.len())),
            Some(text) => {
                let mut escaped = false;
                let end = text.char_indices().find(|(_, c)| {
                    let ends = *c == '"' && !escaped;
                    escaped = *c == '\\' && !escaped;
                    ends
                });
                let (end, _) = end.ok_or_else(|| bad("no end of a text"))?;
                (&text[..end], &text[end + 1..])
            }
        };
        if fields.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(bad("a field twice"));
        }
        rest = after;
    }
    Ok(fields)
}

/// Checks that no line of a depot's log was injected, and that there are `lines` of them.
fn holds(depot: &Daemon, lines: usize) {
    let of_requests = || depot.log_text().lines().filter(|l| l.contains(" client=")).count();
    until("each request has its line", || of_requests() >= lines);
    for line in depot.log_text().lines() {
        let fields = parse(line).unwrap_or_else(|why| panic!("{why}"));
        for (name, value) in &fields {
            let forged = value == FORGED || ["injected", "level"].contains(&name.as_str());
            assert!(!forged, "{name}={value}: {line}");
        }
        if let Some(client) = fields.get("client") {
            assert!(client.starts_with("127.0.0.1:"), "{line}");
        }
    }
}

#[test]
fn log_parser_finds_injected_fields() {
    assert!(parse("T WARN refused: \"x\" client=\"a\"").is_err());
    assert!(parse("T WARN refused client=\"a\" client=\"b\"").is_err());
    assert!(parse("T WARN refused client=a\" b").is_err());
    assert_eq!(parse("T INFO complete a=\"b\\\" c=1\" d=2").unwrap().len(), 2);
}

#[test]
fn request_cannot_inject_log_fields() {
    let depot = Daemon::depot("id = \"d1\"");
    let forged = format!("x\" client=\"{FORGED}\" status=200 injected=1 \"");
    let requests = [
        format!("GET /x HTTP/1.1\r\nHost: d\r\nContent-Length: {forged}\r\n\r\n"),
        format!("PUT /x HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: {forged}\r\n\r\n"),
        format!("GET /x HTTP/1.1\r\nHost: d\r\n{forged}: x\r\n\r\n"),
        format!("GET /x HTTP/1.1\r\nHost: d\r\nExpect: {forged}\r\n\r\n"),
        format!("GET /x HTTP/1.1\r\nHost: d\r\nVia: {forged}\r\n\r\n"),
        format!("GET /{} HTTP/1.1\r\nHost: d\r\n\r\n", forged.replace(' ', "%20")),
        format!("GET /lh1/fetch/-/{}:o/ HTTP/1.1\r\nHost: d\r\n\r\n", forged.replace(' ', "%20")),
        format!("GET /lh1/fetch/{}/http:o/ HTTP/1.1\r\nHost: d\r\n\r\n", forged.replace(' ', "\t")),
        format!("GET http://{}/ HTTP/1.1\r\nHost: d\r\n\r\n", forged.replace(' ', "")),
        format!("CONNECT {}:443 HTTP/1.1\r\nHost: d\r\n\r\n", forged.replace(' ', "")),
        format!("{} /x HTTP/1.1\r\nHost: d\r\n\r\n", forged.replace(' ', "")),
        format!("GET /lh2/0/{}/x HTTP/1.1\r\nHost: d\r\n\r\n", forged.replace(' ', "")),
        "GET /x HTTP/1.1\r\nHost: d\r\nX: \\\" client=\\\"6.6.6.6:66\0\r\n\r\n".to_owned(),
    ];
    for request in &requests {
        let (head, ..) = exchange(depot.address, request.as_bytes());
        assert!(status(&head) >= 400, "{request}: {head}");
    }
    holds(&depot, requests.len());
}

#[test]
fn next_hop_cannot_inject_log_fields() {
    let depot = Daemon::depot(
        "id = \"d1\"\n[[detour]]\naround = \"127.0.0.1:1\"\nstraight = true\ncheck = \"off\"",
    );
    let forged = format!("x\" client=\"{FORGED}\" status=200 injected=1 \\\"");
    let escaped = forged.replace('\\', "\\\\").replace('"', "\\\"");
    let answers = [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {forged}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {forged}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\n{forged}: x\r\n\r\n"),
        format!("{forged}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{forged}\r\n"),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\
             Proxy-Status: evil; error=proxy_internal_error; details=\"{escaped}\"\r\n\r\n"
        ),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\
         Proxy-Status: \"a\\\" client=\\\"6.6.6.6:66\"; error=\"b\\\" injected=1\"\r\n\r\n"
            .to_owned(),
    ];
    for answer in &answers {
        let origin = Scripted::answering(answer.as_bytes());
        let _ = get(depot.address, &origin.route("-", "/x"));
    }
    holds(&depot, answers.len());
}

#[test]
fn tls_peer_cannot_inject_log_fields() {
    let pki = Pki::new();
    // The certificate of a next hop says for whom it is.
    pki.issue("other", "x.example");
    let (depot, origin) = (pki.depot("id = \"d1\"\n"), pki.nginx("other", b"x"));
    let route = format!("/lh1/fetch/-/https:{}/file", origin.address);
    let got = pki.curl(&[
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        &format!("https://{}{route}", depot.address),
    ]);
    assert_eq!(got.stdout, b"502", "{}", String::from_utf8_lossy(&got.stderr));
    for garbage in ["GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\0\x05\" c=1"] {
        connect(depot.address).write_all(garbage.as_bytes()).unwrap();
    }
    depot.await_log(&["TLS with the client failed"]);
    depot.await_log(&["status=502"]);
    holds(&depot, 2);
}
