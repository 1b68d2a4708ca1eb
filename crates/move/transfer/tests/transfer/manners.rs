// SPDX-License-Identifier: GPL-2.0-or-later
//! Servers that are only a little wrong: TLS without a goodbye, lengths that are too long, redirects in raw bytes.

use crate::common::{bytes, failure, get, names, quick, request};
use longhaul_transfer::Options;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::aws_lc_rs};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    thread,
};
use testkit::http_server::Server;

/// A server over TLS that answers each connection by the same bytes, with or without an orderly end.
struct TlsServer {
    address: SocketAddr,
    certificate: String,
}

impl TlsServer {
    fn start(is_ca: IsCa, response: Vec<u8>, goodbye: bool) -> Self {
        let mut parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.is_ca = is_ca;
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let der = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], der)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The listener stays until the process ends.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, response) = (Arc::clone(&config), response.clone());
                thread::spawn(move || serve(stream, config, &response, goodbye));
            }
        });
        Self { address, certificate: certificate.pem() }
    }

    fn get(&self, file: &Path, options: Options) -> longhaul_transfer::Report {
        let ca = file.with_extension("pem");
        fs::write(&ca, &self.certificate).unwrap();
        let url = format!("https://localhost:{}/f", self.address.port());
        get(Options { ca: Some(ca), ..options }, request(&url, file))
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, response: &[u8], goodbye: bool) {
    let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let (mut asked, mut buffer) = (Vec::new(), [0; 4096]);
    while !asked.ends_with(b"\r\n\r\n") {
        match tls.read(&mut buffer) {
            Ok(read @ 1..) => asked.extend(&buffer[..read]),
            _ => return,
        }
    }
    let _ = tls.write_all(response).and_then(|()| tls.flush());
    if goodbye {
        tls.conn.send_close_notify();
        let _ = tls.flush();
    }
    let _ = tls.sock.shutdown(std::net::Shutdown::Write);
    let _ = tls.sock.read(&mut buffer);
}

fn response(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{fields}\r\n");
    [head.as_bytes(), body].concat()
}

#[test]
fn tls_without_goodbye_ends_a_body_without_proof() {
    let data = bytes(31, 100_000);
    let length = format!("Content-Length: {}\r\n", data.len());
    let too_long = "Content-Length: 100001\r\n".to_owned();
    let (no, unknown) = (IsCa::NoCa, "--allow-unknown-length");
    for (fields, goodbye, allowed, error) in [
        ("", false, true, None),
        ("", true, true, None),
        ("", false, false, Some(unknown)),
        ("", true, false, Some(unknown)),
        (length.as_str(), false, false, None),
        (too_long.as_str(), false, true, Some("ended after 100000 bytes of the 100001")),
        ("Transfer-Encoding: chunked\r\n", false, true, Some("")),
    ] {
        let server = TlsServer::start(no, response(fields, &data), goodbye);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        let report = server.get(&file, Options { allow_unknown_length: allowed, ..quick() });
        let case = format!("{fields:?}, {goodbye}, {allowed}: {report:?}");
        match error {
            None => assert!(report.result.is_ok() && fs::read(&file).unwrap() == data, "{case}"),
            Some(text) => assert!(failure(&report).contains(text) && !file.exists(), "{case}"),
        }
        if fields.is_empty() {
            assert_eq!(report.attempts, 1, "{case}");
        }
    }
}

#[test]
fn own_authority_as_server_certificate_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let server = TlsServer::start(
        IsCa::Ca(BasicConstraints::Unconstrained),
        response("Content-Length: 0\r\n", b""),
        true,
    );
    let report = server.get(&directory.path().join("f"), quick());
    let error = failure(&report);
    assert!(error.contains("basicConstraints=CA:FALSE") && !error.contains("Other"), "{error}");
    assert_eq!(report.attempts, 1);
}

#[test]
fn length_longer_than_the_file_is_named() {
    for etag in [true, false] {
        let server = Server::start(move |_, request, conn| {
            let (tag, data) = (("ETag", "\"a\""), bytes(32, 90_000));
            let from = request.range().map_or(0, |range| range.0);
            let range = format!("bytes {from}-99999/100000");
            let left = (100_000 - from).to_string();
            let mut fields = vec![("Content-Length", left.as_str())];
            fields.extend(etag.then_some(tag));
            fields.extend(request.range().map(|_| ("Content-Range", range.as_str())));
            conn.head(if request.range().is_some() { "206 Part" } else { "200 OK" }, &fields);
            conn.send(&data[from..]);
        });
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        let report = get(quick(), request(&server.url("/f"), &file));
        let error = failure(&report);
        let text =
            "the body ended after 90000 bytes of the 100000 that the server announces, 3 times";
        assert!(error.contains(text), "{error}");
        assert_eq!(report.attempts, 3);
        assert!(!file.exists());
    }
}

#[test]
fn redirects_in_raw_bytes_are_followed() {
    for (location, asked) in
        [(&b"/caf\xc3\xa9?q=\xc3\xa9"[..], "/caf%C3%A9?q=%C3%A9"), (b"/caf\xe9", "/caf%E9")]
    {
        let server = Server::start(move |number, _, conn| match number {
            0 => {
                conn.send(
                    "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: ",
                );
                conn.send(location);
                conn.send("\r\n\r\n");
            }
            _ => conn.answer("200 OK", &[], b"x"),
        });
        let directory = tempfile::tempdir().unwrap();
        let report = get(quick(), request(&server.url("/f"), &directory.path().join("f")));
        assert!(report.result.is_ok(), "{report:?}");
        assert_eq!(server.asked()[1].target, asked);
        assert_eq!(names(directory.path()), ["f"]);
    }
}
