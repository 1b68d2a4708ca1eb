// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of a gateway.

use super::{classes::GatewayClass, frame::Framing};
use host::Mac;
use std::net::IpAddr;
use units::{Bytes, Rate};

/// Where all packets go next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// To this address of Ethernet.
    Mac(Mac),
    /// To this neighbour of the device's, whose address of Ethernet is looked up once.
    Neighbour(IpAddr),
}

/// Options of a gateway.
#[derive(Debug, Clone)]
pub struct Options {
    /// The device that it sends by.
    pub device: String,
    /// The name of the TUN device that it makes.
    pub tun: String,
    /// The rate of the device's link; none: as the driver says.
    pub line: Option<Rate>,
    /// Bytes of the link that a frame takes beyond its length.
    pub overhead: Bytes,
    /// Where packets go next.
    pub next_hop: NextHop,
    /// The paced destinations, and their rates.
    pub classes: Vec<GatewayClass>,
    /// How much of each class may wait.
    pub queue: Bytes,
    /// Bytes of the link that the longest gap frame takes. `None`: no gap frames.
    pub gap_frames: Option<Bytes>,
}

impl Options {
    /// Names of devices, Ethernet's overhead, a queue, gap frames of 4 KB; no classes.
    pub fn of(device: &str, next_hop: NextHop) -> Self {
        Self {
            device: device.to_owned(),
            tun: "lhgw0".to_owned(),
            line: None,
            overhead: Framing::ETHERNET.overhead,
            next_hop,
            classes: Vec::new(),
            queue: Bytes::new(1 << 20),
            gap_frames: Some(Bytes::new(4 << 10)),
        }
    }
}
