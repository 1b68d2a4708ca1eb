// SPDX-License-Identifier: GPL-2.0-or-later
//! A GET over one connection with this host's own settings, sampled by `TCP_INFO`.
//!
//! Nothing of what comes is kept. A server that sends little or slowly, or no HTTP, holds it for ten seconds at most.

use super::{
    End, Path, Request, Sample, Shape, bursts,
    connection::{Connection, PathError, Secure, Stream, resolve},
};
use host::{TcpInfo, tcp_info};
use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};
use units::{Rate, text};

/// The longest that a download takes.
const LONGEST: Duration = Duration::from_secs(10);
/// The most bytes that are received.
const MOST_BYTES: u64 = 1_000_000_000;
/// After so long without a byte it has stalled.
const STALL: Duration = Duration::from_secs(3);
/// Between two samples.
pub(super) const SAMPLE: Duration = Duration::from_millis(5);
/// The longest header section of a response.
const MOST_HEAD: usize = 16 << 10;
/// Header fields of a response.
const MOST_FIELDS: usize = 100;
/// Bytes of a read.
const CHUNK: usize = 1 << 20;
/// Payload of the segments that pass any path (RFC 1122: 576 bytes less headers).
const SMALL_SEGMENT: u32 = 536;
/// Headers of IPv4 and TCP with timestamps.
pub(super) const HEADERS: u32 = 52;
/// The smallest payload of a segment that fits usual packets of 1500 bytes over IPv6.
const USUAL_SEGMENT: u32 = 1420;

/// Measures paths.
#[derive(Clone, Copy)]
pub struct Prober<'t> {
    /// For https URLs.
    pub tls: &'t dyn Secure,
    /// The longest that a download takes.
    pub longest: Duration,
}

impl<'t> Prober<'t> {
    /// With downloads of ten seconds at most.
    pub fn new(tls: &'t dyn Secure) -> Self {
        Self { tls, longest: LONGEST }
    }

    /// Measures the path from a server.
    ///
    /// # Errors
    /// It cannot be reached, or does not give the document.
    pub fn probe(&self, request: &Request) -> Result<Path, PathError> {
        let peer = resolve(&request.host, request.port)?;
        let first = self.download(peer, request, None)?;
        let mut path = first.path();
        if first.is_stalled_at_start() {
            let second = self.download(peer, request, Some(SMALL_SEGMENT));
            path.small_segments_pass = Some(second.is_ok_and(|it| it.received > first.received));
        }
        if path.shape.loss_events > 0 && path.rate_bps.is_none() {
            path.burst = bursts::find(peer, request, self.tls);
        }
        Ok(path)
    }

    /// The mean rate of one download.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn rate(&self, request: &Request) -> Result<Rate, PathError> {
        let download = self.download(resolve(&request.host, request.port)?, request, None)?;
        Ok(Rate::bits_per_second(download.mean_bps().unwrap_or(0)))
    }

    fn download(
        &self,
        peer: SocketAddr,
        request: &Request,
        segment: Option<u32>,
    ) -> Result<Download, PathError> {
        let connection = Connection::open(peer, request, &request.head, segment, self.tls)?;
        let broken = |error| PathError::Broken { peer, error };
        let Connection { tcp, stream, handshake_rtt_us } = connection;
        let mut reader = Reader::new(stream);
        let started = Instant::now();
        let (mut samples, mut last_byte, mut last_sample) = (Vec::new(), started, started);
        let mut received = 0;
        let end = loop {
            let now = Instant::now();
            match reader.read() {
                Ok(Some(0)) => break End::Whole,
                Ok(Some(count)) => {
                    received += count as u64;
                    last_byte = Instant::now();
                }
                Ok(None) => {}
                Err(error) => return Err(in_answer(peer, error)),
            }
            if now.duration_since(last_sample) >= SAMPLE {
                last_sample = now;
                samples.push(sample(&tcp, started, received).map_err(broken)?);
            }
            if started.elapsed() >= self.longest || received >= MOST_BYTES {
                break End::Bound;
            }
            if last_byte.elapsed() >= STALL {
                break End::Stalled;
            }
        };
        let seconds = last_byte.duration_since(started).as_secs_f64();
        let info = tcp_info(&tcp).map_err(broken)?;
        if end == End::Whole && reader.status.is_none() {
            return Err(PathError::Answer { peer, said: "with no response".to_owned() });
        }
        Ok(Download { peer, handshake_rtt_us, samples, info, received, seconds, end })
    }
}

/// What an error while a response is read says of a path.
fn in_answer(peer: SocketAddr, error: io::Error) -> PathError {
    match error.kind() {
        ErrorKind::InvalidData => PathError::Answer { peer, said: error.to_string() },
        _ => PathError::Broken { peer, error },
    }
}

/// What a download was.
struct Download {
    peer: SocketAddr,
    handshake_rtt_us: u32,
    samples: Vec<Sample>,
    info: TcpInfo,
    received: u64,
    seconds: f64,
    end: End,
}

impl Download {
    /// Whether the server's answer to the request did not come, or not all of it, before it stopped.
    fn is_stalled_at_start(&self) -> bool {
        /// More than the first window of any server.
        const FIRST_FLIGHT: u64 = 64 << 10;
        self.end == End::Stalled && self.received < FIRST_FLIGHT
    }

    fn mean_bps(&self) -> Option<u64> {
        (self.seconds > 0.0).then(|| (self.received as f64 * 8.0 / self.seconds) as u64)
    }

    fn path(&self) -> Path {
        let (info, rtt_us) = (&self.info, self.handshake_rtt_us);
        let shape = Shape::of(&self.samples, rtt_us);
        let segments = info.data_segments_in;
        let measured = shape.steady_bps.filter(|_| segments > 0);
        let loss = measured.map(|_| f64::from(shape.loss_events) / f64::from(segments));
        let is_queued = shape.is_queued(rtt_us);
        let offers = |name: &str| {
            host::sysctl::read(&format!("net.ipv4.{name}")).is_ok_and(|value| value != "0")
        };
        let offered = ["tcp_window_scaling", "tcp_sack", "tcp_timestamps"].map(offers);
        // A link that is full, or one that loses what is too much.
        let is_rate = is_queued || shape.is_policed();
        let scales = info.options.window_scaling || !offered[0];
        let is_window = shape.is_even && !is_rate && !shape.loses_often() && scales;
        let in_flight = |bps: u64| (bps as f64 / 8.0 * f64::from(rtt_us) / 1e6) as u64;
        Path {
            peer: self.peer.to_string(),
            handshake_rtt_us: rtt_us,
            window_scaling: info.options.window_scaling,
            sack: info.options.sack,
            timestamps: info.options.timestamps,
            receive_mss: info.receive_mss,
            segments,
            end: self.end,
            small_segments_pass: None,
            burst: None,
            offered,
            mean_bps: self.mean_bps(),
            shape,
            loss,
            rate_bps: measured.filter(|_| is_rate),
            peer_window_bytes: measured.filter(|_| is_window).map(in_flight),
            is_unscaled: offered[0] && !info.options.window_scaling,
            packet_bytes: measured
                .filter(|_| info.receive_mss < USUAL_SEGMENT)
                .map(|_| info.receive_mss + HEADERS),
        }
    }
}

fn sample(stream: &TcpStream, started: Instant, bytes: u64) -> io::Result<Sample> {
    let info = tcp_info(stream)?;
    Ok(Sample {
        at_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        bytes,
        arrived_bytes: u64::from(info.data_segments_in) * u64::from(info.receive_mss),
        out_of_order: info.out_of_order,
        rtt_us: info.receive_rtt_us.unwrap_or(0),
    })
}

/// Reads a response: its header section with care, its body to forget it.
pub(super) struct Reader {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    head: Vec<u8>,
    status: Option<u16>,
}

impl Reader {
    pub fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, buffer: vec![0; CHUNK], head: Vec::new(), status: None }
    }

    /// How many bytes have come; none where none come for a while. `InvalidData` where they are no response with the document,
    /// with a text that says what.
    pub fn read(&mut self) -> io::Result<Option<usize>> {
        let count = match self.stream.read(&mut self.buffer) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            // TLS misses its own end; TCP's is enough here.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        if self.status.is_none() {
            let room = MOST_HEAD.saturating_sub(self.head.len()).min(count);
            self.head.extend_from_slice(&self.buffer[..room]);
            self.status = status_of(&self.head)
                .map_err(|said| io::Error::new(ErrorKind::InvalidData, said))?;
        }
        Ok(Some(count))
    }
}

/// The status of a response that gives the document, or none while its header section is not whole.
pub(super) fn status_of(head: &[u8]) -> Result<Option<u16>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response.parse(head).map_err(|error| format!("with no HTTP ({error})"))?;
    if parsed.is_partial() {
        let is_long = head.len() >= MOST_HEAD;
        return if is_long {
            Err(format!("with a header section above {MOST_HEAD} bytes"))
        } else {
            Ok(None)
        };
    }
    match response.code.unwrap_or(0) {
        status @ (200 | 206) => Ok(Some(status)),
        status => {
            let location =
                response.headers.iter().find(|it| it.name.eq_ignore_ascii_case("location"));
            let to = location.map(|it| {
                format!(" to {}", text::printable(&String::from_utf8_lossy(it.value), 200))
            });
            Err(format!("{status}{}", to.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::NoTls;
    use super::*;
    use testkit::http_server::Server;

    const PROBER: Prober<'_> = Prober { tls: &NoTls, longest: LONGEST };

    fn request(server: &Server) -> Request {
        Request::parse(&server.url("/file")).unwrap()
    }

    #[test]
    fn download_over_loopback_tells_options_and_rate() {
        let server = Server::start(|_, _, conn| conn.answer("200 OK", &[], &vec![7; 1 << 20]));
        let path = PROBER.probe(&request(&server)).unwrap();
        assert!(path.window_scaling && path.sack && !path.is_unscaled, "{path:?}");
        assert!(path.mean_bps.unwrap() > 0 && path.end == End::Whole && path.segments > 0);
        assert!(PROBER.rate(&request(&server)).unwrap().bps() > 0);
    }

    #[test]
    fn server_without_the_document_is_named() {
        let said = |status: &'static str, fields: &'static [(&'static str, &'static str)]| {
            let server = Server::start(move |_, _, conn| conn.answer(status, fields, b"no"));
            PROBER.probe(&request(&server)).unwrap_err().to_string()
        };
        assert!(said("404 Not Found", &[]).contains("answers 404"));
        let moved = said("302 Found", &[("Location", "http://other.example/\u{202e}")]);
        assert!(
            moved.contains("302 to http://other.example/") && !moved.contains('\u{202e}'),
            "{moved}"
        );
    }

    #[test]
    fn what_is_no_response_is_refused_within_bounds() {
        let said = |bytes: Vec<u8>| {
            let server = Server::start(move |_, _, conn| {
                conn.send(&bytes);
            });
            PROBER.probe(&request(&server)).unwrap_err().to_string()
        };
        assert!(said(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()).contains("no HTTP"));
        assert!(said(Vec::new()).contains("no response"));
        let long = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'a'; 2 * MOST_HEAD]].concat();
        assert!(said(long).contains("above 16384 bytes"));
        let many = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"A: b\r\n".repeat(200)].concat();
        assert!(said(many).contains("no HTTP"));
    }

    #[test]
    fn any_header_section_is_read_without_panic() {
        testkit::fuzz::run("response", 20_000, |bytes| {
            status_of(&bytes[..bytes.len().min(MOST_HEAD)]).is_ok_and(|status| status.is_some())
        });
    }

    #[test]
    fn unreachable_server_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let request = Request::parse(&format!("http://{address}/")).unwrap();
        assert!(matches!(PROBER.probe(&request), Err(PathError::Connect { .. })));
    }
}
