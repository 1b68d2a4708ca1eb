// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul wan bridge`: a box between two hosts that know nothing of it; ended in every way, and used wrongly.

mod lab;

use crate::common::{one_of_two, scenario, text};
use lab::{LEFT, Lab, RIGHT, RIGHT_V6, one_link, pass, sh, write};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    process::Command,
    thread,
    time::{Duration, Instant},
};
use testkit::{Measured, credible, draft::Draft, until};

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn round_trips_take_the_delays_of_the_path() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    let path = Draft::new("three nodes", "")
        .nodes(&["west", "middle", "east", "aside"])
        .link("west", "middle", "rate=100mbit delay=12ms")
        .link("middle", "east", "rate=50mbit delay=8ms discipline=codel")
        .link("middle", "aside", "")
        .flow("west", "east", "bytes=1MB");
    let path = write(folder.path(), &path);
    let (code, said) = lab.refused(&["card-a", "card-b", "--scenario", path.to_str().unwrap()]);
    assert!(code == 2 && said.contains("3 nodes") && said.contains("--between"), "{said}");
    let bridge = lab.bridge(&path, &["--between", "west,east"]);
    assert!(bridge.said.contains("1 flows and traffic sources of the scenario are ignored"));
    assert!(bridge.said.contains("links that are not on the path are ignored: middle-aside"));
    assert!(bridge.said.contains("card-a is at west, card-b at east"), "{}", bridge.said);
    for ends in [[LEFT, RIGHT], ["fd00:7::1", RIGHT_V6]] {
        let trip = lab.round_trip(ends, 100).unwrap();
        assert!(trip >= 40 * MILLISECOND && trip < 60 * MILLISECOND, "{trip:?}");
    }
    let neighbours = sh(&lab.left, "ip neigh show");
    let mac = sh(&lab.right, "ip -br link show eth0");
    let mac = mac.split_whitespace().nth(2).unwrap();
    assert!(neighbours.contains(&format!("{RIGHT} dev eth0 lladdr {mac}")), "{neighbours}");
    let status = bridge.end("INT");
    let names: Vec<&str> = status["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| link["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "west-middle/forward",
            "middle-east/forward",
            "middle-east/backward",
            "west-middle/backward"
        ]
    );
    // ARP, neighbour discovery and ten datagrams of either family, on each link.
    for link in status["links"].as_array().unwrap() {
        assert!(link["delivered"].as_u64().unwrap() >= 22, "{status}");
    }
}

/// Whole super-packets of TCP pass, are accounted for packet by packet, and arrive whole.
#[test]
fn tcp_gets_the_rate_of_the_path() {
    let _turn = one_of_two();
    credible(|| {
        let (rates, status) = rates_of_tcp();
        // A packet of 1448 bytes of payload takes 1514 of the link.
        let most = 50e6 * 1448.0 / 1514.0 * 1.01;
        let is_right = |rate: &f64| (50e6 * 0.7..most).contains(rate);
        let wrong = !rates.iter().all(is_right);
        let faults: Vec<String> = serde_json::from_value(status["faults"].clone()).unwrap();
        Measured { wrong: wrong.then(|| format!("{rates:?}")).into_iter().collect(), faults }
    });
}

/// The rates of a transfer over either family, and the bridge's last status.
fn rates_of_tcp() -> ([f64; 2], Value) {
    const BYTES: usize = 12_000_000;
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    let bridge = lab.bridge(&one_link(folder.path(), "rate=50mbit delay=5ms"), &[]);
    let sent: Vec<u8> =
        (0..BYTES as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let rates = [RIGHT, RIGHT_V6].map(|to| {
        let listener = lab.right.run(|| TcpListener::bind((to, 0))).unwrap();
        let mut sender =
            lab.left.run(|| TcpStream::connect(listener.local_addr().unwrap())).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let sent = &sent;
        let started = Instant::now();
        let (received, took) = thread::scope(|scope| {
            scope.spawn(move || sender.write_all(sent).unwrap());
            let mut received = Vec::new();
            receiver.read_to_end(&mut received).unwrap();
            (received, started.elapsed())
        });
        assert!(received == *sent, "{} bytes came, and not those", received.len());
        BYTES as f64 * 8.0 / took.as_secs_f64()
    });
    let status = bridge.end("TERM");
    let offered = status["links"][0]["offered"].as_u64().unwrap();
    assert!(offered > 2 * BYTES as u64 / 1448, "{status}");
    (rates, status)
}

#[test]
fn lost_packets_are_as_many_as_the_scenario_says() {
    const SENT: u32 = 4000;
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    let bridge =
        lab.bridge(&one_link(folder.path(), "rate=100mbit delay=1ms loss=5% queue=10000p"), &[]);
    // ARP may be lost, too, and packets with it.
    let link = sh(&lab.right, "ip -br link show eth0");
    let mac = link.split_whitespace().nth(2).unwrap();
    sh(&lab.left, &format!("ip neigh replace {RIGHT} lladdr {mac} dev eth0"));
    let receiver = lab.right.run(|| UdpSocket::bind((RIGHT, 0))).unwrap();
    let sender = lab.left.run(|| UdpSocket::bind((LEFT, 0))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let mut received = 0;
    let mut buffer = [0; 100];
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..SENT {
                sender.send(&n.to_be_bytes()).unwrap();
                if n % 50 == 0 {
                    thread::sleep(2 * MILLISECOND);
                }
            }
        });
        while receiver.recv(&mut buffer).is_ok() {
            received += 1;
        }
    });
    let status = bridge.end("INT");
    // The binomial's mean is 200, its deviation 13.8.
    let lost = SENT - received;
    assert!((130..270).contains(&lost), "{lost}");
    let counted = status["links"][0]["losses"].as_u64().unwrap();
    // Or packets that the hosts send by themselves.
    assert!((u64::from(lost)..=u64::from(lost) + 3).contains(&counted), "{lost} lost, {status}");
}

fn ethernet(to: [u8; 6], rest: &[&[u8]]) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 1], &rest.concat()].concat()
}

/// Every frame arrives as it was, in order, whatever its protocol, tags and addresses.
#[test]
fn frames_of_any_protocol_pass_unchanged() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    let bridge = lab.bridge(&one_link(folder.path(), "rate=100mbit delay=2ms"), &[]);
    let (host, all, lldp) = ([2, 0, 0, 0, 0, 9], [255; 6], [1, 0x80, 0xc2, 0, 0, 0x0e]);
    let noise = |length: usize| -> Vec<u8> { (0..length).map(|n| (n * 7 % 251) as u8).collect() };
    let frames = vec![
        ethernet(host, &[&[0x88, 0xb5], &noise(46)]),
        ethernet(host, &[&[0x88, 0xb5], &noise(1500)]),
        ethernet(all, &[&[0x08, 0x06], &noise(46)]),
        ethernet(lldp, &[&[0x88, 0xcc], &noise(60)]),
        // Length instead of type, as spanning tree has it.
        ethernet([1, 0x80, 0xc2, 0, 0, 0], &[&[0, 38, 0x42, 0x42, 3], &noise(43)]),
        // Priority 3 in VLAN 5; no VLAN, only a priority; two tags.
        ethernet(host, &[&[0x81, 0, 0x60, 5, 0x88, 0xb5], &noise(46)]),
        ethernet(host, &[&[0x81, 0, 0x60, 5, 0x88, 0xb5], &noise(1500)]),
        ethernet(host, &[&[0x81, 0, 0xe0, 0, 0x88, 0xb5], &noise(100)]),
        ethernet(host, &[&[0x88, 0xa8, 0x20, 7, 0x81, 0, 0, 9, 0x08, 0x00], &noise(400)]),
        // IP with damaged lengths is nobody's business.
        ethernet(host, &[&[0x08, 0x00], &[0xff; 46]]),
        ethernet(host, &[&[0x86, 0xdd], &[0xff; 60]]),
    ];
    let heard = pass(&lab, &frames, "plain", frames.len());
    for (n, (heard, sent)) in heard.iter().zip(&frames).enumerate() {
        assert_eq!(heard, sent, "frame {n}");
    }
    bridge.end("INT");
}

/// Super-packets in a VLAN, of TCP and of UDP: the receiver sees packets of the right lengths, with the payload.
#[test]
fn super_packets_in_a_vlan_are_cut_where_they_should() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    let path = one_link(folder.path(), "rate=100mbit delay=2ms max_burst=0s");
    let bridge = lab.bridge(&path, &[]);
    let payload: Vec<u8> = (0..5000_u32).map(|n| (n * 13 % 241) as u8).collect();
    let tagged = |protocol: u8, transport: &[u8]| {
        let length = 20 + transport.len() as u16 + payload.len() as u16;
        let ip =
            [&[0x45, 0][..], &length.to_be_bytes(), &[0, 1, 0x40, 0, 64, protocol, 0, 0]].concat();
        let ip = [&ip[..], &[10, 7, 0, 1, 10, 7, 0, 2]].concat();
        ethernet([2, 0, 0, 0, 0, 9], &[&[0x81, 0, 0x60, 5, 0x08, 0x00], &ip, transport, &payload])
    };
    let tcp = [&[0, 80, 0, 81, 0, 0, 0, 100, 0, 0, 0, 1, 0x50, 0x18, 1, 0][..], &[0; 4]].concat();
    let udp_length = (8 + payload.len() as u16).to_be_bytes();
    let udp = [&[0, 80, 0, 81][..], &udp_length, &[0, 0]].concat();
    for (gso, protocol, transport, checksum) in [(1, 6, tcp, 16), (5, 17, udp, 6)] {
        let headers = 14 + 4 + 20 + transport.len();
        let fields = [headers as u16, 1400, 38, checksum].map(u16::to_ne_bytes).concat();
        let frame = [&[1, gso][..], &fields, &tagged(protocol, &transport)].concat();
        let heard = pass(&lab, &[frame], "vnet", 4);
        let mut joined: Vec<u8> = Vec::new();
        for (n, packet) in heard.iter().enumerate() {
            assert_eq!(packet[12..18], [0x81, 0, 0x60, 5, 0x08, 0x00]);
            let length = usize::from(u16::from_be_bytes([packet[20], packet[21]]));
            assert_eq!(length, packet.len() - 18);
            assert_eq!(packet.len() - headers, if n < 3 { 1400 } else { 800 });
            joined.extend(&packet[headers..]);
        }
        assert_eq!(joined, payload);
    }
    let status = bridge.end("INT");
    assert!(status["links"][0]["offered"].as_u64().unwrap() >= 8, "{status}");
}

#[test]
fn datagrams_of_one_call_arrive_one_by_one() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    let bridge = lab.bridge(&one_link(folder.path(), "rate=100mbit delay=2ms"), &[]);
    let receiver = lab.right.run(|| UdpSocket::bind((RIGHT, 0))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.setsockopt(17, 103, 1000)\n\
         s.sendto(bytes(n // 1000 for n in range(9500)), ('{RIGHT}', {}))",
        receiver.local_addr().unwrap().port()
    );
    let sent = lab.left.run(|| Command::new("python3").args(["-c", &script]).status()).unwrap();
    assert!(sent.success());
    let mut buffer = [0; 2000];
    for n in 0..10 {
        let length = receiver.recv(&mut buffer).expect("each with its checksum");
        assert_eq!(length, if n < 9 { 1000 } else { 500 });
        assert!(buffer[..length].iter().all(|byte| *byte == n));
    }
    bridge.end("INT");
}

#[test]
fn jumbo_frames_pass_and_longer_ones_are_counted() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([9000, 9000]);
    let bridge = lab.bridge(&one_link(folder.path(), "rate=1gbit delay=2ms mtu=9000"), &[]);
    let trip = lab.round_trip([LEFT, RIGHT], 8972).unwrap();
    assert!(trip >= 4 * MILLISECOND, "{trip:?}");
    assert!(!bridge.said.contains("longer ones"), "{}", bridge.said);
    bridge.end("INT");

    // The link's MTU, and the other card's.
    let bridge = lab.bridge(&one_link(folder.path(), "delay=2ms mtu=1500"), &[]);
    let notice = "card-a takes packets of 9000 bytes, the link west-east only of 1500";
    assert!(bridge.said.contains(notice), "{}", bridge.said);
    assert!(lab.round_trip([LEFT, RIGHT], 1400).is_ok());
    assert!(lab.round_trip([LEFT, RIGHT], 4000).is_err());
    let status = bridge.end("INT");
    assert_eq!(status["links"][0]["too_long"], 1, "{status}");

    sh(&lab.center, "ip link set card-b mtu 1500");
    let bridge = lab.bridge(&one_link(folder.path(), "delay=2ms mtu=9000"), &[]);
    let notice = "card-a takes packets of 9000 bytes, card-b only of 1500";
    assert!(bridge.said.contains(notice), "{}", bridge.said);
    assert!(lab.round_trip([LEFT, RIGHT], 1400).is_ok());
    assert!(lab.round_trip([LEFT, RIGHT], 4000).is_err());
    let status = bridge.end("INT");
    assert_eq!(status["cards"][1]["too_long"], 1, "{status}");
    assert_eq!(status["cards"][0]["too_long"], 0, "{status}");
    // Not a fault of the emulator's.
    let [drops, errors] = ["device_drops", "write_errors"].map(|name| &status["emulator"][name]);
    assert!(*drops == 0 && *errors == 0, "{status}");
}

/// While the bridge is up, the box neither answers nor sends; afterwards it does, with the settings it had,
/// however the bridge has ended.
#[test]
fn host_is_cut_off_until_the_bridge_ends_in_any_way() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    sh(&lab.center, "ip addr add 10.7.0.9/24 dev card-a");
    let path = one_link(folder.path(), "rate=100mbit delay=5ms");
    let answers = || {
        // With no entry left, it takes ARP, too.
        sh(&lab.left, "ip neigh flush dev eth0");
        let connected = lab.left.run(|| {
            let refused =
                TcpStream::connect_timeout(&"10.7.0.9:9".parse().unwrap(), 700 * MILLISECOND);
            Ok(refused.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused))
        });
        connected.unwrap()
    };
    let (code, said) = lab.refused(&["card-a", "card-b", "--scenario", path.to_str().unwrap()]);
    assert!(
        code == 2 && said.contains("the address 10.7.0.9") && said.contains("--take-over"),
        "{said}"
    );
    assert!(answers());
    let before = lab.settings();
    for end in ["time", "INT", "TERM", "HUP", "KILL"] {
        let more =
            if end == "time" { &["--take-over", "--duration", "4s"][..] } else { &["--take-over"] };
        let mut bridge = lab.bridge(&path, more);
        assert!(!answers(), "the host is cut off");
        assert!(lab.settings().contains("promiscuity 1"));
        lab.round_trip([LEFT, RIGHT], 100).expect("the bridge carries");
        match end {
            "time" => assert!(bridge.outcome()["up_s"].as_f64().unwrap() >= 4.0),
            "KILL" => {
                bridge.signal("KILL");
                bridge.reap();
            }
            signal => drop(bridge.end(signal)),
        }
        until("the host to be back", &answers);
        assert_eq!(lab.settings(), before, "after {end}");
        assert!(lab.round_trip([LEFT, RIGHT], 100).is_err(), "nothing carries on after {end}");
    }
}

#[test]
fn a_card_that_goes_ends_the_bridge() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    for command in ["ip link set card-b down", "ip link del card-b"] {
        let lab = Lab::new([1500, 1500]);
        let mut bridge = lab.bridge(&one_link(folder.path(), "delay=5ms"), &[]);
        sh(&lab.center, command);
        let status = bridge.outcome();
        let faults = status["faults"].to_string();
        assert!(faults.contains("deleted or set down"), "{command}: {faults}");
    }
}

#[test]
fn cards_that_cannot_be_bridged_are_refused() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    let path = one_link(folder.path(), "delay=5ms");
    let path = path.to_str().unwrap();
    sh(
        &lab.center,
        "ip link add pair-a type veth peer name pair-b; ip link set pair-a up; ip link set pair-b up; \
         ip link add idle type veth peer name idle-peer; ip tuntap add tun0 mode tun; ip link set tun0 up; \
         ip link add lan0 type bridge; ip link add member type veth peer name member-peer; \
         ip link set member up; ip link set member-peer up; ip link set member master lan0",
    );
    for (cards, expected) in [
        (["card-a", "card-a"], "card-a is named twice"),
        (["card-a", "card-x"], "there is no network device card-x; there are: lo,"),
        (["lo", "card-b"], "lo is not an Ethernet device (its type is loopback)"),
        (["card-a", "tun0"], "tun0 is not an Ethernet device (its type is none)"),
        (["idle", "card-b"], "idle is down: ip link set idle up"),
        (["pair-a", "pair-b"], "pair-a and pair-b are connected in this host"),
        (["member", "card-b"], "a place in lan0"),
    ] {
        let (code, said) = lab.refused(&[cards[0], cards[1], "--scenario", path]);
        assert!(code == 2 && said.contains(expected), "{cards:?}: {said}");
    }
    let bridge = lab.bridge(std::path::Path::new(path), &[]);
    let output = lab.call(&["card-b", "pair-a", "--scenario", path]);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("another `longhaul wan bridge`"),
        "{said}"
    );
    lab.round_trip([LEFT, RIGHT], 100).expect("the first one carries on");
    bridge.end("INT");

    // Without the rights.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_raw,-net_admin", "--inh-caps=-all", "--", "sh", "-c"]);
    let program = crate::common::longhaul().get_program().to_string_lossy().into_owned();
    command.arg(format!("exec {program} wan bridge card-a card-b --scenario {path}"));
    let output = lab.center.run(|| command.output()).unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("CAP_NET_ADMIN and CAP_NET_RAW") && said.contains("sudo"), "{said}");
}

#[test]
fn scenarios_that_are_no_path_are_refused() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new([1500, 1500]);
    let ring = Draft::new("a ring", "")
        .nodes(&["a", "b", "c", "d"])
        .link("a", "b", "delay=1ms")
        .link("b", "c", "delay=1ms")
        .link("c", "a", "delay=1ms");
    let ring = write(folder.path(), &ring);
    let ring = ring.to_str().unwrap();
    let refused = |arguments: &[&str], expected: &str| {
        let (code, said) = lab.refused(&[&["card-a", "card-b", "--scenario"], arguments].concat());
        assert!(code == 2 && said.contains(expected), "{arguments:?}: {said}");
    };
    refused(&[ring], "0 nodes that a single link leads to");
    refused(&[ring, "--between", "a,b"], "several paths from a to b");
    refused(&[ring, "--between", "a,x"], "no node \"x\"");
    refused(&[ring, "--between", "a,a"], "names the node a twice");
    refused(&[ring, "--between", "a,d"], "no links of the scenario lead from a to d");
    refused(&[ring, "--between", "a"], "two nodes are needed");
    refused(&["/nowhere.toml"], "/nowhere.toml");
    refused(&[&scenario("demo.toml"), "--variant", "x"], "no variant \"x\"");
}
