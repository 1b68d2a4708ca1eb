// SPDX-License-Identifier: GPL-2.0-or-later
//! A PUT over one connection with this host's own settings, sampled by `TCP_INFO`, and cut off before its end: the server has
//! no whole document to keep.
//!
//! The samples are those of a sender: what was acknowledged, what was sent again, the smoothed round trip. [`Shape`] judges them as
//! it does those of a download.

use super::{
    Request, Sample, Shape,
    connection::{Connection, PATIENCE, PathError, resolve},
    download::{HEADERS, Prober, SAMPLE, status_of},
};
use crate::outside_limit::Limit;
use host::tcp_info;
use serde::Serialize;
use std::{
    io::{ErrorKind, Read, Write},
    time::{Duration, Instant},
};

/// The path to a server, in the direction to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sent {
    /// The server's address.
    pub peer: String,
    /// The round trip of the handshake.
    pub handshake_rtt_us: u32,
    /// Segments that were sent, those that were sent again included.
    pub segments: u64,
    /// What the samples show.
    pub shape: Shape,
    /// The share of segments at which losses begin; none if too little was sent.
    pub loss: Option<f64>,
    /// What the path lets through, if that was seen.
    pub rate_bps: Option<u64>,
}

impl Sent {
    /// The path without a limit.
    pub fn lift(&mut self, limit: Limit) {
        match limit {
            Limit::SentLoss => self.loss = None,
            Limit::SentRate => (self.rate_bps, self.loss) = (None, None),
            _ => {}
        }
    }
}

/// Bytes of a write.
const CHUNK: usize = 256 << 10;

/// Uploads for as long as the prober allows.
///
/// # Errors
/// The server cannot be reached, or does not take the document.
pub fn upload(prober: &Prober<'_>, request: &Request) -> Result<Sent, PathError> {
    let peer = resolve(&request.host, request.port)?;
    let mut connection = Connection::open(peer, request, &request.upload_head, None, prober.tls)?;
    let broken = |error| PathError::Broken { peer, error };
    connection.tcp.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
    let (started, chunk) = (Instant::now(), vec![0; CHUNK]);
    let (mut samples, mut last_sample) = (Vec::new(), started);
    while started.elapsed() < prober.longest {
        match connection.stream.write(&chunk) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // It may have said why.
            Err(error) => {
                return Err(refused(&mut connection, peer).unwrap_or_else(|| broken(error)));
            }
        }
        if last_sample.elapsed() < SAMPLE {
            continue;
        }
        last_sample = Instant::now();
        let info = tcp_info(&connection.tcp).map_err(broken)?;
        samples.push(Sample {
            at_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            bytes: info.acked.get(),
            arrived_bytes: info.delivered.get(),
            out_of_order: info.retransmits,
            rtt_us: info.rtt_us,
        });
        // A server that answers before all has come does not want it.
        if info.received.get() > 0
            && let Some(refusal) = refused(&mut connection, peer)
        {
            return Err(refusal);
        }
    }
    let info = tcp_info(&connection.tcp).map_err(broken)?;
    let rtt_us = connection.handshake_rtt_us;
    let shape = Shape::of(&samples, rtt_us);
    let segment = (info.cwnd.get() / u64::from(info.cwnd_segments.max(1))).max(1);
    let segments = info.sent.get() / segment;
    let measured = shape.steady_bps.filter(|_| segments > 0);
    let is_rate = shape.is_queued(rtt_us) || shape.is_policed();
    // Headers are the link's, too.
    let on_link = |bps: u64| bps + bps / segment * u64::from(HEADERS);
    Ok(Sent {
        peer: peer.to_string(),
        handshake_rtt_us: rtt_us,
        segments,
        loss: measured.map(|_| f64::from(shape.loss_events) / segments as f64),
        rate_bps: measured.filter(|_| is_rate).map(on_link),
        shape,
    })
}

/// What the server says instead of taking the document, if it has said anything.
fn refused(connection: &mut Connection, peer: std::net::SocketAddr) -> Option<PathError> {
    /// An answer of a few words.
    const MOST: usize = 8 << 10;
    let mut head = Vec::new();
    let until = Instant::now() + Duration::from_millis(500);
    let mut buffer = [0; 1024];
    while Instant::now() < until && head.len() < MOST {
        match connection.stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => head.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        match status_of(&head) {
            Ok(None) => {}
            Ok(Some(status)) => {
                return Some(PathError::Answer {
                    peer,
                    said: format!("{status} before all was sent"),
                });
            }
            Err(said) => return Some(PathError::Answer { peer, said }),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::path::NoTls;
    use testkit::http_server::Server;

    const PROBER: Prober<'_> = Prober { tls: &NoTls, longest: Duration::from_millis(700) };

    fn request(server: &Server) -> Request {
        Request::parse(&server.url("/inbox/probe")).unwrap()
    }

    #[test]
    fn upload_is_cut_off_and_measured() {
        let server = Server::start(|_, request, conn| {
            assert_eq!((request.method.as_str(), request.target.as_str()), ("PUT", "/inbox/probe"));
            conn.hang(Duration::from_secs(5));
        });
        let sent = upload(&PROBER, &request(&server)).unwrap();
        assert!(sent.segments > 0 && sent.shape.steady_bps.is_some(), "{sent:?}");
        let length: u64 = server.asked()[0].field("content-length").parse().unwrap();
        assert!(length > 1 << 40, "more than any upload sends");
    }

    #[test]
    fn server_that_takes_no_uploads_is_named() {
        let server = Server::start(|_, _, conn| conn.answer("405 Method Not Allowed", &[], b"no"));
        let said = upload(&PROBER, &request(&server)).unwrap_err().to_string();
        assert!(said.contains("answers 405"), "{said}");
    }
}
