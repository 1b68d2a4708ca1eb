// SPDX-License-Identifier: GPL-2.0-or-later
//! What TLS early data would save a new connection between two depots: seconds to the first byte of an answer, by
//! rustls' client and server.
//!
//! ```text
//! early_data serve 0.0.0.0:4443 FILE    writes its certificate to the file
//! early_data ask ADDRESS:4443 FILE      a new session, a resumed one, one with the request as early data; 5 times each
//! ```

use std::{
    error::Error,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};

const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: early.example\r\n\r\n";
const NAME: &str = "early.example";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address, certificate] => serve(address, certificate),
        ["ask", address, certificate] => ask(address, certificate),
        _ => Err("usage: early_data serve|ask ADDRESS:PORT FILE".into()),
    }
}

fn serve(address: &str, certificate: &str) -> Result<(), Box<dyn Error>> {
    let certified = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    std::fs::write(certificate, certified.cert.der())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let chain = vec![certified.cert.der().clone()];
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.max_early_data_size = 16_384;
    config.send_half_rtt_data = true;
    let config = Arc::new(config);
    for stream in TcpListener::bind(address)?.incoming() {
        let (stream, config) = (stream?, Arc::clone(&config));
        thread::spawn(move || answer(stream, config).inspect_err(|error| eprintln!("{error}")));
    }
    Ok(())
}

/// Answers one request, which may have come early.
fn answer(mut stream: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut tls = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut request = Vec::new();
    while request.len() < REQUEST.len() {
        tls.read_tls(&mut stream)?;
        let state = tls.process_new_packets().map_err(std::io::Error::other)?;
        if let Some(mut early) = tls.early_data() {
            early.read_to_end(&mut request)?;
        }
        let at = request.len();
        request.resize(at + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut request[at..])?;
        tls.write_tls(&mut stream)?;
    }
    tls.writer().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    while tls.wants_write() {
        tls.write_tls(&mut stream)?;
    }
    // Until the client goes: its last packets and the tickets are on their way.
    while tls.read_tls(&mut stream)? > 0 {
        tls.process_new_packets().map_err(std::io::Error::other)?;
    }
    Ok(())
}

fn ask(address: &str, certificate: &str) -> Result<(), Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(std::fs::read(certificate)?.into())?;
    for (what, resumes, early) in
        [("new", false, false), ("resumed", true, false), ("early data", true, true)]
    {
        let mut seconds = Vec::new();
        for _ in 0..5 {
            let mut config =
                ClientConfig::builder().with_root_certificates(roots.clone()).with_no_client_auth();
            config.enable_early_data = early;
            let config = Arc::new(config);
            if resumes {
                first_byte_s(address, &config)?;
            }
            seconds.push(first_byte_s(address, &config)?);
        }
        seconds.sort_by(f64::total_cmp);
        println!("{what}: {:.3} s", seconds[2]);
    }
    Ok(())
}

/// From before the connection to the first byte of the answer.
fn first_byte_s(address: &str, config: &Arc<ClientConfig>) -> Result<f64, Box<dyn Error>> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut tls = ClientConnection::new(Arc::clone(config), ServerName::try_from(NAME)?)?;
    match tls.early_data() {
        Some(mut early) => early.write_all(REQUEST)?,
        None => tls.writer().write_all(REQUEST)?,
    }
    let mut first = [0];
    loop {
        while tls.wants_write() {
            tls.write_tls(&mut stream)?;
        }
        if tls.read_tls(&mut stream)? == 0 {
            return Err("it was closed".into());
        }
        tls.process_new_packets()?;
        if tls.reader().read(&mut first).is_ok_and(|read| read > 0) {
            return Ok(begun.elapsed().as_secs_f64());
        }
    }
}
