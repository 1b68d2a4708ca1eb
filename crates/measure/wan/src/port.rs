// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the emulator's frames come from and go to: a TAP device between it and a namespace of this machine, or
//! a card. Frames begin with a virtio-net header either way.

use crate::{card_socket::CardSocket, gso_frame::FramePart};
use std::{
    fs::File,
    io::{self, IoSlice, Read, Write},
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

/// One end of a link.
pub enum Port {
    /// A TAP device.
    Tap(File),
    /// A card, or another Ethernet device that is used as one.
    Card(Arc<CardSocket>),
}

impl Port {
    /// Reads one frame; answers where in the buffer it is.
    ///
    /// # Errors
    /// `WouldBlock` where there is none, `InvalidInput` or `InvalidData` where the next one could not be
    /// read, and others where the device is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Range<usize>> {
        match self {
            Self::Tap(device) => (&mut &*device).read(buffer).map(|length| 0..length),
            Self::Card(card) => card.read(buffer),
        }
    }

    /// Writes one frame, given in parts.
    ///
    /// # Errors
    /// The device refused it, or is gone.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        match self {
            Self::Tap(device) => (&mut &*device).write_vectored(parts).map(drop),
            Self::Card(card) => card.write(parts),
        }
    }

    /// Whether each packet of a frame is short enough for the device. A TAP device takes any.
    pub fn takes(&self, frame: &FramePart) -> bool {
        match self {
            Self::Tap(_) => true,
            Self::Card(card) => frame.longest_packet() <= card.mtu(),
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tap(device) => device.as_fd(),
            Self::Card(card) => card.as_fd(),
        }
    }
}
