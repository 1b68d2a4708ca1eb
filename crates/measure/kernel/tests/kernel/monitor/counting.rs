// SPDX-License-Identifier: GPL-2.0-or-later
//! Every packet is counted, once, with its bytes on the wire; others' are not.

#![expect(unsafe_code, reason = "options of sockets that no library in use wraps")]

use super::wire::{Sender, cable, data, pause, udp};
use crate::common::{Pair, in_own_network, ip};
use longhaul_kernel::monitor::{Direction, DirectionStatistics, Flow, Monitor, Options};
use std::net::UdpSocket;
use testkit::with_kernel_names;

fn watch(device: &str) -> Monitor {
    Monitor::attach(&Options::of(device)).expect("it attaches")
}

fn stopped(monitor: &mut Monitor) -> DirectionStatistics {
    let snapshot = monitor.stop().expect("it tells");
    snapshot.statistics(Direction::Out).expect("watched by default").clone()
}

/// What holds of all figures.
fn agree(monitor: &Monitor, direction: Direction, figures: &DirectionStatistics) {
    let bins = monitor.bins(direction).expect("it is watched");
    assert_eq!(bins.data().bins().iter().sum::<u64>(), figures.bytes);
    assert_eq!(bins.gap_frames().bins().iter().sum::<u64>(), figures.gap_bytes);
    assert_eq!(bins.data().bins().iter().max().copied(), figures.peak.map(|peak| peak.bytes));
    assert_eq!(figures.missed_bytes, 0);
    assert_eq!(figures.gaps.count, figures.handovers - 1);
    assert_eq!(figures.gaps.histogram.count(), figures.gaps.count);
    assert_eq!(figures.bursts.histogram.count(), figures.bursts.count);
    let (first, last) = figures.span.expect("there was data");
    assert_eq!(figures.gaps.sum_ns, last.since(first).as_nanos(), "gaps are all the time between");
}

#[test]
fn frames_and_gap_frames_are_counted_exactly() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        let mut monitor = watch("left");
        let sender = Sender::on("left");
        for bytes in 60..=1514 {
            sender.send(&data(bytes));
            if bytes % 3 == 0 {
                sender.send(&pause(bytes));
            }
        }
        // Halves of what makes a gap frame are data.
        let (mut other_type, mut other_destination) = (pause(60), pause(60));
        other_type[13] = 9;
        other_destination[5] = 2;
        sender.send(&other_type);
        sender.send(&other_destination);
        let figures = stopped(&mut monitor);
        let sizes = || 60..=1514_u64;
        let spaced = sizes().filter(|bytes| bytes % 3 == 0).count() as u64;
        assert_eq!(figures.packets, sizes().count() as u64 + 2);
        assert_eq!(figures.bytes, sizes().sum::<u64>() + 120);
        assert_eq!(figures.handovers, figures.packets);
        assert_eq!(figures.super_handovers, 0);
        assert_eq!(figures.gap_frames, spaced);
        assert_eq!(figures.gap_bytes, sizes().filter(|bytes| bytes % 3 == 0).sum::<u64>());
        assert_eq!(figures.unspaced, figures.gaps.count - spaced);
        assert!(figures.bursts.count > spaced, "a gap frame ends a burst");
        agree(&monitor, Direction::Out, &figures);
    });
}

#[test]
fn intermediate_reads_neither_repeat_nor_lose_counts() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        let options = Options { bin: "10us".parse().expect("a time"), ..Options::of("left") };
        let mut monitor = Monitor::attach(&options).expect("it attaches");
        let sender = Sender::on("left");
        let mut before = 0;
        for round in 1..=200_u64 {
            (0..10).for_each(|_| sender.send(&data(1000)));
            let snapshot = monitor.read().expect("it tells");
            let figures = snapshot.statistics(Direction::Out).expect("watched by default");
            assert_eq!((figures.packets, figures.bytes), (round * 10, round * 10_000));
            assert_eq!(figures.missed_bytes, 0);
            let binned = monitor.bins(Direction::Out).expect("watched").data().bins().iter();
            let binned: u64 = binned.sum();
            assert!(before <= binned && binned <= figures.bytes, "{binned} after {before}");
            before = binned;
        }
        let figures = stopped(&mut monitor);
        assert_eq!(figures.bytes, 2_000_000);
        agree(&monitor, Direction::Out, &figures);
        sender.send(&data(1000));
        assert_eq!(stopped(&mut monitor), figures, "stopped is stopped");
    });
}

#[test]
fn bins_read_too_late_are_counted_as_missed() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        let options = Options { bin: "10us".parse().expect("a time"), ..Options::of("left") };
        let mut monitor = Monitor::attach(&options).expect("it attaches");
        let sender = Sender::on("left");
        // The ring has 32 768 bins. A hand-over is in the bin in which `send` returns or in one before,
        // so twice as many of those are more than the ring holds.
        let started = std::time::Instant::now();
        let mut bins = std::collections::BTreeSet::new();
        while bins.len() < 2 * 32_768 + 2 {
            sender.send(&data(100));
            bins.insert(started.elapsed().as_micros() / 10);
        }
        let figures = stopped(&mut monitor);
        let binned: u64 = monitor.bins(Direction::Out).expect("watched").data().bins().iter().sum();
        assert!(figures.missed_bytes > 0);
        assert_eq!(binned + figures.missed_bytes, figures.bytes);
    });
}

#[test]
fn both_directions_are_counted_separately() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        let directions = vec![Direction::In, Direction::Out];
        let mut monitor = Monitor::attach(&Options { directions, ..Options::of("right") }).unwrap();
        let (left, right) = (Sender::on("left"), Sender::on("right"));
        (0..30).for_each(|_| left.send(&data(1000)));
        (0..20).for_each(|_| right.send(&data(500)));
        left.send(&pause(700));
        // Received by softirq, on this processor, before `send` returns or a little later.
        testkit::until("all to arrive", || {
            let snapshot = monitor.read().expect("it tells");
            snapshot.statistics(Direction::In).expect("watched").gap_frames == 1
        });
        let snapshot = monitor.stop().expect("it tells");
        for (direction, packets, bytes, gap_bytes) in
            [(Direction::In, 30, 30_000, 700), (Direction::Out, 20, 10_000, 0)]
        {
            let figures = snapshot.statistics(direction).expect("watched");
            assert_eq!((figures.packets, figures.bytes), (packets, bytes), "{direction:?}");
            assert_eq!(figures.gap_bytes, gap_bytes);
            agree(&monitor, direction, figures);
        }
    });
}

#[test]
fn same_ifindex_in_two_namespaces_is_kept_apart() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        let mut ours = watch("left");
        let theirs = std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                in_own_network(|| {
                    cable();
                    let mut theirs = watch("left");
                    let sender = Sender::on("left");
                    (0..7).for_each(|_| sender.send(&data(200)));
                    (theirs.namespace(), stopped(&mut theirs))
                })
            });
            inside.join().expect("it does not panic")
        });
        let sender = Sender::on("left");
        (0..5).for_each(|_| sender.send(&data(100)));
        // The same number, other namespaces; and not the cable's other end.
        assert_ne!(ours.namespace(), theirs.0);
        let ours = stopped(&mut ours);
        assert_eq!((ours.packets, ours.bytes), (5, 500));
        assert_eq!((theirs.1.packets, theirs.1.bytes), (7, 1400));
    });
}

#[test]
fn udp_super_packet_segments_count_with_their_headers() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        ip(&["address", "add", "10.9.0.1/24", "dev", "left"]);
        let far = "02:00:00:00:00:01";
        ip(&["neigh", "add", "10.9.0.2", "lladdr", far, "dev", "left", "nud", "permanent"]);
        let socket = UdpSocket::bind("10.9.0.1:7000").expect("the address is there");
        segmented(&socket, 1000);
        let options = Options { per_flow: true, ..Options::of("left") };
        let mut monitor = Monitor::attach(&options).expect("it attaches");
        socket.send_to(&[7; 10_500], "10.9.0.2:9000").expect("sent");
        socket.send_to(&[7; 800], "10.9.0.2:9000").expect("sent");
        let figures = stopped(&mut monitor);
        assert_eq!((figures.handovers, figures.super_handovers), (2, 1));
        assert_eq!((figures.packets, figures.super_packets), (12, 11));
        assert_eq!(figures.bytes, 10_500 + 800 + 12 * (14 + 20 + 8));
        let [flow] = figures.flows[..] else { panic!("{:?}", figures.flows) };
        assert_eq!((flow.packets, flow.bytes), (figures.packets, figures.bytes));
        assert_eq!(flow.flow.to_string(), "udp 10.9.0.1:7000 > 10.9.0.2:9000");
        agree(&monitor, Direction::Out, &figures);
    });
}

fn segmented(socket: &UdpSocket, segment: i32) {
    use std::os::fd::AsRawFd;
    let size = size_of_val(&segment) as u32;
    // SAFETY: the option is read only, as long as it says.
    let set = unsafe {
        let value = (&raw const segment).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, value, size)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Both ends on one device: what either socket says that it sent, SYN included.
#[test]
fn tcp_segment_counts_match_the_sockets() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        // Loopback's own packets are as large as super-packets.
        ip(&["link", "set", "lo", "mtu", "1500"]);
        let options = Options { per_flow: true, ..Options::of("lo") };
        let mut monitor = Monitor::attach(&options).expect("it attaches");
        let pair = Pair::connect("reno");
        pair.transfer(20_000_000);
        // Acknowledgements may be put off.
        testkit::until("the last acknowledgement", || {
            let sent = || [&pair.sender, &pair.receiver].map(sent);
            let before = sent();
            std::thread::sleep(std::time::Duration::from_millis(200));
            before == sent()
        });
        let (segments, payload) = sent(&pair.receiver);
        // The socket that was accepted is younger than its SYN.
        let sent = [sent(&pair.sender), (segments + 1, payload)];
        let figures = stopped(&mut monitor);
        assert!(figures.super_packets > 0, "loopback takes super-packets");
        let port = pair.sender.local_addr().unwrap().as_socket().unwrap().port();
        let of = |ours: bool| {
            let mut flows = figures.flows.iter();
            let found = flows.find(|of| match of.flow {
                Flow::Ip { source, .. } => (source.port() == port) == ours,
                Flow::Other => false,
            });
            *found.expect("it was counted")
        };
        for (flow, (segments, payload)) in [of(true), of(false)].iter().zip(sent) {
            assert_eq!(flow.packets, segments, "{}", flow.flow);
            // Ethernet, IPv4 and TCP with timestamps; a SYN has eight bytes more of options.
            assert_eq!(flow.bytes, payload + segments * (14 + 20 + 32) + 8, "{}", flow.flow);
        }
        agree(&monitor, Direction::Out, &figures);
    });
}

/// Segments and bytes that a socket sent, also again: of `struct tcp_info` of linux/tcp.h.
fn sent(socket: &socket2::Socket) -> (u64, u64) {
    use std::os::fd::AsRawFd;
    const SEGS_OUT: usize = 136;
    const BYTES_SENT: usize = 200;
    let mut info = [0_u8; 232];
    let mut size = info.len() as u32;
    // SAFETY: the kernel writes at most as much as `size` says.
    let got = unsafe {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(socket.as_raw_fd(), level, name, info.as_mut_ptr().cast(), &raw mut size)
    };
    assert!(got == 0 && size as usize >= BYTES_SENT + 8, "TCP_INFO of Linux 4.19 or newer");
    let segments = u32::from_ne_bytes(info[SEGS_OUT..SEGS_OUT + 4].try_into().unwrap());
    let bytes = u64::from_ne_bytes(info[BYTES_SENT..BYTES_SENT + 8].try_into().unwrap());
    (segments.into(), bytes)
}

#[test]
fn flows_are_distinguished_behind_a_vlan_tag() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        let options = Options { per_flow: true, ..Options::of("left") };
        let mut monitor = Monitor::attach(&options).expect("it attaches");
        let sender = Sender::on("left");
        for n in 1..=20_u16 {
            (0..n).for_each(|_| sender.send(&udp(200, (1000 + n, 9), (n % 2 == 0).then_some(n))));
        }
        sender.send(&data(60));
        sender.send(&pause(60));
        let figures = stopped(&mut monitor);
        assert_eq!(figures.flows.len(), 21);
        for (flow, n) in figures.flows.iter().zip((1..=20_u16).rev()) {
            let text = format!("udp 10.0.0.1:{} > 10.0.0.2:9", 1000 + n);
            assert_eq!((flow.flow.to_string(), flow.packets), (text, n.into()), "most bytes first");
            assert_eq!(flow.bytes, u64::from(n) * 200);
        }
        let other = figures.flows[20];
        assert_eq!((other.flow, other.packets, other.bytes), (Flow::Other, 1, 60));
    });
}
