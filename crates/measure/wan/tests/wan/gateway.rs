// SPDX-License-Identifier: GPL-2.0-or-later
//! The gateway between namespaces of the test's own: what it sends is looked at on the far end of a veth
//! pair, frame by frame. Takes root. Rates are of the wire's own time, which is the sum of what all
//! frames take on the link; the machine's clock says nothing here.

use crate::alone;
use host::Namespace;
use longhaul_wan::pacing_gateway::{Error, Gateway, NextHop, Options, Summary};
use netmodel::pacing::{Class, Next, Packet, Scheduler};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{fd::AsFd, unix::net::UnixStream},
    process::Command,
    sync::mpsc,
    thread, time,
};
use units::{Bytes, Rate, Timestamp};

const LINE: u64 = 100_000_000;
const CLASSES: [&str; 3] = ["a=10mbit:10.1.0.0/16", "b=20mbit:10.2.0.0/16", "c=40mbit:10.3.0.0/16"];
const RATES: [u64; 3] = [10_000_000, 20_000_000, 40_000_000];

/// A host, and what is at the far end of its device.
struct Pair {
    host: Namespace,
    far: Namespace,
}

fn ip(batch: &[&str]) -> io::Result<()> {
    for line in batch {
        let output = Command::new("ip").args(line.split(' ')).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "ip {line}: {said}");
    }
    Ok(())
}

impl Pair {
    fn new() -> Self {
        let (host, far) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let far_path = format!("/proc/{}/fd/{}", std::process::id(), far.descriptor());
        host.run(|| {
            let pair =
                format!("link add out0 numtxqueues 2 type veth peer name far0 netns {far_path}");
            ip(&["link set lo up", &pair, "link set out0 txqueuelen 1000 up"])?;
            ip(&["addr add 10.9.0.1/24 dev out0"])
        })
        .unwrap();
        far.run(|| {
            ip(&["link set lo up", "link set far0 up", "addr add 10.9.0.2/24 dev far0"])?;
            ip(&["addr add 10.1.0.1/32 dev lo"])
        })
        .unwrap();
        Self { host, far }
    }

    fn options() -> Options {
        let next_hop = NextHop::Neighbour("10.9.0.2".parse().unwrap());
        Options {
            line: Some(Rate::bits_per_second(LINE)),
            classes: CLASSES.iter().map(|text| text.parse().unwrap()).collect(),
            queue: Bytes::new(64 << 20),
            ..Options::of("out0", next_hop)
        }
    }

    fn open(&self, options: Options) -> Gateway {
        let mut gateway = None;
        self.host
            .run(|| {
                gateway = Some(Gateway::open(options));
                ip(&["link set lhgw0 txqueuelen 8000"])?;
                ip(&["route add 10.0.0.0/14 dev lhgw0 src 10.9.0.1"])
            })
            .unwrap();
        gateway.unwrap().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs the gateway during `work`, on one processor, so that the kernel keeps the frames' order.
    fn carrying(&self, gateway: Gateway, work: impl FnOnce()) -> Summary {
        let (stop, stopped) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let running = scope.spawn(move || {
                let mut ended = None;
                self.host
                    .run(|| {
                        let mut one = rustix::thread::CpuSet::new();
                        one.set(0);
                        rustix::thread::sched_setaffinity(None, &one)?;
                        ended = Some(gateway.run(stopped.as_fd()));
                        Ok(())
                    })
                    .unwrap();
                ended.unwrap()
            });
            work();
            drop(stop);
            running.join().unwrap().unwrap_or_else(|error| panic!("{error}"))
        })
    }

    /// Hears every frame that comes to the far end.
    fn ear(&self) -> Socket {
        const ETH_P_ALL: u16 = 3;
        self.far
            .run(|| {
                let all = Protocol::from(i32::from(ETH_P_ALL.to_be()));
                let socket = Socket::new(Domain::PACKET, Type::RAW, Some(all))?;
                rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 256 << 20)?;
                socket.set_read_timeout(Some(time::Duration::from_millis(100)))?;
                Ok(socket)
            })
            .unwrap()
    }
}

/// A frame of the gateway's at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Packet { class: usize, number: u32, link: u64 },
    Gap { link: u64 },
}

impl Seen {
    fn link(&self) -> u64 {
        match self {
            Self::Packet { link, .. } | Self::Gap { link } => *link,
        }
    }
}

/// Reads a frame; none where it is neither a datagram of the test's nor a gap frame.
fn read(frame: &[u8]) -> Option<Seen> {
    let link = frame.len().max(60) as u64 + 24;
    match frame[12..14] {
        [0x88, 0x08] => {
            assert_eq!(
                (&frame[..6], &frame[14..18]),
                (&[1, 0x80, 0xc2, 0, 0, 1][..], &[0, 1, 0, 0][..])
            );
            assert!(frame[18..].iter().all(|byte| *byte == 0));
            Some(Seen::Gap { link })
        }
        [0x08, 0x00] if frame[23] == 17 && frame[30..32] != [10, 9] => {
            let class = usize::from(frame[31]) - 1;
            let number = u32::from_be_bytes(frame[42..46].try_into().unwrap());
            Some(Seen::Packet { class, number, link })
        }
        _ => None,
    }
}

/// Receives frames until `packets` packets have come.
fn hear(mut ear: &Socket, packets: usize) -> Vec<Seen> {
    let (mut seen, mut count, mut silent) = (Vec::new(), 0, 0);
    let mut buffer = [0; 2048];
    while count < packets {
        match ear.read(&mut buffer) {
            Ok(length) => {
                silent = 0;
                let frame = read(&buffer[..length]);
                count += usize::from(matches!(frame, Some(Seen::Packet { .. })));
                seen.extend(frame);
            }
            Err(_) if silent < 100 => silent += 1,
            Err(error) => panic!("{count} of {packets} packets came: {error}"),
        }
    }
    seen
}

/// What is sent: of the classes in the ratio of their rates, of different lengths.
fn blast(of_each_seven: u32) -> Vec<(usize, u32, usize)> {
    let mut numbers = [0; 3];
    let turns = (0..of_each_seven * 7).map(|n| [0, 2, 1, 2, 2, 1, 2][n as usize % 7]);
    turns
        .map(|class: usize| {
            let number = numbers[class];
            numbers[class] += 1;
            (class, number, 200 + (number as usize * 37 + class * 101) % 1200)
        })
        .collect()
}

fn send(host: &Namespace, datagrams: &[(usize, u32, usize)]) {
    host.run(|| {
        let socket = UdpSocket::bind("10.9.0.1:5000")?;
        for (class, number, length) in datagrams {
            let mut payload = vec![0; *length];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            socket.send_to(&payload, (format!("10.{}.0.1", class + 1), 9))?;
        }
        Ok(())
    })
    .unwrap();
}

fn link_of(length: usize) -> u64 {
    length as u64 + 28 + 14 + 24
}

/// What the scheduler does by itself with all of them waiting from the beginning.
fn offline(datagrams: &[(usize, u32, usize)]) -> Vec<Seen> {
    let queue = Bytes::new(64 << 20);
    let classes = RATES.map(|bps| Class { rate: Some(Rate::bits_per_second(bps)), queue });
    let mut scheduler = Scheduler::new(Rate::bits_per_second(LINE), &classes).unwrap();
    for (class, number, length) in datagrams {
        let item = (*number, link_of(*length));
        let packet = Packet { flow: 0, length: Bytes::new(item.1), item };
        assert!(scheduler.enqueue(Timestamp::ZERO, *class, packet).is_empty());
    }
    // At 100 Mb/s a byte takes 80 ns.
    let (mut seen, mut bytes) = (Vec::new(), 0);
    loop {
        match scheduler.next(Timestamp::from_nanos(bytes * 80)) {
            Next::Departure(departure) => {
                let (number, link) = departure.item;
                bytes += link;
                seen.push(Seen::Packet { class: departure.class, number, link });
            }
            Next::Wait(until) => {
                let mut left = until.as_nanos().div_ceil(80) - bytes;
                while left > 0 {
                    let link = match left {
                        1539..1622 => left - 84,
                        _ => left.clamp(84, 1538),
                    };
                    seen.push(Seen::Gap { link });
                    bytes += link;
                    left = left.saturating_sub(link);
                }
            }
            Next::Idle => return seen,
        }
    }
}

/// Everything waits in the TUN device when the gateway begins, so what it does is known beforehand,
/// frame by frame; a floating-point model predicts it class by class.
#[test]
fn classes_leave_at_their_rates_and_gap_frames_fill_the_rest() {
    let _alone = alone();
    let pair = Pair::new();
    let gateway = pair.open(Pair::options());
    assert_eq!(gateway.warnings(), Vec::<String>::new());
    let ear = pair.ear();
    let datagrams = blast(500);
    send(&pair.host, &datagrams);
    let mut seen = Vec::new();
    let summary = pair.carrying(gateway, || seen = hear(&ear, datagrams.len()));
    assert!(seen == offline(&datagrams), "not what the scheduler does by itself");

    let wire: u64 = seen.iter().map(Seen::link).sum();
    for (class, rate) in RATES.into_iter().enumerate() {
        let (mut at, mut begins, mut last, mut bytes) = (0, None, (0, 0), 0);
        let mut numbers = 0;
        for frame in &seen {
            if let Seen::Packet { number, link, .. } = frame
                && matches!(frame, Seen::Packet { class: of, .. } if *of == class)
            {
                assert_eq!(*number, numbers, "order in the class");
                numbers += 1;
                begins = begins.or(Some(at));
                last = (at, *link);
                bytes += link;
            }
            at += frame.link();
        }
        let achieved = (bytes - last.1) as f64 / (last.0 - begins.unwrap()) as f64 * LINE as f64;
        let off = achieved / rate as f64 - 1.0;
        assert!(off.abs() < 0.01, "class {class}: {achieved} and not {rate}");
        let counts = &summary.classes[class];
        assert_eq!((counts.packets, counts.link_bytes), (u64::from(numbers), bytes));
        assert_eq!((counts.dropped_packets, counts.left_packets), (0, 0));
    }
    let data: u64 = summary.classes.iter().map(|class| class.link_bytes).sum();
    assert_eq!(data + summary.gap_link_bytes, wire, "nothing else was sent");
    let gaps = seen.iter().filter(|frame| matches!(frame, Seen::Gap { .. })).count();
    assert_eq!(summary.gap_frames, gaps as u64);
    assert_eq!((summary.classes[3].packets, summary.not_carried), (0, 0));
    assert_eq!(summary.tun_dropped, Some(0));
}

#[test]
fn disabled_gap_frames_are_not_sent_and_drops_are_counted() {
    let _alone = alone();
    let pair = Pair::new();
    let options = Options { gap_frames: None, queue: Bytes::new(100_000), ..Pair::options() };
    let gateway = pair.open(options);
    let ear = pair.ear();
    let datagrams = blast(200);
    send(&pair.host, &datagrams);
    let mut seen = Vec::new();
    let summary = pair.carrying(gateway, || {
        let mut silent = 0;
        let mut buffer = [0; 2048];
        while silent < 10 {
            match (&ear).read(&mut buffer) {
                Ok(length) => {
                    silent = 0;
                    seen.extend(read(&buffer[..length]));
                }
                Err(_) => silent += 1,
            }
        }
    });
    assert_eq!(summary.gap_frames, 0);
    let classes = &summary.classes;
    let came: u64 = classes.iter().map(|class| class.packets).sum();
    let lost: u64 = classes.iter().map(|c| c.dropped_packets + c.left_packets).sum();
    assert!(lost > 0, "the queues are short");
    assert_eq!((came, came + lost), (seen.len() as u64, datagrams.len() as u64));
    let mut last = [None; 3];
    for frame in seen {
        let Seen::Packet { class, number, .. } = frame else { panic!("a gap frame") };
        assert!(last[class].replace(number) < Some(number), "order in the class");
    }
}

/// Real TCP, whose segments the kernel would leave to a device that could cut them.
#[test]
fn a_transfer_arrives_whole() {
    const BYTES: usize = 4 << 20;
    let _alone = alone();
    for gap_frames in [Some(Bytes::new(4 << 10)), None] {
        let pair = Pair::new();
        let options = Options {
            line: Some(Rate::bits_per_second(400_000_000)),
            classes: vec!["a=200mbit:10.1.0.1".parse().unwrap()],
            gap_frames,
            ..Pair::options()
        };
        let gateway = pair.open(options);
        let sent: Vec<u8> =
            (0..BYTES as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut came = Vec::new();
        let (listening, port) = mpsc::channel();
        let summary = pair.carrying(gateway, || {
            thread::scope(|scope| {
                let (far, host, sent) = (&pair.far, &pair.host, &sent);
                let receiver = scope.spawn(move || {
                    far.run(|| {
                        let listener = TcpListener::bind("10.1.0.1:0")?;
                        listening.send(listener.local_addr()?.port()).unwrap();
                        let mut all = Vec::new();
                        listener.accept()?.0.read_to_end(&mut all)?;
                        Ok(all)
                    })
                });
                let port = port.recv().unwrap();
                host.run(|| TcpStream::connect(("10.1.0.1", port))?.write_all(sent)).unwrap();
                came = receiver.join().unwrap().unwrap();
            });
        });
        assert!(came == sent, "{} bytes came, and not those", came.len());
        let class = &summary.classes[0];
        assert!(class.packets * 1500 > BYTES as u64, "single packets: {class:?}");
        assert_eq!(summary.gap_frames > 0, gap_frames.is_some());
    }
}

#[test]
fn invalid_gateway_is_refused_and_leaves_nothing() {
    let _alone = alone();
    let pair = Pair::new();
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = Pair::options();
        change(&mut options);
        let mut error = None;
        pair.host
            .run(|| {
                error = Gateway::open(options).err();
                let left = Command::new("ip").args(["link", "show", "dev", "lhgw0"]).output()?;
                assert!(!left.status.success(), "the device is left");
                Ok(())
            })
            .unwrap();
        error.expect("refused")
    };
    let usage = |change: &dyn Fn(&mut Options), expected: &str| {
        let error = refused(change);
        assert!(matches!(error, Error::Usage(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    usage(&|o| o.device = "nosuch0".into(), "no device nosuch0");
    usage(&|o| o.device = "lo".into(), "no Ethernet");
    usage(&|o| o.line = Some(Rate::bits_per_second(30_000_000)), "above the line");
    usage(&|o| o.line = Some(Rate::bits_per_second(0)), "above 0");
    usage(&|o| o.classes[1].prefixes = o.classes[0].prefixes.clone(), "overlap");
    usage(&|o| o.gap_frames = Some(Bytes::new(100)), "gap frames of");
    usage(&|o| o.tun = "out0".into(), "already");
    usage(&|o| o.tun = "a name that is too long".into(), "name");
    let error = refused(&|o| o.next_hop = NextHop::Neighbour("10.9.0.77".parse().unwrap()));
    assert!(error.to_string().contains("does not answer"), "{error}");

    pair.host
        .run(|| ip(&["link add out1 numtxqueues 2 type veth peer name far1 numrxqueues 2"]))
        .unwrap();
    usage(&|o| o.device = "out1".into(), "down");
    let script = "tc qdisc replace dev out0 root mq";
    let status = pair.host.run(|| Command::new("sh").args(["-c", script]).status()).unwrap();
    assert!(status.success(), "{script}");
    let error = refused(&|_| ());
    assert!(
        matches!(error, Error::Lacks(_)) && error.to_string().contains("several transmit queues"),
        "{error}"
    );
}

#[test]
fn a_device_that_goes_ends_it() {
    let _alone = alone();
    let pair = Pair::new();
    let gateway = pair.open(Pair::options());
    let (_stop, stopped) = UnixStream::pair().unwrap();
    send(&pair.host, &blast(100));
    pair.host.run(|| ip(&["link set out0 down"])).unwrap();
    let error = gateway.run(stopped.as_fd()).expect_err("the device is down");
    assert!(error.to_string().contains("out0"), "{error}");
}
