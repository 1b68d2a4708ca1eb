// SPDX-License-Identifier: GPL-2.0-or-later
//! A packet socket on one card, for whole frames in and out, super-packets included.
//!
//! - `PACKET_VNET_HDR` describes what offloads left open: merged and unsegmented packets, checksums that
//!   the device is to complete. The card that such a frame leaves by completes them, or the kernel does.
//! - The kernel takes the outer VLAN tag off each frame before any socket sees it, whether or not the card does so
//!   itself. `PACKET_AUXDATA` has the tag, and [`CardSocket::read`] puts it back.
//! - The card is promiscuous while the socket is open (`PACKET_ADD_MEMBERSHIP`): the kernel counts such
//!   wishes and takes this one back when the process ends, by whatever cause.

use crate::{
    gso_frame::{ETHERNET_LEN, VLAN_LEN, VNET_LEN, VNET_NEEDS_CSUM},
    sys::{self, Tag},
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

/// What may wait to be read: tens of milliseconds of 10 Gb/s, as the kernel counts memory.
const RECEIVE_BUFFER: usize = 128 << 20;
/// What may wait in the card's own queue to be sent.
const SEND_BUFFER: i32 = 32 << 20;
/// Where a frame's VLAN tag belongs: behind the two addresses.
const TAG_AT: usize = VNET_LEN + 12;

/// A packet socket on one card.
#[derive(Debug)]
pub struct CardSocket {
    socket: OwnedFd,
    mtu: usize,
    drops: AtomicU64,
}

impl CardSocket {
    /// Opens one in the calling thread's network namespace. What it sends has `mark`.
    ///
    /// # Errors
    /// Not permitted, or the card is gone.
    pub fn open(index: u32, mtu: u32, mark: u32) -> io::Result<Self> {
        let socket = sys::open_frame_socket(index)?;
        sys::set_send_buffer(socket.as_fd(), SEND_BUFFER)?;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)?;
        sys::set_mark(socket.as_fd(), mark)?;
        Ok(Self { socket, mtu: mtu as usize, drops: AtomicU64::new(0) })
    }

    /// The longest packet that the card takes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Reads one frame, with its VLAN tags; answers where in the buffer it is.
    ///
    /// # Errors
    /// `WouldBlock` where there is none; `InvalidInput` or `InvalidData` where one was dropped that the kernel
    /// cannot describe or that is longer than the buffer; others where the card is down or gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Range<usize>> {
        // Room for a tag is left between addresses and type, so that the payload stays where it is.
        let (front, rest) = buffer.split_at_mut(TAG_AT + VLAN_LEN);
        let mut parts = [IoSliceMut::new(&mut front[..TAG_AT]), IoSliceMut::new(rest)];
        let received = sys::receive_frame(self.as_fd(), &mut parts)?;
        if received.is_truncated || received.length < VNET_LEN + ETHERNET_LEN {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let end = received.length + VLAN_LEN;
        let Some(tag) = received.tag else {
            buffer.copy_within(..TAG_AT, VLAN_LEN);
            return Ok(VLAN_LEN..end);
        };
        insert_tag(buffer, tag);
        Ok(0..end)
    }

    /// Writes one frame, given in parts.
    ///
    /// # Errors
    /// The card is down or gone, its queue is full, or the frame is too long for it.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        rustix::io::writev(&self.socket, parts)?;
        Ok(())
    }

    /// Frames that the kernel dropped because too many waited to be read.
    ///
    /// # Errors
    /// None of a packet socket.
    pub fn drops(&self) -> io::Result<u64> {
        // The kernel counts from zero again after each reading.
        let more = sys::packet_drops(self.as_fd())?;
        Ok(self.drops.fetch_add(more, Ordering::Relaxed) + more)
    }
}

impl AsFd for CardSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Writes a tag where a frame has room for it. Offsets in the virtio-net header grow with it.
fn insert_tag(frame: &mut [u8], tag: Tag) {
    frame[TAG_AT..TAG_AT + 2].copy_from_slice(&tag.kind.to_be_bytes());
    frame[TAG_AT + 2..TAG_AT + 4].copy_from_slice(&tag.control.to_be_bytes());
    if frame[0] & VNET_NEEDS_CSUM != 0 {
        let csum_start = u16::from_ne_bytes([frame[6], frame[7]]).wrapping_add(VLAN_LEN as u16);
        frame[6..8].copy_from_slice(&csum_start.to_ne_bytes());
    }
}
