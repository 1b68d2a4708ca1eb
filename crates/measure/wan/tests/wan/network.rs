// SPDX-License-Identifier: GPL-2.0-or-later
//! The emulated network with real kernel TCP and UDP on it: nothing is invented, nothing vanishes
//! uncounted, and super-packets are accounted for segment by segment. Takes root.

use crate::{alone, one_of_two};
use longhaul_wan::{LinkState, Wan};
use scenario::Scenario;
use socket2::SockRef;
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};
use testkit::draft::Draft;

/// Nodes n0, n1, … in a line, links with these settings.
fn line_of(family: &str, links: &[&str]) -> Wan {
    let name = |n: usize| format!("n{n}");
    let mut draft = Draft::new("test", &format!("family={family}"));
    for n in 0..=links.len() {
        draft = draft.node(&name(n), "");
    }
    for (n, settings) in links.iter().enumerate() {
        draft = draft.link(&name(n), &name(n + 1), "").line(settings);
    }
    let text = draft.to_string();
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

/// Sends bytes over one TCP connection; answers what arrived.
fn transfer(wan: &Wan, from: &str, to: &str, bytes: &[u8]) -> Vec<u8> {
    let address = wan.address(to).unwrap();
    let listener = wan.node(to).unwrap().namespace.run(|| TcpListener::bind((address, 0))).unwrap();
    // Of accept(2) too: a connection that never comes fails the test, instead of holding the machine's turn for ever.
    SockRef::from(&listener).set_read_timeout(Some(Duration::from_secs(30))).unwrap();
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

fn assert_conserved(lanes: &[LinkState]) {
    for lane in lanes {
        let c = &lane.counters;
        assert_eq!(c.offered, c.delivered + c.queue_drops + c.losses + c.too_long, "{c:?}");
        assert_eq!(lane.monitor.iter().sum::<u64>(), c.carried_bytes, "{c:?}");
        let spacing = lane.spacing.as_ref().expect("the emulator has finished");
        assert_eq!(spacing.packets(), c.delivered + c.losses, "{c:?}");
    }
}

/// A UDP socket on a node, bound to a port of the kernel's choice.
fn datagrams(wan: &Wan, node: &str) -> UdpSocket {
    let address = wan.address(node).unwrap();
    let bind = || UdpSocket::bind((address, 0));
    let socket = wan.node(node).unwrap().namespace.run(bind).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Frames that a node's device handed to its kernel.
fn frames_received(wan: &Wan, node: &str, device: &str) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
    let table = wan.node(node).unwrap().namespace.run(read).unwrap();
    let line = table.lines().find(|line| line.trim_start().starts_with(device)).unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[test]
fn tcp_delivers_through_losses_drops_and_forwarding() {
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
        assert_conserved(&end.directed_links);
        let hurt: u64 = end.directed_links[2..4]
            .iter()
            .map(|l| l.counters.losses + l.counters.queue_drops)
            .sum();
        assert!(
            hurt > 0,
            "nothing was lost, so nothing was shown: {:?}",
            end.directed_links[2].counters
        );
        assert_eq!((end.health.malformed, end.health.write_errors), (0, 0), "{:?}", end.health);
    }
}

/// As above, where segments of super-packets wait for a discipline's decision, which alternates between two
/// connections.
#[test]
fn tcp_delivers_through_queues_that_decide_at_departure() {
    let _alone = alone();
    let bytes = pattern(3_000_000);
    for (family, kind) in [("ipv4", "codel"), ("ipv6", "fq_codel")] {
        let slow = format!(
            "rate = \"40mbit\"\ndelay = \"5ms\"\nloss = \"0.1%\"\nqueue = \"400p\"\n\
             discipline = {{ kind = \"{kind}\", target = \"1ms\", interval = \"10ms\" }}"
        );
        let wan = line_of(family, &["rate = \"200mbit\"\ndelay = \"0\"", &slow]);
        thread::scope(|scope| {
            let transfer = || transfer(&wan, "n0", "n2", &bytes);
            let others = [scope.spawn(transfer), scope.spawn(transfer)];
            assert!(transfer() == bytes, "{family}: other bytes arrived");
            assert!(others.into_iter().all(|other| other.join().unwrap() == bytes), "{family}");
        });
        let end = wan.down().unwrap();
        assert_conserved(&end.directed_links);
        let slow = &end.directed_links[2];
        assert!(slow.counters.early_drops > 0, "{kind}: {:?}", slow.counters);
        assert_eq!(slow.queue_bytes, 0, "{kind}");
        assert_eq!((end.health.malformed, end.health.write_errors), (0, 0), "{:?}", end.health);
    }
}

#[test]
fn delivered_frame_spans_at_most_the_link_time_limit() {
    let _alone = alone();
    let bytes = pattern(2_000_000);
    // At 100 Mb/s a segment takes 121.1 us: two fit into 250 us, eight into 1 ms. Without a rate
    // none takes any time, and zero still means single packets.
    let limited = "rate = \"100mbit\"\nqueue = \"4MB\"";
    for (rate, max_burst, fits) in
        [(limited, "0", 1), (limited, "250us", 2), (limited, "1ms", 8), ("", "0", 1)]
    {
        let link = format!("{rate}\ndelay = \"1ms\"\nmax_burst = \"{max_burst}\"");
        let wan = line_of("ipv4", &[&link]);
        assert!(transfer(&wan, "n0", "n1", &bytes) == bytes);
        // The connection's last segments may still come, so first come those that are counted, and
        // then, when they have arrived, the frames.
        let segments = wan.status().unwrap().directed_links[0].counters.delivered;
        thread::sleep(Duration::from_millis(100));
        let frames = frames_received(&wan, "n1", "wan0");
        let gap = wan.status().unwrap().directed_links[0].gap;
        let end = wan.down().unwrap();
        let counted = end.directed_links[0].spacing.as_ref().expect("links count gaps").gap();
        assert!(gap.is_some() && gap == counted, "{gap:?} while it ran, {counted:?} at the end");
        assert!(segments >= 2_000_000 / 1448, "each segment was accounted for: {segments}");
        assert!(frames >= segments.div_ceil(fits), "{max_burst}: {frames} for {segments}");
        if fits > 1 {
            assert!(frames < segments, "{max_burst}: super-packets stay together: {frames}");
        }
    }
}

#[test]
fn lost_segments_of_super_packets_are_retransmitted() {
    let _alone = alone();
    let bytes = pattern(4_000_000);
    let link = "rate = \"200mbit\"\ndelay = \"2ms\"\nqueue = \"8MB\"\nforward = { loss = { periodic = 100 } }";
    let wan = line_of("ipv4", &[link]);
    assert!(transfer(&wan, "n0", "n1", &bytes) == bytes);
    let end = wan.down().unwrap();
    let forward = &end.directed_links[0].counters;
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
    assert_conserved(&end.directed_links);
    let forward = &end.directed_links[0].counters;
    assert!(numbers.is_sorted(), "a link keeps the order");
    assert_eq!(forward.offered, SENT);
    assert_eq!(forward.delivered, numbers.len() as u64);
    assert_eq!(forward.losses, (SENT - forward.queue_drops) / 7);
    assert_eq!(forward.queue_max_packets, 20);
    assert!(forward.queue_drops > 0);
    assert_eq!(end.directed_links[1].counters.offered, 0, "nothing is sent without a request");
}

/// Has the kernel cut what a socket sends at once into datagrams of that many bytes (`UDP_SEGMENT`).
fn cut_into(socket: &UdpSocket, bytes: i32) {
    #[expect(unsafe_code, reason = "an option that no library in use wraps")]
    // SAFETY: the option is an int that outlives the call.
    let set = unsafe {
        let (bytes, length) = ((&raw const bytes).cast(), size_of::<i32>() as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, bytes, length)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Many datagrams of one system call are as many packets on each link, lost one by one, and arrive as they were.
#[test]
fn datagrams_sent_at_once_are_accounted_for_one_by_one() {
    const BURSTS: usize = 20;
    const EACH: usize = 40;
    let _alone = alone();
    for (family, max_burst) in [("ipv4", "1ms"), ("ipv6", "1ms"), ("ipv4", "0")] {
        let fast = format!("rate = \"200mbit\"\nqueue = \"4MB\"\nmax_burst = \"{max_burst}\"");
        let lossy = format!("{fast}\nforward = {{ loss = {{ periodic = 7 }} }}");
        let wan = line_of(family, &[&fast, &lossy, &fast]);
        let (sender, receiver) = (datagrams(&wan, "n0"), datagrams(&wan, "n3"));
        cut_into(&sender, 1000);
        let bytes = pattern(EACH * 1000);
        // Losses are every seventh, so what arrives of a burst is known, and no more waits in the socket.
        let arrives = |number: &usize| number % 7 != 6;
        for burst in 0..BURSTS {
            let mut bytes = bytes.clone();
            let numbers = burst * EACH..(burst + 1) * EACH;
            for (n, number) in numbers.clone().enumerate() {
                bytes[n * 1000..n * 1000 + 8].copy_from_slice(&number.to_be_bytes());
            }
            // The last of a burst is short, as it may be.
            bytes.truncate(EACH * 1000 - 300);
            sender.send_to(&bytes, receiver.local_addr().unwrap()).unwrap();
            for number in numbers.filter(arrives) {
                let mut datagram = [0; 2000];
                let length = receiver.recv(&mut datagram).unwrap();
                let sent = bytes.chunks(1000).nth(number - burst * EACH).unwrap();
                assert!(datagram[..length] == *sent, "{family}, {max_burst}: {number}");
            }
        }
        let frames = frames_received(&wan, "n3", "wan2");
        let end = wan.down().unwrap();
        assert_conserved(&end.directed_links);
        let all = (BURSTS * EACH) as u64;
        let [first, second, third] = [0, 2, 4].map(|n| end.directed_links[n].counters.offered);
        assert_eq!((first, second, third), (all, all, all - all / 7));
        assert_eq!(
            frames < third,
            max_burst != "0",
            "{frames} frames; Linux 6.2 keeps them together"
        );
        assert_eq!((end.health.malformed, end.health.write_errors), (0, 0), "{:?}", end.health);
    }
}

/// The thread that emulates.
fn emulators_thread() -> String {
    let mut threads = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let emulates =
        |task: &PathBuf| fs::read_to_string(task.join("comm")).unwrap().trim() == "wan-emulator";
    let task = threads.find(emulates).expect("a network that is up");
    task.file_name().unwrap().to_str().unwrap().into()
}

#[test]
fn an_emulator_that_cannot_keep_up_says_so() {
    const SENT: u64 = 100;
    let _alone = alone();
    let wan = line_of("ipv4", &["rate = \"100mbit\"\ndelay = \"500ms\"\nqueue = \"1MB\""]);
    let [a, b] = ["n0", "n1"].map(|node| datagrams(&wan, node));
    a.send_to(b"neighbours find each other first", b.local_addr().unwrap()).unwrap();
    b.recv(&mut [0; 100]).unwrap();
    let pinned = Command::new("taskset").args(["-pc", "0", &emulators_thread()]).output().unwrap();
    assert!(pinned.status.success(), "{pinned:?}");
    for _ in 0..SENT {
        a.send_to(b"late", b.local_addr().unwrap()).unwrap();
    }
    // A program of higher priority has its processor when the datagrams' time comes.
    let spin =
        "end=$((${EPOCHREALTIME/./} + 600000)); while ((${EPOCHREALTIME/./} < end)); do :; done";
    let spin = ["-f", "50", "taskset", "-c", "0", "bash", "-c", spin];
    assert!(Command::new("chrt").args(spin).status().unwrap().success());
    for _ in 0..SENT {
        b.recv(&mut [0; 100]).unwrap();
    }
    let end = wan.down().unwrap();
    assert_conserved(&end.directed_links);
    assert!(end.health.late > 0 && end.health.stood_still_s > 0.05, "{:?}", end.health);
    let faults = end.health.faults();
    assert!(faults.iter().any(|fault| fault.contains("late")), "{faults:?} {:?}", end.health);
}

#[test]
fn nodes_get_scenario_settings_and_host_names() {
    let _turn = one_of_two();
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

#[test]
fn link_delay_applies_in_both_directions() {
    const DELAY: Duration = Duration::from_millis(7);
    let _alone = alone();
    let wan = line_of("ipv4", &["rate = \"20mbit\"\ndelay = \"7ms\"\nqueue = \"4MB\""]);
    let [a, b] = ["n0", "n1"].map(|node| datagrams(&wan, node));
    let mut buffer = [0; 100];
    for _ in 0..10 {
        let sent = Instant::now();
        a.send_to(b"there", b.local_addr().unwrap()).unwrap();
        let (_, from) = b.recv_from(&mut buffer).unwrap();
        assert!(sent.elapsed() >= DELAY, "there after {:?}", sent.elapsed());
        b.send_to(b"and back", from).unwrap();
        a.recv_from(&mut buffer).unwrap();
        assert!(sent.elapsed() >= 2 * DELAY, "and back after {:?}", sent.elapsed());
    }
    let bytes = pattern(1_000_000);
    let started = Instant::now();
    assert!(transfer(&wan, "n0", "n1", &bytes) == bytes);
    let least = Duration::from_secs_f64(bytes.len() as f64 * 8.0 / 20e6) + DELAY;
    assert!(started.elapsed() >= least, "{:?} for {least:?}", started.elapsed());
}

#[test]
fn each_end_uses_its_own_directions_mtu() {
    let _turn = one_of_two();
    let link = "delay = \"1ms\"\nmtu = 1500\nbackward = { mtu = 9000 }";
    let wan = line_of("ipv4", &[link]);
    let [a, b] = ["n0", "n1"].map(|node| datagrams(&wan, node));
    let mut buffer = [0; 9000];
    for (from, to) in [(&a, &b), (&b, &a)] {
        from.send_to(&[1; 8900], to.local_addr().unwrap()).unwrap();
        assert_eq!(to.recv_from(&mut buffer).unwrap().0, 8900);
    }
    let counted =
        |wan: &Wan| [0, 1].map(|lane| wan.status().unwrap().directed_links[lane].counters.offered);
    // 8908 bytes with UDP's header, in fragments of 1480 bytes or whole.
    assert_eq!(counted(&wan), [7, 1]);
    let bytes = pattern(1_000_000);
    assert!(transfer(&wan, "n0", "n1", &bytes) == bytes);
    assert!(transfer(&wan, "n1", "n0", &bytes) == bytes);
    let end = wan.down().unwrap();
    assert_conserved(&end.directed_links);
    assert!(
        end.directed_links.iter().all(|lane| lane.counters.too_long == 0),
        "{:?}",
        end.directed_links
    );
}

#[test]
fn deleted_device_is_reported_without_busy_loop() {
    let _alone = alone();
    let wan = line_of("ipv4", &["rate = \"100mbit\"\ndelay = \"1ms\""]);
    let node = wan.node("n0").unwrap();
    node.ip("link set wan0 down").unwrap();
    assert_eq!(wan.status().unwrap().health.devices_lost, 0, "set down is not lost");
    node.ip("link del wan0").unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while wan.status().unwrap().health.devices_lost == 0 {
        assert!(Instant::now() < until, "the loss of the device is not noticed");
    }
    let before = wan.status().unwrap().health;
    let asked = Instant::now();
    thread::sleep(Duration::from_millis(300));
    let after = wan.status().unwrap().health;
    let (used, passed) = (after.cpu_s - before.cpu_s, asked.elapsed().as_secs_f64());
    assert!(used < passed / 2.0, "{used} s of processor time in {passed} s of nothing to do");
    let faults = wan.down().unwrap().health.faults();
    assert!(faults.iter().any(|fault| fault.contains("1 devices were deleted")), "{faults:?}");
}

#[test]
fn device_drops_are_counted_to_the_end() {
    let _alone = alone();
    let wan = line_of("ipv4", &["delay = \"1ms\""]);
    // IPv6 reports its groups by itself, some time after the device came up.
    let namespace = &wan.node("n0").unwrap().namespace;
    namespace.set_sysctl("net.ipv6.conf.wan0.disable_ipv6", "1").unwrap();
    // A device that holds nothing drops everything.
    wan.node("n0").unwrap().ip("link set wan0 txqueuelen 0").unwrap();
    let [a, b] = ["n0", "n1"].map(|node| datagrams(&wan, node));
    for _ in 0..5 {
        a.send_to(b"lost", b.local_addr().unwrap()).unwrap();
    }
    assert_eq!(wan.status().unwrap().health.device_drops, 5);
    assert_eq!(wan.down().unwrap().health.device_drops, 5);
}

#[test]
fn ip_errors_are_reported_verbatim() {
    let _turn = one_of_two();
    let wan = line_of("ipv4", &["delay = \"1ms\""]);
    // More than a pipe holds: ip stops at the first line and reads no more.
    let batch = "link set nothing up\n".repeat(20_000);
    let error = wan.node("n0").unwrap().ip(&batch).unwrap_err().to_string();
    assert!(error.contains("n0") && error.contains("nothing"), "{error}");
}

#[test]
fn the_hosts_file_goes_with_its_network() {
    let _turn = one_of_two();
    let wan = line_of("ipv4", &["delay = \"1ms\""]);
    let hosts = wan.hosts().to_owned();
    let own = format!("hosts-{}-", std::process::id());
    assert!(hosts.file_name().unwrap().to_str().unwrap().starts_with(&own), "{hosts:?}");
    assert!(fs::read_to_string(&hosts).unwrap().contains("10.110.0.2 n1"));
    wan.down().unwrap();
    assert!(!hosts.exists());
}

#[test]
fn a_node_does_not_filter_by_the_way_back() {
    let _turn = one_of_two();
    let wan = line_of("ipv4", &["delay = \"1ms\""]);
    let namespace = &wan.node("n1").unwrap().namespace;
    for of in ["all", "default", "wan0"] {
        assert_eq!(
            namespace.sysctl(&format!("net.ipv4.conf.{of}.rp_filter")).unwrap(),
            "0",
            "{of}"
        );
    }
}

#[test]
fn ipv4_runs_over_links_too_narrow_for_ipv6() {
    let _turn = one_of_two();
    let wan = line_of("ipv4", &["delay = \"1ms\"\nmtu = 576", "delay = \"1ms\""]);
    let bytes = pattern(100_000);
    assert!(transfer(&wan, "n0", "n2", &bytes) == bytes);
    assert_conserved(&wan.down().unwrap().directed_links);
}
