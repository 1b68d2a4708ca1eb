// SPDX-License-Identifier: GPL-2.0-or-later
//! The emulated network with real kernel TCP and UDP on it: nothing is invented, nothing vanishes
//! uncounted, and super-packets are accounted for segment by segment. Takes root.

use longhaul_wan::{LaneState, Wan};
use scenario::Scenario;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Held by each test here: two cores don't run several emulators in real time.
fn alone() -> MutexGuard<'static, ()> {
    static NETWORK: Mutex<()> = Mutex::new(());
    NETWORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nodes n0, n1, … in a line, links with these settings.
fn line_of(family: &str, links: &[&str]) -> Wan {
    let mut text = format!("title = \"test\"\nfamily = \"{family}\"\n");
    for n in 0..=links.len() {
        text += &format!("[[node]]\nname = \"n{n}\"\n");
    }
    for (n, settings) in links.iter().enumerate() {
        text += &format!("[[link]]\nbetween = [\"n{n}\", \"n{}\"]\n{settings}\n", n + 1);
    }
    let scenario = Scenario::parse(&text, "test", &[] as &[&str]).expect("a sound scenario");
    Wan::up(&scenario.runs[0]).unwrap_or_else(|error| panic!("{error}"))
}

/// Bytes that differ from their neighbours at any distance a shifted segment could have.
fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

/// Sends bytes over one TCP connection; answers what arrived, and the segments sent again.
fn transfer(wan: &Wan, from: &str, to: &str, bytes: &[u8]) -> Vec<u8> {
    let address = wan.address(to).unwrap();
    let listener = wan.node(to).unwrap().namespace.run(|| TcpListener::bind((address, 0))).unwrap();
    let target = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut arrived = Vec::new();
            socket.read_to_end(&mut arrived).unwrap();
            arrived
        });
        let mut socket =
            wan.node(from).unwrap().namespace.run(|| TcpStream::connect(target)).unwrap();
        socket.write_all(bytes).unwrap();
        drop(socket);
        receiver.join().unwrap()
    })
}

fn assert_conserved(lanes: &[LaneState]) {
    for lane in lanes {
        let c = &lane.counters;
        assert_eq!(c.offered, c.delivered + c.queue_drops + c.losses + c.too_long, "{c:?}");
        assert_eq!(lane.monitor.iter().sum::<u64>(), c.carried_bytes, "{c:?}");
    }
}

/// Frames that a node's device handed to its kernel.
fn frames_received(wan: &Wan, node: &str, device: &str) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
    let table = wan.node(node).unwrap().namespace.run(read).unwrap();
    let line = table.lines().find(|line| line.trim_start().starts_with(device)).unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[test]
fn tcp_delivers_what_was_sent_through_losses_drops_and_forwarding() {
    let _alone = alone();
    let bytes = pattern(3_000_000);
    for family in ["ipv4", "ipv6"] {
        let wan = line_of(
            family,
            &[
                "rate = \"200mbit\"\ndelay = \"2ms\"",
                "rate = \"100mbit\"\ndelay = \"5ms\"\nloss = \"0.5%\"\nqueue = \"40p\"",
                "rate = \"200mbit\"\ndelay = \"2ms\"\nmax_burst = \"0\"",
            ],
        );
        assert!(transfer(&wan, "n0", "n3", &bytes) == bytes, "{family}: other bytes arrived");
        assert!(transfer(&wan, "n3", "n0", &bytes) == bytes, "{family}: other bytes arrived");
        let end = wan.down().unwrap();
        assert_conserved(&end.lanes);
        let hurt: u64 =
            end.lanes[2..4].iter().map(|l| l.counters.losses + l.counters.queue_drops).sum();
        assert!(hurt > 0, "nothing was lost, so nothing was shown: {:?}", end.lanes[2].counters);
        assert_eq!((end.health.malformed, end.health.write_errors), (0, 0), "{:?}", end.health);
    }
}

#[test]
fn a_delivered_frame_spans_no_more_than_the_limit_on_the_link() {
    let _alone = alone();
    let bytes = pattern(2_000_000);
    // At 100 Mb/s a segment takes 121.1 us: two fit into 250 us, eight into 1 ms.
    for (max_burst, fits) in [("0", 1), ("250us", 2), ("1ms", 8)] {
        let link = format!(
            "rate = \"100mbit\"\ndelay = \"1ms\"\nqueue = \"4MB\"\nmax_burst = \"{max_burst}\""
        );
        let wan = line_of("ipv4", &[&link]);
        assert!(transfer(&wan, "n0", "n1", &bytes) == bytes);
        let frames = frames_received(&wan, "n1", "wan0");
        let end = wan.down().unwrap();
        let segments = end.lanes[0].counters.delivered;
        assert!(segments >= 2_000_000 / 1448, "each segment was accounted for: {segments}");
        assert!(frames >= segments.div_ceil(fits), "{max_burst}: {frames} for {segments}");
        if fits > 1 {
            assert!(frames < segments, "{max_burst}: super-packets stay together: {frames}");
        }
    }
}

#[test]
fn single_segments_are_lost_out_of_super_packets_and_sent_again() {
    let _alone = alone();
    let bytes = pattern(4_000_000);
    let link = "rate = \"200mbit\"\ndelay = \"2ms\"\nqueue = \"8MB\"\nforward = { loss = { periodic = 100 } }";
    let wan = line_of("ipv4", &[link]);
    assert!(transfer(&wan, "n0", "n1", &bytes) == bytes);
    let end = wan.down().unwrap();
    let forward = &end.lanes[0].counters;
    assert_eq!(
        forward.losses,
        forward.offered / 100,
        "every hundredth segment, whatever its frame"
    );
    let needed = 4_000_000_u64.div_ceil(1448);
    let again = forward.offered - needed;
    // Had whole frames been lost, TCP would have sent several segments again for each loss.
    assert!(again >= forward.losses && again < 2 * forward.losses + 20, "{again} for {forward:?}");
}

#[test]
fn datagrams_are_dropped_and_lost_exactly_as_counted() {
    const SENT: u64 = 500;
    let _alone = alone();
    let link = "rate = \"10mbit\"\ndelay = \"1ms\"\nqueue = \"20p\"\nforward = { loss = { periodic = 7 } }";
    let wan = line_of("ipv4", &[link]);
    let address = wan.address("n1").unwrap();
    let receiver = wan.node("n1").unwrap().namespace.run(|| UdpSocket::bind((address, 0))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let source = wan.address("n0").unwrap();
    let sender = wan.node("n0").unwrap().namespace.run(|| UdpSocket::bind((source, 0))).unwrap();
    for n in 0..SENT {
        let mut datagram = [0; 1000];
        datagram[..8].copy_from_slice(&n.to_be_bytes());
        sender.send_to(&datagram, receiver.local_addr().unwrap()).unwrap();
    }
    let mut numbers = Vec::new();
    let mut datagram = [0; 1000];
    while receiver.recv(&mut datagram).is_ok() {
        numbers.push(u64::from_be_bytes(datagram[..8].try_into().unwrap()));
    }
    let end = wan.down().unwrap();
    assert_conserved(&end.lanes);
    let forward = &end.lanes[0].counters;
    assert!(numbers.is_sorted(), "a link keeps the order");
    assert_eq!(forward.offered, SENT);
    assert_eq!(forward.delivered, numbers.len() as u64);
    assert_eq!(forward.losses, (SENT - forward.queue_drops) / 7);
    assert_eq!(forward.queue_max_packets, 20);
    assert!(forward.queue_drops > 0);
    assert_eq!(end.lanes[1].counters.offered, 0, "nothing is sent that nobody asked for");
}

#[test]
fn an_emulator_that_cannot_keep_up_says_so() {
    let _alone = alone();
    // 3.3 million packets a second, one by one: several times what a processor can write.
    let link = "rate = \"40gbit\"\ndelay = \"1ms\"\nqueue = \"100MB\"\nmax_burst = \"0\"";
    let wan = line_of("ipv4", &[link]);
    let bytes = pattern(30_000_000);
    assert!(transfer(&wan, "n0", "n1", &bytes) == bytes);
    let end = wan.down().unwrap();
    assert_conserved(&end.lanes);
    let faults = end.health.faults();
    assert!(faults.iter().any(|fault| fault.contains("late")), "{faults:?} {:?}", end.health);
}

#[test]
fn nodes_have_the_scenarios_settings_and_programs_their_names() {
    let _alone = alone();
    let text = "title = \"settings\"\n\
        [[node]]\nname = \"client\"\ntcp_rmem_max = \"3MB\"\nsysctl = { \"net.ipv4.tcp_sack\" = \"0\" }\n\
        [[node]]\nname = \"server\"\ncc = \"bbr\"\n\
        [[link]]\nbetween = [\"client\", \"server\"]\ndelay = \"1ms\"\n";
    let scenario = Scenario::parse(text, "test", &[] as &[&str]).unwrap();
    let allowed =
        || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
    let before = allowed();
    let wan = Wan::up(&scenario.runs[0]).unwrap();
    let client = &wan.node("client").unwrap().namespace;
    assert!(client.sysctl("net.ipv4.tcp_rmem").unwrap().ends_with(" 3145728"));
    assert_eq!(client.sysctl("net.ipv4.tcp_sack").unwrap(), "0");
    let hosts =
        wan.command("client", "getent").unwrap().args(["hosts", "server"]).output().unwrap();
    assert!(String::from_utf8_lossy(&hosts.stdout).starts_with("10.110.0.2"));
    let route = wan.command("server", "ip").unwrap().args(["route"]).output().unwrap();
    assert!(String::from_utf8_lossy(&route.stdout).contains("congctl bbr"));
    assert!(wan.node("moon").is_err());
    assert_eq!(before, allowed(), "the machine's own settings are left alone");
}
