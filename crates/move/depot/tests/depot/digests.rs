// SPDX-License-Identifier: GPL-2.0-or-later
//! Digests made and checked as bodies pass, and what a client sees when they do not fit.

use crate::common::{
    client::{curl, exchange, get, status},
    noise,
    process::Daemon,
    scripted::Scripted,
    sha256,
    wire::flipping,
};
use protocol::digest::{Algorithm, Digest};
use sha2::digest::{Digest as _, DynDigest};
use std::io::{Read, Write};

/// The digest of bytes.
fn digest(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    let mut hash: Box<dyn DynDigest> = match algorithm {
        Algorithm::Md5 => Box::new(md5::Md5::new()),
        Algorithm::Sha256 => Box::new(sha2::Sha256::new()),
        Algorithm::Sha512 => Box::new(sha2::Sha512::new()),
    };
    hash.update(bytes);
    Digest::new(algorithm, &hash.finalize()).unwrap()
}

/// An origin that answers with this body and these fields.
fn origin(fields: &str, body: &[u8]) -> Scripted {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    Scripted::answering(answer)
}

#[test]
fn digest_of_one_depot_is_checked_by_the_next() {
    let body = noise(51, 2_000_003);
    for (mode, algorithm) in [("sha-256", Algorithm::Sha256), ("md5", Algorithm::Md5)] {
        let far = Daemon::depot(&format!("id = \"far\"\ndigest = \"{mode}\""));
        let (mid, near) = (Daemon::depot("id = \"mid\""), Daemon::depot("id = \"near\""));
        let origin = origin("", &body);
        let chain = format!("{},{}", mid.authority(), far.authority());
        let (head, got, end) = get(near.address, &origin.route(&chain, "/"));
        assert!(end.is_ok());
        // The client sees nothing of it: a length, as the origin gave it.
        assert!(head.contains("Content-Length: 2000003\r\n"), "{head}");
        assert!(!head.contains("Longhaul") && !head.contains("Transfer-Encoding"), "{head}");
        assert_eq!(sha256(&got), sha256(&body));
        let is = digest(algorithm, &body).to_string();
        far.await_log(&["complete", &format!("digest=\"{is} made\"")]);
        mid.await_log(&["complete", &format!("digest=\"{is} checked\"")]);
        near.await_log(&["complete", &format!("digest=\"{is} checked\"")]);
    }
}

#[test]
fn flipped_bit_aborts_transfer_and_names_hop() {
    let body = noise(52, 1_000_003);
    // The head between these depots has some 300 bytes, and each chunk some more; so all of these
    // are in the body, the last near its end.
    for at in [1_000, 77_777, 500_000, 1_000_100] {
        let far = Daemon::depot("id = \"far\"\ndigest = \"sha-256\"");
        let (mid, near) = (Daemon::depot("id = \"mid\""), Daemon::depot("id = \"near\""));
        let origin = origin("", &body);
        let wire = flipping(far.address, at);
        let route = origin.route(&format!("{},{wire}", mid.authority()), "/");
        let got = curl(&["-f", &near.url(&route)]);
        assert!(!got.status.success(), "bit of byte {at}: a client takes it for good");
        assert!(got.stdout.len() < body.len(), "bit of byte {at}: the whole body was handed out");
        far.await_log(&["complete"]);
        mid.await_log(&["WARN", "differs", &format!("the bytes from upstream {wire}")]);
        near.await_log(&["WARN", "differs", "mid reports http_protocol_error", "not those"]);
    }
}

#[test]
fn origin_digest_is_checked_against_body() {
    let (body, other) = (noise(53, 300_003), noise(54, 300_003));
    let depot = Daemon::depot("");
    let fields = |bytes: &[u8]| {
        let value = |algorithm| digest(algorithm, bytes).to_value().to_str().unwrap().to_owned();
        let md5 = value(Algorithm::Md5);
        let md5 = md5.trim_start_matches("md5=:").trim_end_matches(':').to_owned();
        [
            format!("Repr-Digest: {}\r\n", value(Algorithm::Sha256)),
            format!("Repr-Digest: {}\r\n", value(Algorithm::Sha512)),
            format!("Content-Digest: {}\r\n", value(Algorithm::Sha256)),
            format!("Content-MD5: {md5}\r\n"),
            format!("Digest: md5={md5}\r\n"),
        ]
    };
    for field in fields(&body) {
        let (head, got, end) = get(depot.address, &origin(&field, &body).route("-", "/"));
        assert!(end.is_ok() && got == body, "{field}");
        assert!(head.to_lowercase().contains(&field.to_lowercase()), "{head}");
    }
    for field in fields(&other) {
        let (_, got, _) = get(depot.address, &origin(&field, &body).route("-", "/"));
        assert!(got.len() < body.len(), "{field}: the whole body was handed out");
        assert_eq!(got, body[..got.len()]);
    }
    // One who does not look passes on what came, and what was promised.
    let blind = Daemon::depot("digest = \"off\"");
    let (head, got, _) = get(blind.address, &origin(&fields(&other)[0], &body).route("-", "/"));
    assert!(head.contains("Repr-Digest") && got == body);
}

#[test]
fn partial_body_is_not_checked_against_whole_digest() {
    let (whole, depot) = (noise(55, 3_000), Daemon::depot(""));
    let whole_is = digest(Algorithm::Sha256, &whole).to_value();
    let mut answer = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-999/3000\r\n\
         Content-Length: 1000\r\nRepr-Digest: {}\r\n\r\n",
        whole_is.to_str().unwrap()
    )
    .into_bytes();
    answer.extend_from_slice(&whole[..1_000]);
    let origin = Scripted::answering(answer);
    let (head, got, _) = get(depot.address, &origin.route("-", "/"));
    assert_eq!(status(&head), 206);
    assert_eq!(got, whole[..1_000]);
}

#[test]
fn upload_with_wrong_digest_is_aborted() {
    let depot = Daemon::depot_with(
        "id = \"d1\"\nlisten = [\"127.0.0.1:0\"]\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
         upstreams = [\"127.0.0.0/8:*\"]\nlocal = true\nmethods = [\"PUT\"]",
    );
    let body = noise(56, 200_000);
    let (sender, arrived) = std::sync::mpsc::channel();
    let origin = Scripted::new(move |mut stream, head| {
        let length = head.lines().find_map(|l| l.strip_prefix("Content-Length: ")).unwrap();
        let mut got = Vec::new();
        let whole = (&stream).take(length.parse().unwrap()).read_to_end(&mut got);
        let _ = stream
            .write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let _ = sender.send((whole.is_ok(), got));
    });
    let put = |promised: &[u8]| {
        let promised = digest(Algorithm::Sha256, promised).to_value();
        let mut request = format!(
            "PUT {} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Length: {}\r\n\
             Repr-Digest: {}\r\n\r\n",
            origin.route("-", "/up"),
            body.len(),
            promised.to_str().unwrap()
        )
        .into_bytes();
        request.extend_from_slice(&body);
        exchange(depot.address, &request).0
    };
    assert_eq!(status(&put(&body)), 201);
    assert_eq!(arrived.recv_timeout(crate::common::PATIENCE).unwrap(), (true, body.clone()));
    let refused = put(b"something else");
    assert_eq!(status(&refused), 400, "{refused}");
    let (_, got) = arrived.recv_timeout(crate::common::PATIENCE).unwrap();
    assert!(got.len() < body.len(), "the origin has the whole of it");
    depot.await_log(&["WARN", "status=400", "the bytes from the client"]);
}

#[test]
fn trailer_digest_is_logged_only_if_checked() {
    let (body, other) = (noise(57, 100_003), noise(58, 100_003));
    let answering = |announced: &str, trailer: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
        let mut answer = format!("{head}{announced}\r\n{:x}\r\n", body.len()).into_bytes();
        answer.extend_from_slice(&body);
        answer.extend(format!("\r\n0\r\n{trailer}\r\n").into_bytes());
        Scripted::answering(answer)
    };
    let field = |algorithm, of: &[u8], name: &str| {
        format!("{name}: {}\r\n", digest(algorithm, of).to_value().to_str().unwrap())
    };
    for name in ["Content-Digest", "Repr-Digest"] {
        let announced = format!("Trailer: {name}\r\n");
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let depot = Daemon::depot("");
            let good = answering(&announced, &field(algorithm, &body, name));
            let (_, got, end) = get(depot.address, &good.route("-", "/"));
            assert!(end.is_ok() && got.ends_with(b"\r\n\r\n"), "{name}");
            let is = digest(algorithm, &body);
            depot.await_log(&["complete", &format!("digest=\"{is} checked\"")]);
            let bad = answering(&announced, &field(algorithm, &other, name));
            let (_, got, _) = get(depot.address, &bad.route("-", "/"));
            assert!(!got.ends_with(b"\r\n\r\n"), "{name}: it seems whole");
            depot.await_log(&["WARN", "differs", "are not those that were sent"]);
        }
        // With an algorithm that the depot does not know.
        let depot = Daemon::depot("");
        let odd = answering(&announced, &field(Algorithm::Md5, &body, name));
        let (_, got, _) = get(depot.address, &odd.route("-", "/"));
        assert!(got.ends_with(b"\r\n\r\n"), "{name}");
        depot.await_log(&["complete", " made, md5 that came not checked\""]);
    }
}
