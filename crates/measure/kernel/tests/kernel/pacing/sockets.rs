// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP's own pacing on behalf of programs, against what their sockets say of it.

#![expect(unsafe_code, reason = "options of sockets that no library in use wraps")]

use crate::common::in_own_network;
use longhaul_kernel::pace::{Match, SocketPacer};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    num::NonZeroU16,
    os::fd::AsRawFd,
};
use testkit::with_kernel_names;

/// `SO_MAX_PACING_RATE`, in bytes/s; none if there is no limit, which is what a socket begins with.
fn limit(socket: &TcpStream) -> Option<u64> {
    let mut rate = 0u64;
    let mut size = size_of_val(&rate) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    // SAFETY: plain data, of which the kernel writes at most as much as there is.
    let told = unsafe {
        let into = (&raw mut rate).cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, into, &raw mut size)
    };
    assert_eq!(told, 0, "SO_MAX_PACING_RATE: {}", io::Error::last_os_error());
    Some(rate).filter(|rate| *rate != u64::MAX)
}

/// A connection over loopback to a port: who connected, and who was asked to.
fn connected(to: SocketAddr) -> [TcpStream; 2] {
    let listener = TcpListener::bind(to).expect("lo is up");
    let active = TcpStream::connect(to).expect("the listener is up");
    [active, listener.accept().expect("connected").0]
}

#[test]
fn tcp_paces_only_matching_sockets() {
    const PORT: u16 = 9000;
    let _turn = with_kernel_names();
    let asked = Some(SocketPacer::MAX_RATE.bps() / 8);
    let matches = Match { from_port: NonZeroU16::new(PORT), ..Match::default() };
    in_own_network(|| {
        let sockets = SocketPacer::attach(&[matches]).unwrap_or_else(|error| panic!("{error}"));
        let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        for address in addresses {
            // It sends from the port that it listens at; the other end does not.
            let [other, matching] = connected((address, PORT).into());
            assert_eq!((limit(&other), limit(&matching)), (None, asked), "{address}");
            let [other, unlike] = connected((address, PORT + 1).into());
            assert_eq!((limit(&other), limit(&unlike)), (None, None), "{address}");
        }
        assert_eq!(sockets.paced_sockets().expect("it tells"), 2);
        in_own_network(|| {
            let ends = connected((Ipv4Addr::LOCALHOST, PORT).into());
            assert_eq!(ends.each_ref().map(limit), [None; 2], "another namespace's");
        });
        drop(sockets);
        let ends = connected((Ipv4Addr::LOCALHOST, PORT).into());
        assert_eq!(ends.each_ref().map(limit), [None; 2], "the pacer is gone");
    });
}

#[test]
fn first_matching_socket_rule_wins() {
    let _turn = with_kernel_names();
    let port = |port| Match { to_port: NonZeroU16::new(port), ..Match::default() };
    let net = |net: &str| Match { destination: Some(net.parse().unwrap()), ..Match::default() };
    let limits = |matches: &[Match], to: SocketAddr| {
        in_own_network(|| {
            let _sockets = SocketPacer::attach(matches).unwrap_or_else(|error| panic!("{error}"));
            connected(to).each_ref().map(|end| limit(end).is_some())
        })
    };
    let v4 = (Ipv4Addr::LOCALHOST, 9000).into();
    let v6 = (Ipv6Addr::LOCALHOST, 9000).into();
    assert_eq!(limits(&[], v4), [false; 2]);
    assert_eq!(limits(&[port(1), port(9000)], v4), [true, false]);
    assert_eq!(limits(&[net("127.0.0.0/8")], v4), [true; 2]);
    assert_eq!(limits(&[net("10.0.0.0/8")], v4), [false; 2]);
    assert_eq!(limits(&[net("127.0.0.0/8")], v6), [false; 2]);
    assert_eq!(limits(&[net("::1/128")], v6), [true; 2]);
    let both = Match { destination: net("::1/128").destination, ..port(9000) };
    assert_eq!(limits(&[both], v6), [true, false]);
    let error = SocketPacer::attach(&[port(1); 17]).expect_err("too many");
    assert!(error.to_string().contains("16 rules at most"), "{error}");
}
