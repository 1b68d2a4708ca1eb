// SPDX-License-Identifier: GPL-2.0-or-later
//! What the path to another host gives, by datagrams: its round trip, its loss a little below a rate, and its rate a little above it.
//! TCP would tell what its congestion control makes of the path.
//!
//! ```text
//! datagram = token (8 bytes), kind (1), train (1), padding
//! ```
//! Threats. The listener answers only datagrams from the address that the engine names and with the token that it was given, each with
//! one that is not longer, for a bounded time. A train is bounded in time, bytes and datagrams.

use crate::message::PathMeasured;
use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

/// The longest train, and how long a listener stays.
const LONGEST: Duration = Duration::from_secs(20);
const STAYS: Duration = Duration::from_secs(60);
/// How long to wait for an answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Questions about the round trip, and the time between them.
const QUESTIONS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);
/// The payload of a datagram that fills an Ethernet frame, and what the IP packet has beyond it.
const PAYLOAD: usize = 1400;
const HEADERS: u64 = 28;
/// The rates of trains, as shares of the rate that is asked for. What a queue holds does not matter to the first.
const BELOW: f64 = 0.9;
const ABOVE: f64 = 1.5;
/// What a host must send of the rate at least, so that the path decides at which rate that arrives.
const ENOUGH: f64 = 1.2;
/// The most that a train above the rate has.
const MOST_ABOVE: u64 = 64 << 20;
/// The most datagrams of a train.
const MOST: u64 = 2_000_000;

const QUESTION: u8 = 0;
const TRAIN: u8 = 1;
const REPORT: u8 = 2;
const TRAINS: usize = 2;

/// Times of arrival are counted in bins of this width.
const BIN: Duration = Duration::from_millis(1);
/// The rate of a train is the median over this many parts of it at most, so that it is not what a host's short stop makes of it. A
/// part has about this many datagrams at least.
const PARTS: u64 = 20;
const OF_PART: u64 = 50;
/// The most that a train sends at once after a stop. The rest comes later, since a burst would overflow queues.
const MOST_AT_ONCE: Duration = Duration::from_micros(500);

/// What of a train has arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Arrived {
    datagrams: u64,
    per_s: f64,
}

/// A train as it arrives.
struct Train {
    first: Instant,
    last: Instant,
    datagrams: u64,
    bins: Vec<u32>,
}

impl Train {
    fn new(first: Instant) -> Self {
        Self { first, last: first, datagrams: 0, bins: Vec::new() }
    }

    fn arrives(&mut self, now: Instant) {
        (self.last, self.datagrams) = (now, self.datagrams + 1);
        let bin = ((now - self.first).as_micros() / BIN.as_micros()) as usize;
        // A train is not longer than that, and a listener does not stay longer.
        if bin < (STAYS.as_micros() / BIN.as_micros()) as usize {
            self.bins.resize(self.bins.len().max(bin + 1), 0);
            self.bins[bin] += 1;
        }
    }

    /// Datagrams a second: the median over parts of the train.
    fn per_s(&self) -> f64 {
        let parts = (self.datagrams / OF_PART).min(PARTS) as usize;
        let length = self.bins.len().checked_div(parts).unwrap_or(0);
        if parts < 3 || length == 0 {
            let span = (self.last - self.first).as_secs_f64();
            return self.datagrams.saturating_sub(1) as f64 / span.max(1e-6);
        }
        let of_part = |bins: &[u32]| bins.iter().sum::<u32>();
        let mut counts: Vec<u32> = self.bins.chunks_exact(length).map(of_part).collect();
        counts.sort_unstable();
        f64::from(counts[counts.len() / 2]) / (BIN * length as u32).as_secs_f64()
    }
}

/// Answers the datagrams of a host, for a while; with the port.
pub fn serve(from: IpAddr, token: u64) -> io::Result<u16> {
    let socket = UdpSocket::bind((any(from), 0))?;
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 32 << 20);
    let port = socket.local_addr()?.port();
    thread::spawn(move || {
        // The engine hears of it from the sender.
        let _ = answer(&socket, from, token);
    });
    Ok(port)
}

fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn answer(socket: &UdpSocket, from: IpAddr, token: u64) -> io::Result<()> {
    let begun = Instant::now();
    socket.set_read_timeout(Some(ANSWER))?;
    let mut trains: [Option<Train>; TRAINS] = [const { None }; TRAINS];
    let mut datagram = [0; 2048];
    while begun.elapsed() < STAYS {
        let (length, peer) = match socket.recv_from(&mut datagram) {
            Ok(got) => got,
            Err(error) if waits(&error) => continue,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        if peer.ip().to_canonical() != from || length < 10 || datagram[..8] != token.to_be_bytes() {
            continue;
        }
        let train = usize::from(datagram[9]) % TRAINS;
        match datagram[8] {
            QUESTION => drop(socket.send_to(&datagram[..length], peer)),
            TRAIN => trains[train].get_or_insert_with(|| Train::new(now)).arrives(now),
            REPORT if length >= 26 => {
                let arrived = trains[train].as_ref();
                let datagrams = arrived.map_or(0, |train| train.datagrams);
                let per_s = arrived.map_or(0.0, Train::per_s);
                datagram[10..18].copy_from_slice(&datagrams.to_be_bytes());
                datagram[18..26].copy_from_slice(&per_s.to_be_bytes());
                drop(socket.send_to(&datagram[..26], peer));
            }
            _ => {}
        }
    }
    Ok(())
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Measures the path to a host that serves; its loss and rate if `rate_bps` says which is expected, in `time`.
pub fn measure(
    to: SocketAddr,
    token: u64,
    rate_bps: Option<u64>,
    time: Duration,
) -> io::Result<PathMeasured> {
    let socket = UdpSocket::bind((any(to.ip()), 0))?;
    socket.connect(to)?;
    let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, 4 << 20);
    let sender = Sender { socket, token };
    let round_trip = sender.round_trip()?;
    let min_rtt_us = u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX);
    let Some(rate) = rate_bps else {
        return Ok(PathMeasured { min_rtt_us, rate_bps: None, sent: 0, arrived: 0 });
    };
    let time = time.clamp(Duration::from_millis(100), LONGEST);
    let (sent, _) = sender.train(0, rate as f64 * BELOW, time, u64::MAX)?;
    let below = sender.report(0, round_trip)?;
    let (_, offered_per_s) = sender.train(1, rate as f64 * ABOVE, time / 2, MOST_ABOVE)?;
    let above = sender.report(1, round_trip)?;
    let bits = ((PAYLOAD as u64 + HEADERS) * 8) as f64;
    // Below that, the sender is what was measured.
    let is_path = offered_per_s * bits >= rate as f64 * ENOUGH;
    let rate_bps = is_path.then_some((above.per_s * bits) as u64);
    let arrived = below.datagrams.min(sent);
    Ok(PathMeasured { min_rtt_us, rate_bps, sent, arrived })
}

struct Sender {
    socket: UdpSocket,
    token: u64,
}

impl Sender {
    fn datagram(&self, kind: u8, train: u8, length: usize) -> Vec<u8> {
        let mut datagram = self.token.to_be_bytes().to_vec();
        datagram.extend([kind, train]);
        datagram.resize(length, 0);
        datagram
    }

    /// The shortest of some.
    fn round_trip(&self) -> io::Result<Duration> {
        let begun = Instant::now();
        let (mut shortest, mut answers): (Option<Duration>, u32) = (None, 0);
        let mut sent = Vec::new();
        self.socket.set_read_timeout(Some(BETWEEN))?;
        let mut answer = [0; 64];
        // As many looks as there are questions, and then until the last answer may have come.
        while answers < QUESTIONS && begun.elapsed() < ANSWER + BETWEEN * QUESTIONS {
            if sent.len() < QUESTIONS as usize {
                let mut question = self.datagram(QUESTION, 0, 14);
                question[10..].copy_from_slice(&(sent.len() as u32).to_be_bytes());
                sent.push(Instant::now());
                // An error says that the other end does not listen yet.
                let _ = self.socket.send(&question);
            } else if shortest.is_some() && begun.elapsed() > BETWEEN * QUESTIONS + ANSWER / 4 {
                break;
            }
            let looked = Instant::now();
            while looked.elapsed() < BETWEEN {
                let Ok(14) = self.socket.recv(&mut answer) else { break };
                let number = u32::from_be_bytes(answer[10..14].try_into().expect("four bytes"));
                if let Some(at) = sent
                    .get(number as usize)
                    .filter(|_| answer[..9] == self.datagram(QUESTION, 0, 9)[..])
                {
                    let took = at.elapsed();
                    answers += 1;
                    shortest = Some(shortest.map_or(took, |known| known.min(took)));
                }
            }
        }
        shortest.ok_or_else(|| {
            let text = "no datagram comes back: is UDP stopped on the way?";
            io::Error::new(ErrorKind::TimedOut, text)
        })
    }

    /// Sends at a rate of IP packets; with how many datagrams were sent, and how many a second.
    fn train(
        &self,
        train: u8,
        bps: f64,
        time: Duration,
        most_bytes: u64,
    ) -> io::Result<(u64, f64)> {
        let datagram = self.datagram(TRAIN, train, PAYLOAD);
        let each_s = (PAYLOAD as u64 + HEADERS) as f64 * 8.0 / bps.max(1.0);
        let all = (time.as_secs_f64() / each_s) as u64;
        let all = all.clamp(2, MOST).min((most_bytes / PAYLOAD as u64).max(2));
        let most = 1.0 + MOST_AT_ONCE.as_secs_f64() / each_s;
        let (begun, mut sent) = (Instant::now(), 0);
        self.socket.set_write_timeout(Some(ANSWER))?;
        // How many are due, and since when.
        let (mut due, mut since) = (1.0, begun);
        while sent < all && begun.elapsed() < 2 * LONGEST {
            let now = Instant::now();
            due = f64::min(due + (now - since).as_secs_f64() / each_s, most);
            since = now;
            while due >= 1.0 && sent < all {
                self.socket.send(&datagram)?;
                (sent, due) = (sent + 1, due - 1.0);
            }
            thread::sleep(Duration::from_secs_f64((each_s * (1.0 - due)).clamp(5e-5, 0.1)));
        }
        Ok((sent, sent as f64 / begun.elapsed().as_secs_f64().max(1e-6)))
    }

    /// What of a train has arrived, once the last of it must have.
    fn report(&self, train: u8, round_trip: Duration) -> io::Result<Arrived> {
        self.socket.set_read_timeout(Some(Duration::from_millis(200) + round_trip))?;
        let (question, begun) = (self.datagram(REPORT, train, 26), Instant::now());
        let (mut answer, mut last) = ([0; 64], None);
        while begun.elapsed() < 2 * ANSWER {
            let _ = self.socket.send(&question);
            let Ok(26) = self.socket.recv(&mut answer) else { continue };
            if answer[..10] != question[..10] {
                continue;
            }
            let bytes = |at: usize| answer[at..at + 8].try_into().expect("eight bytes");
            let arrived = Arrived {
                datagrams: u64::from_be_bytes(bytes(10)),
                per_s: f64::from_be_bytes(bytes(18)),
            };
            // Twice the same: nothing more comes.
            if last == Some(arrived) && begun.elapsed() > 2 * round_trip {
                return Ok(arrived);
            }
            last = Some(arrived);
            thread::sleep(Duration::from_millis(100));
        }
        last.ok_or_else(|| io::Error::new(ErrorKind::TimedOut, "the other end no longer answers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_measured_and_strangers_are_not_served() {
        let local: IpAddr = Ipv4Addr::LOCALHOST.into();
        let time = Duration::from_millis(300);
        let port = serve(local, 7).unwrap();
        let measured = measure((local, port).into(), 7, Some(20_000_000), time).unwrap();
        assert!(measured.min_rtt_us < 50_000, "{measured:?}");
        assert!(measured.sent > 400 && measured.arrived > measured.sent / 2, "{measured:?}");
        // Faster than asked: all that was sent arrives at the rate at which it was sent.
        assert!(measured.rate_bps.is_none_or(|bps| bps > 15_000_000), "{measured:?}");
        let unasked = measure((local, port).into(), 7, None, time).unwrap();
        assert_eq!((unasked.rate_bps, unasked.sent), (None, 0));
        let other_token = measure((local, port).into(), 8, Some(20_000_000), time);
        assert!(other_token.unwrap_err().to_string().contains("no datagram comes back"));
        let port = serve("192.0.2.1".parse().unwrap(), 7).unwrap();
        assert!(measure((local, port).into(), 7, None, time).is_err());
    }
}
