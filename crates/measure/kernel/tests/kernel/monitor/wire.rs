// SPDX-License-Identifier: GPL-2.0-or-later
//! A cable between two devices. Only the test sends frames on it.

#![expect(unsafe_code, reason = "packet sockets")]

use crate::common::ip;
use std::{
    fs, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// Brings `left` and `right` up in the calling thread's network namespace. The kernel says nothing on
/// them by itself.
pub fn cable() {
    quiet();
    ip(&["link", "add", "left", "type", "veth", "peer", "name", "right"]);
    for device in ["left", "right"] {
        ip(&["link", "set", device, "up"]);
    }
}

/// Without IPv6 no device announces itself.
fn quiet() {
    for of in ["default", "all"] {
        let path = format!("/proc/sys/net/ipv6/conf/{of}/disable_ipv6");
        fs::write(path, "1").expect("a namespace of the test's own");
    }
}

/// Sends frames as they are.
pub struct Sender {
    socket: OwnedFd,
    to: libc::sockaddr_ll,
}

impl Sender {
    /// Out of that device of the calling thread's network namespace.
    pub fn on(device: &str) -> Self {
        let name = std::ffi::CString::new(device).expect("a plain name");
        // SAFETY: the name is a string that ends; a descriptor that is not negative is new and ours;
        // sockaddr_ll is plain data, of which zero is a valid value.
        unsafe {
            let index = libc::if_nametoindex(name.as_ptr());
            assert_ne!(index, 0, "{device}: {}", io::Error::last_os_error());
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            let mut to: libc::sockaddr_ll = std::mem::zeroed();
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = index.cast_signed();
            Self { socket: OwnedFd::from_raw_fd(fd), to }
        }
    }

    /// One frame.
    pub fn send(&self, frame: &[u8]) {
        let (address, size) = ((&raw const self.to).cast(), size_of_val(&self.to) as u32);
        // SAFETY: frame and address are read only, as long as they say.
        let sent = unsafe {
            let fd = self.socket.as_raw_fd();
            libc::sendto(fd, frame.as_ptr().cast(), frame.len(), 0, address, size)
        };
        assert_eq!(sent, frame.len().cast_signed(), "{}", io::Error::last_os_error());
    }
}

/// A frame of that many bytes, of a type for experiments.
pub fn data(bytes: usize) -> Vec<u8> {
    framed([2, 0, 0, 0, 0, 1], 0x88b5, bytes)
}

/// A PAUSE frame of that many bytes: opcode 1, pause time 0.
pub fn pause(bytes: usize) -> Vec<u8> {
    let mut frame = framed([1, 0x80, 0xc2, 0, 0, 1], 0x8808, bytes);
    frame[15] = 1;
    frame
}

/// An IPv4 datagram of UDP in a frame of that many bytes, behind a VLAN tag if there is to be one.
pub fn udp(bytes: usize, ports: (u16, u16), tag: Option<u16>) -> Vec<u8> {
    let (kind, network) = if tag.is_some() { (0x8100, 18) } else { (0x0800, 14) };
    let mut frame = framed([2, 0, 0, 0, 0, 1], kind, bytes);
    if let Some(tag) = tag {
        frame[14..16].copy_from_slice(&tag.to_be_bytes());
        frame[16..18].copy_from_slice(&[0x08, 0x00]);
    }
    let header = &mut frame[network..];
    header[0] = 0x45;
    header[9] = 17;
    header[12..16].copy_from_slice(&[10, 0, 0, 1]);
    header[16..20].copy_from_slice(&[10, 0, 0, 2]);
    header[20..22].copy_from_slice(&ports.0.to_be_bytes());
    header[22..24].copy_from_slice(&ports.1.to_be_bytes());
    frame
}

fn framed(destination: [u8; 6], kind: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    frame[..6].copy_from_slice(&destination);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&kind.to_be_bytes());
    frame
}
