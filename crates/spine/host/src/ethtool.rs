// SPDX-License-Identifier: GPL-2.0-or-later
//! Offloads and ring sizes of a network device, by the requests that ethtool(8) makes (`SIOCETHTOOL`), without that program.
//!
//! Devices are those of the calling thread's network namespace. Numbers are those of linux/ethtool.h.

#![expect(unsafe_code, reason = "ioctl(2) with a pointer in a union")]

use rustix::net::{AddressFamily, SocketType, socket};
use std::{ffi::CString, io, os::fd::AsRawFd};

/// Work that a device does for TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// Verifies checksums of what is received.
    ReceiveChecksum,
    /// Makes checksums of what is sent.
    TransmitChecksum,
    /// Takes a packet in several parts of memory.
    ScatterGather,
    /// Cuts what TCP sends into segments.
    TcpSegmentation,
    /// The kernel cuts it late, just before the device.
    GenericSegmentation,
    /// The kernel joins received segments early.
    GenericReceive,
}

impl Offload {
    /// All of them. Those that others need come first.
    pub const ALL: [Self; 6] = [
        Self::ReceiveChecksum,
        Self::TransmitChecksum,
        Self::ScatterGather,
        Self::TcpSegmentation,
        Self::GenericSegmentation,
        Self::GenericReceive,
    ];

    /// Its name in `ethtool -K`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReceiveChecksum => "rx",
            Self::TransmitChecksum => "tx",
            Self::ScatterGather => "sg",
            Self::TcpSegmentation => "tso",
            Self::GenericSegmentation => "gso",
            Self::GenericReceive => "gro",
        }
    }

    /// The one of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|offload| offload.name() == name)
    }

    /// The request that asks for it. The next number sets it.
    const fn request(self) -> u32 {
        match self {
            Self::ReceiveChecksum => 0x14,
            Self::TransmitChecksum => 0x16,
            Self::ScatterGather => 0x18,
            Self::TcpSegmentation => 0x1e,
            Self::GenericSegmentation => 0x23,
            Self::GenericReceive => 0x2b,
        }
    }
}

/// Packets that a device's queues to and from the kernel hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// Received ones, now.
    pub receive: u32,
    /// Received ones, at most.
    pub most_receive: u32,
    /// Those to be sent, now.
    pub transmit: u32,
    /// Those to be sent, at most.
    pub most_transmit: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_ringparam`.
#[repr(C)]
#[derive(Default)]
struct RingParameters {
    command: u32,
    most_receive: u32,
    most_small: u32,
    most_jumbo: u32,
    most_transmit: u32,
    receive: u32,
    small: u32,
    jumbo: u32,
    transmit: u32,
}

/// Whether an offload is on. None where the device cannot tell.
///
/// # Errors
/// There is no such device, or the process is out of descriptors.
pub fn offload(device: &str, offload: Offload) -> io::Result<Option<bool>> {
    let mut value = Value { command: offload.request(), data: 0 };
    Ok(ask(device, &mut value)?.then_some(value.data != 0))
}

/// Switches an offload on or off. The kernel switches others off that need it.
///
/// # Errors
/// There is no such device, it does not have that offload, or this user may not change it.
pub fn set_offload(device: &str, offload: Offload, on: bool) -> io::Result<()> {
    let mut value = Value { command: offload.request() + 1, data: on.into() };
    if ask(device, &mut value)? { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// The sizes of a device's rings. None where its driver has no such sizes.
///
/// # Errors
/// There is no such device, or the process is out of descriptors.
pub fn rings(device: &str) -> io::Result<Option<Rings>> {
    const GET_RINGS: u32 = 0x10;
    let mut found = RingParameters { command: GET_RINGS, ..RingParameters::default() };
    Ok(ask(device, &mut found)?.then_some(Rings {
        receive: found.receive,
        most_receive: found.most_receive,
        transmit: found.transmit,
        most_transmit: found.most_transmit,
    }))
}

/// Sets the sizes of a device's rings, and leaves those for small and jumbo frames.
///
/// # Errors
/// There is no such device, it does not take these sizes, or this user may not change them.
pub fn set_rings(device: &str, receive: u32, transmit: u32) -> io::Result<()> {
    const GET_RINGS: u32 = 0x10;
    const SET_RINGS: u32 = 0x11;
    let unsupported = || Err(io::ErrorKind::Unsupported.into());
    let mut rings = RingParameters { command: GET_RINGS, ..RingParameters::default() };
    if !ask(device, &mut rings)? {
        return unsupported();
    }
    let mut rings = RingParameters { command: SET_RINGS, receive, transmit, ..rings };
    if ask(device, &mut rings)? { Ok(()) } else { unsupported() }
}

/// Whether a device merges packets irrecoverably (LRO). Devices that cannot tell do not.
///
/// # Errors
/// There is no such device, or the process is out of descriptors.
pub fn merges_packets(device: &str) -> io::Result<bool> {
    const GET_FLAGS: u32 = 0x25;
    const FLAG_LRO: u32 = 1 << 15;
    let mut value = Value { command: GET_FLAGS, data: 0 };
    Ok(ask(device, &mut value)? && value.data & FLAG_LRO != 0)
}

/// Makes a request, of which `T` is the structure. Answers whether the driver knows such requests.
fn ask<T>(device: &str, structure: &mut T) -> io::Result<bool> {
    // SAFETY: ifreq is plain data; zero is a valid value of each of its fields.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = CString::new(device).map_err(|_| io::ErrorKind::InvalidInput)?;
    let name = name.as_bytes_with_nul();
    if name.len() > request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(structure).cast();
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: each request above reads and writes the structure that it is made with, which outlives the call.
    let answer =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if answer >= 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_device_tells_its_offloads() {
        assert_eq!(offload("lo", Offload::ScatterGather).unwrap(), Some(true));
        assert!(offload("lo", Offload::GenericReceive).unwrap().is_some());
        assert_eq!(rings("lo").unwrap(), None, "it has no rings");
        assert!(!merges_packets("lo").unwrap());
        assert!(offload("no-such-device", Offload::ScatterGather).is_err());
        assert!(offload("a name that is too long", Offload::ScatterGather).is_err());
    }

    #[test]
    fn offloads_are_found_by_name() {
        for offload in Offload::ALL {
            assert_eq!(Offload::of_name(offload.name()), Some(offload));
        }
        assert_eq!(Offload::of_name("lro"), None);
    }
}
