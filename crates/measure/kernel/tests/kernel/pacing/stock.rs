// SPDX-License-Identifier: GPL-2.0-or-later
//! Under the kernel that Debian has today, in a virtual machine (`scripts/in-kernel`): with a network card's own
//! driver, VLAN tags, and that kernel's settings. Others' kernels are more like it than like the one here.

#![expect(unsafe_code, reason = "packet sockets")]

use super::{LINE, injector, mbit, options, wire::Frame};
use crate::common::{ip, is_once_more, once_more, tc};
use longhaul_kernel::pace::{Options, Target};
use socket2::{Domain, Protocol, Socket, Type};
use std::{fs, io, io::Read, net::UdpSocket, os::fd::AsRawFd, process::Command, time::Duration};
use testkit::alone;
use testkit::until;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scripts/in-kernel");
const HERE: &str = "pacing::stock::nic_driver_sends_gap_frames_and_keeps_vlan_tags";
/// Of this binary, in the same virtual machine; more of them take minutes where the processor is emulated.
const OTHER: &str = "pacing::frames::gap_frames_are_zero_pause_frames_and_data_is_unchanged";

/// Two cards with a cable between; what the first sends is looked at where it arrives at the second.
const SENDER: &str = "e1000e-a";
const RECEIVER: &str = "e1000e-b";
const MTU: usize = 1500;
const DATAGRAMS: usize = 20;
const OVERHEAD: u64 = 24;
const TAG: u64 = 4;

#[test]
fn nic_driver_sends_gap_frames_and_keeps_vlan_tags() {
    if is_once_more() {
        on_cards();
        return other();
    }
    let _alone = alone();
    let machine = [SCRIPT, "--cards", "e1000e", "--"];
    let output = once_more(&machine, HERE).output().expect("a script");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
}

fn other() {
    let binary = std::env::current_exe().expect("this test's binary");
    let status = Command::new(binary).args(["--exact", OTHER]).status().expect("it runs");
    assert!(status.success(), "{OTHER}");
}

fn on_cards() {
    let mac = fs::read_to_string(format!("/sys/class/net/{RECEIVER}/address")).expect("a card");
    // Longer frames than the sender's MTU arrive only where the receiver's is as long.
    ip(&["link", "set", RECEIVER, "mtu", "9000", "promisc", "on", "up"]);
    ip(&["link", "add", "link", RECEIVER, "name", "tagged-b", "type", "vlan", "id", "7"]);
    ip(&["link", "set", "tagged-b", "up"]);
    ip(&["link", "set", SENDER, "up"]);
    ip(&["link", "add", "link", SENDER, "name", "tagged-a", "type", "vlan", "id", "7"]);
    ip(&["link", "set", "tagged-a", "up"]);
    tc(&["qdisc", "replace", "dev", SENDER, "root", "pfifo_fast"]);
    for (device, net) in [(SENDER, 7), ("tagged-a", 8)] {
        ip(&["addr", "add", &format!("10.{net}.0.1/24"), "dev", device]);
        let to = format!("10.{net}.0.2");
        ip(&["neigh", "add", &to, "lladdr", mac.trim(), "dev", device, "nud", "permanent"]);
    }
    let carrier = format!("/sys/class/net/{SENDER}/carrier");
    until("the cards see their cable", || {
        fs::read_to_string(&carrier).is_ok_and(|text| text.trim() == "1")
    });
    send("10.7.0.2", 0);
    let tagged = || {
        let count = fs::read_to_string("/sys/class/net/tagged-b/statistics/rx_packets");
        count.expect("a device").trim().parse::<usize>().expect("a number")
    };
    let before = tagged();
    send("10.8.0.2", TAG);
    // What the kernel sends by itself over IPv6 is tagged, too; gap frames would be many more.
    let more = tagged() - before;
    assert!((DATAGRAMS..DATAGRAMS + 10).contains(&more), "{more} had the tag");
}

/// Sends full packets at a tenth of the link; they and their gaps arrive as equation 2 requires.
fn send(to: &str, tag: u64) {
    let watch = watch();
    let target = Target::Rate(mbit(LINE / 1_000_000 / 10));
    let injector =
        injector(&Options { device: SENDER.to_owned(), ..options(OVERHEAD, target, Some(9000)) });
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    for _ in 0..DATAGRAMS {
        socket.send_to(&[0xa5; MTU - 28], (to, 9000)).expect("it is sent");
    }
    let packet = MTU as u64 + 14 + tag + OVERHEAD;
    let counts = injector.counts().expect("it tells");
    let packets = DATAGRAMS as u64;
    assert_eq!((counts.packets, counts.bytes), (packets, packets * packet), "{counts:?}");
    assert!(counts.gap_bytes > packets * packet * 9 - (60 + OVERHEAD), "{counts:?}");

    let (mut seen, mut gap, mut gaps, mut longest) = (0, 0, 0, 0);
    while (seen, gaps) != (counts.packets, counts.gap_bytes) {
        let frame = next(&watch).unwrap_or_else(|| panic!("{seen} and {gaps} of {counts:?}"));
        if frame.is_gap() {
            gap += frame.on_link(OVERHEAD);
            gaps += frame.on_link(OVERHEAD);
            longest = longest.max(frame.0.len());
        } else if frame.0[12..14] == [0x08, 0x00] && frame.0[23] == 17 {
            let owed = seen.min(1) * packet * 9;
            assert!(gap.abs_diff(owed) < 60 + OVERHEAD, "a gap of {gap} and not {owed}");
            (seen, gap) = (seen + 1, 0);
        }
    }
    assert_eq!(longest, (4 << 10) - OVERHEAD as usize, "longer than the MTU allows packets to be");
}

/// A socket that is given what arrives at the receiver.
fn watch() -> Socket {
    fs::write("/proc/sys/net/core/rmem_max", "67108864").expect("a setting");
    // Of a batch, packet sockets see those that have a protocol's handler first, and no gap frame has one.
    fs::write("/proc/sys/net/core/gro_normal_batch", "1").expect("a setting");
    // In network order, as packet(7) has it.
    let all = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(all)).expect("a socket");
    socket.set_recv_buffer_size(64 << 20).expect("a size");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    let index = fs::read_to_string(format!("/sys/class/net/{RECEIVER}/ifindex")).expect("a card");
    // SAFETY: plain data; zero is a valid value of each of its fields.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index.trim().parse().expect("a number");
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads the address, which has the given size.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    assert_eq!(bound, 0, "bind: {}", io::Error::last_os_error());
    socket
}

/// The next frame; none came for a while: none.
fn next(mut socket: &Socket) -> Option<Frame> {
    let mut buffer = vec![0; 10_000];
    let length = socket.read(&mut buffer).ok()?;
    buffer.truncate(length);
    Some(Frame(buffer))
}
