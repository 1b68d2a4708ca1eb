// SPDX-License-Identifier: GPL-2.0-or-later
//! Targets of sockets, against what TCP says of them.

#![expect(unsafe_code, reason = "options of sockets that no library in use wraps")]

use super::{LINE, injector, options, wire};
use crate::common::in_own_network;
use longhaul_kernel::pace::Target;
use netmodel::pacing::Estimator;
use std::{
    fs,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::AsRawFd,
};
use testkit::alone;
use testkit::until;
use wire::{RECEIVER_V4, RECEIVER_V6, Wire};

fn info(socket: &TcpStream) -> libc::tcp_info {
    // SAFETY: plain data, of which the kernel writes at most as much as there is.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut size = size_of_val(&info) as libc::socklen_t;
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        let into = (&raw mut info).cast();
        let told = libc::getsockopt(socket.as_raw_fd(), level, option, into, &raw mut size);
        assert_eq!(told, 0, "TCP_INFO: {}", io::Error::last_os_error());
        info
    }
}

/// The smallest round trip, which libc's `tcp_info` ends before.
fn min_rtt_us(socket: &TcpStream) -> u32 {
    /// Of linux/tcp.h: behind `tcpi_notsent_bytes`.
    const PLACE: usize = 148;
    let mut words = [0u32; 64];
    let mut size = size_of_val(&words) as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: plain data, of which the kernel writes at most as much as there is.
    let told = unsafe {
        let into = words.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, into, &raw mut size)
    };
    assert!(told == 0 && size as usize > PLACE);
    words[PLACE / 4]
}

#[test]
fn targets_are_those_of_equation_1() {
    let _alone = alone();
    for (to, headers) in [(RECEIVER_V4, 66), (RECEIVER_V6, 86)] {
        // Nothing is found of a path that one segment after the other does not fill.
        let capped = Estimator { find_cap: true, ..Estimator::LINK };
        let estimators = [(Estimator::LINK, "link"), (capped, "link"), (Estimator::PAPER, "paper")];
        for (estimator, name) in estimators {
            in_own_network(|| compare(to, headers, estimator, name));
        }
    }
}

/// One segment after the other: what TCP says before it sends one is what the program sees.
fn compare(to: &str, headers: u32, estimator: Estimator, name: &str) {
    const OVERHEAD: u32 = 24;
    let wire = Wire::new();
    fs::write("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0").expect("a setting");
    let injector = injector(&options(OVERHEAD.into(), Target::Auto(estimator), None));
    let listener = wire.there(|| TcpListener::bind((to, 9000)).expect("an address"));
    let mut gap_bytes = 0;
    let look = |frame: wire::Frame| gap_bytes += u64::from(frame.is_gap()) * frame.on_link(24);
    wire.carrying(look, || {
        let mut socket = TcpStream::connect((to, 9000)).expect("the listener is up");
        socket.set_nodelay(true).expect("a TCP socket");
        let mut receiver = listener.accept().expect("connected").0;
        let mut segment = [7; 1000];
        for _ in 0..30 {
            let told = info(&socket);
            let (mss, cwnd) = (told.tcpi_snd_mss, f64::from(told.tcpi_snd_cwnd));
            let expected = match name {
                "link" => {
                    let packet = f64::from(mss + headers + OVERHEAD);
                    cwnd * packet / (f64::from(min_rtt_us(&socket)) / 1e6)
                }
                _ => cwnd * f64::from(mss) / (f64::from(told.tcpi_rtt) / 1e6),
            };
            socket.write_all(&segment).expect("connected");
            receiver.read_exact(&mut segment).expect("it comes");
            until("it is acknowledged", || info(&socket).tcpi_unacked == 0);
            let senders = injector.senders().expect("it tells");
            let target = senders[0].target.bps() as f64 / 8.0;
            // Whole bytes a second.
            assert!((target - expected).abs() <= 1.0 + expected * 1e-12, "{target} {expected}");
        }
    });
    let counts = injector.counts().expect("it tells");
    assert_eq!((counts.packets, counts.no_rtt), (30, 0), "not those without payload");
    assert_eq!(counts.bytes, 30 * u64::from(1000 + headers + OVERHEAD));
    assert_eq!(counts.gap_bytes, gap_bytes);
}

#[test]
fn slow_socket_gets_target_gaps_and_datagrams_get_none() {
    let _alone = alone();
    in_own_network(|| {
        let wire = Wire::new();
        let most = units::Rate::bits_per_second(LINE / 5);
        let estimator = Estimator { max_rate: Some(most), ..Estimator::LINK };
        let injector = injector(&options(24, Target::Auto(estimator), None));
        let listener = wire.there(|| TcpListener::bind((RECEIVER_V4, 9000)).expect("an address"));
        let mut after_udp = None;
        let (mut packets, mut gaps) = (0u64, 0u64);
        wire.carrying(
            |frame| {
                if frame.is_gap() {
                    assert_ne!(after_udp, Some(true), "a gap behind a datagram");
                    gaps += frame.on_link(24);
                } else if frame.payload() > 0 {
                    packets += frame.on_link(24);
                }
                after_udp = Some(!frame.is_gap() && frame.payload() == 0);
            },
            || {
                let udp = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
                let mut socket = TcpStream::connect((RECEIVER_V4, 9000)).expect("listening");
                let mut receiver = listener.accept().expect("connected").0;
                let mut block = vec![1; 100_000];
                for _ in 0..10 {
                    socket.write_all(&block).expect("connected");
                    receiver.read_exact(&mut block).expect("it comes");
                    until("it is acknowledged", || info(&socket).tcpi_unacked == 0);
                    udp.send_to(&[0; 500], (RECEIVER_V4, 9001)).expect("it is sent");
                }
            },
        );
        // At a fifth of the link four times a packet is gap; more where the target was below that.
        assert!(gaps + 84 > packets * 4, "{packets} {gaps}");
        let counts = injector.counts().expect("it tells");
        assert_eq!((counts.bytes, counts.gap_bytes), (packets, gaps));
    });
}
