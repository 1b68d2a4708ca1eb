// SPDX-License-Identifier: GPL-2.0-or-later
//! What the path to another host gives: one TCP connection, as fast as it goes for a while.
//!
//! Threats. The listener takes one connection, from the address that the engine names, and discards what comes, for a bounded time.

use crate::message::PathMeasured;
use host::tcp_info;
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// The longest measurement.
const LONGEST: Duration = Duration::from_secs(20);
/// How long to wait for the other host.
const CONNECT: Duration = Duration::from_secs(5);
const BLOCK: usize = 256 << 10;

/// Takes a connection from an address, and all that comes on it; with the port.
pub fn serve(from: IpAddr) -> io::Result<u16> {
    let any = match from {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let listener = TcpListener::bind((any, 0))?;
    let port = listener.local_addr()?.port();
    listener.set_nonblocking(true)?;
    thread::spawn(move || {
        // The engine hears of it from the sender.
        let _ = discard(&listener, from);
    });
    Ok(port)
}

fn discard(listener: &TcpListener, from: IpAddr) -> io::Result<()> {
    let begun = Instant::now();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, peer)) if peer.ip().to_canonical() == from => break stream,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if begun.elapsed() > 2 * CONNECT {
                    return Err(ErrorKind::TimedOut.into());
                }
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CONNECT))?;
    let mut block = vec![0; BLOCK];
    while begun.elapsed() < 2 * CONNECT + LONGEST && stream.read(&mut block)? > 0 {}
    Ok(())
}

/// Sends to another host for so long. The rate is that of the second half, when slow start is over.
pub fn send(to: SocketAddr, time: Duration) -> io::Result<PathMeasured> {
    let time = time.clamp(Duration::from_millis(100), LONGEST);
    let mut stream = TcpStream::connect_timeout(&to, CONNECT)?;
    stream.set_write_timeout(Some(CONNECT))?;
    let (block, begun) = (vec![0; BLOCK], Instant::now());
    let mut half = None;
    while begun.elapsed() < time {
        stream.write_all(&block)?;
        if half.is_none() && begun.elapsed() >= time / 2 {
            half = Some((begun.elapsed(), tcp_info(&stream)?.acked.get()));
        }
    }
    let (info, end) = (tcp_info(&stream)?, begun.elapsed());
    let (half_at, half_acked) = half.unwrap_or((Duration::ZERO, 0));
    let bits = info.acked.get().saturating_sub(half_acked) as f64 * 8.0;
    let sent = info.sent.get().max(1) as f64;
    Ok(PathMeasured {
        min_rtt_us: info.min_rtt_us.unwrap_or(info.rtt_us),
        rate_bps: (bits / end.saturating_sub(half_at).as_secs_f64().max(1e-3)) as u64,
        resent: info.resent.get() as f64 / sent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_measured_and_strangers_are_not_served() {
        let local: IpAddr = Ipv4Addr::LOCALHOST.into();
        let port = serve(local).unwrap();
        let measured = send((local, port).into(), Duration::from_millis(300)).unwrap();
        assert!(measured.rate_bps > 10_000_000 && measured.min_rtt_us < 50_000, "{measured:?}");
        assert!((0.0..0.5).contains(&measured.resent), "{measured:?}");
        let port = serve("192.0.2.1".parse().unwrap()).unwrap();
        assert!(send((local, port).into(), Duration::from_millis(300)).is_err());
        let nowhere = TcpListener::bind((local, 0)).unwrap().local_addr().unwrap();
        assert!(send(nowhere, Duration::from_millis(300)).is_err());
    }
}
