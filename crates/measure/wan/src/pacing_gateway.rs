// SPDX-License-Identifier: GPL-2.0-or-later
//! A gateway that paces what a host sends by a real device, without changing the kernel: IPG-aware
//! packet scheduling (paper 001, section II-B) in user space.
//!
//! ```text
//! routes ─▶ TUN device ─▶ class by destination ─▶ scheduler ─▶ packet socket ─▶ device
//!                                                 gap frames ─────────┘
//! ```
//!
//! - What the host routes to the TUN device is read packet by packet, put into the class of its
//!   destination, and sent by the device with a new Ethernet header: the device's address, and that of
//!   one next hop. The other direction does not pass the gateway.
//! - The TUN device has no offloads, so the kernel hands over single packets with checksums.
//! - Gap frames are PAUSE frames for no time, as the kernel's program sends them: the queue of the
//!   device is full while something waits, and its own clock keeps packets apart (`pacer.rs`).
//! - The TUN device, and with it the routes to it, goes with the process, however that ends.
//!
//! Limits: one next hop; packets to groups and link-local addresses are not carried; what other
//! programs send by the device goes between, unpaced.

mod classes;
mod clock;
mod device;
mod error;
mod forwarder;
mod frame;
mod options;
mod pacer;
mod summary;

pub use classes::{GatewayClass, OTHER};
pub use error::Error;
pub use options::{NextHop, Options};
pub use summary::{ClassSummary, Summary};

use crate::sys;
use classes::Classifier;
use forwarder::Forwarder;
use frame::{ETHERNET_LEN, Framing, GapFrame};
use host::{Device, Lack, Mac, iproute, sysctl};
use netmodel::pacing::Class;
use pacer::{GapSizes, IN_DEVICE, Pacer};
use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};
use units::Rate;

/// A gateway whose devices are there, and that carries nothing yet.
pub struct Gateway {
    options: Options,
    line: Rate,
    device: Device,
    from: Mac,
    next_hop: Mac,
    tun: File,
    socket: OwnedFd,
}

impl Gateway {
    /// Makes the TUN device, in the calling thread's network namespace, and sets it up.
    ///
    /// # Errors
    /// The options contradict themselves or the machine, or it lacks something.
    pub fn open(options: Options) -> Result<Self, Error> {
        let device = device::find(&options.device)?;
        let line = match options.line {
            Some(line) if line.bps() == 0 => {
                return Err(Error::Usage("the line's rate must be above 0".to_owned()));
            }
            Some(line) => line,
            None => device::line_rate(&device).ok_or_else(|| {
                let name = &device.name;
                Error::Usage(format!("{name} does not tell its line rate: give it with --line"))
            })?,
        };
        classes::check(&options.classes, line).map_err(Error::Usage)?;
        let least = 2 * Framing { overhead: options.overhead }.shortest().get();
        if options.gap_frames.is_some_and(|longest| longest.get() < least) {
            return Err(Error::Usage(format!("gap frames of {least} bytes at least are needed")));
        }
        if options.gap_frames.is_some() {
            device::require_order(&device)?;
        }
        let from = device::mac(&device)?;
        let tun = sys::open_tun(&options.tun).map_err(|e| Error::no_tun(&options.tun, &e))?;
        let socket = sys::open_packet_socket(device.index).map_err(|e| Error::no_socket(&e))?;
        bound(&socket, line)?;
        let next_hop = match options.next_hop {
            NextHop::Mac(mac) => mac,
            NextHop::Neighbour(address) => device::neighbour(&device, address)?,
        };
        set_up(&options.tun, device.mtu)?;
        Ok(Self { options, line, device, from, next_hop, tun, socket })
    }

    /// The line rate in force.
    pub fn line(&self) -> Rate {
        self.line
    }

    /// Where packets go next.
    pub fn next_hop(&self) -> Mac {
        self.next_hop
    }

    /// Warnings for the operator, each in a sentence.
    pub fn warnings(&self) -> Vec<String> {
        let sum: u64 = self.options.classes.iter().map(|class| class.rate.bps()).sum();
        let overbooked = (sum > self.line.bps()).then(|| {
            let (sum, line) = (Rate::bits_per_second(sum), self.line);
            format!("the classes want {sum} together, more than the line's {line}: they share it")
        });
        // The kernel takes the larger one.
        let strict = ["all", &self.device.name].map(|of| {
            let value = sysctl::read(&format!("net/ipv4/conf/{of}/rp_filter"));
            value.ok().and_then(|text| text.parse::<u8>().ok())
        });
        let filtered = (strict.into_iter().flatten().max() == Some(1)).then(|| {
            let name = &self.device.name;
            format!(
                "rp_filter drops answers on {name}, because the way to their senders is not by it: \
                 sysctl -w net.ipv4.conf.{name}.rp_filter=2"
            )
        });
        overbooked.into_iter().chain(filtered).collect()
    }

    /// Carries packets on the calling thread until `stop` can be read.
    ///
    /// # Errors
    /// A device has gone, or was set down.
    pub fn run(self, stop: BorrowedFd<'_>) -> Result<Summary, Error> {
        let framing = Framing { overhead: self.options.overhead };
        let shortest = framing.shortest();
        let longest = self.options.gap_frames.map(|longest| {
            // The kernel refuses frames longer than the device's packets.
            longest.min(framing.link_bytes(self.device.mtu as usize + ETHERNET_LEN))
        });
        let sizes = longest.map(|longest| GapSizes { shortest, longest });
        let queue = self.options.queue;
        let paced =
            self.options.classes.iter().map(|class| Class { rate: Some(class.rate), queue });
        let classes: Vec<_> = paced.chain([Class { rate: None, queue }]).collect();
        let pacer = Pacer::new(self.line, &classes, sizes)
            .map_err(|error| Error::Usage(error.to_string()))?;
        let mut forwarder = Forwarder::new(
            &self.tun,
            self.socket.as_fd(),
            forwarder::Addresses { from: self.from, next_hop: self.next_hop },
            Classifier::new(&self.options.classes),
            pacer,
            framing,
            GapFrame::new(framing, self.from, longest.unwrap_or(shortest)),
        );
        let ended = forwarder.until_stopped(stop, &self.device.name, &self.options.tun);
        let summary = forwarder.summary(&self.options, self.line);
        ended.map(|()| summary)
    }
}

/// Bounds the queue of a device that is slower than the configured line rate.
fn bound(socket: &OwnedFd, line: Rate) -> Result<(), Error> {
    /// The kernel counts what a packet takes of memory: of short ones, many times their length.
    const MEMORY: u64 = 8;
    const LEAST: u64 = 256 << 10;
    let bytes = line.times(IN_DEVICE).get().saturating_mul(MEMORY).max(LEAST);
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    sys::set_send_buffer(socket.as_fd(), bytes).map_err(|e| Error::no_socket(&e))
}

fn set_up(tun: &str, mtu: u32) -> Result<(), Error> {
    // The kernel gives it no link-local address, and has no routers asked for by it.
    let _ = sysctl::write(&format!("net/ipv6/conf/{tun}/addr_gen_mode"), "1");
    let mtu = mtu.to_string();
    iproute::ip(&["link", "set", tun, "mtu", &mtu, "txqueuelen", "1000", "up"])?;
    Ok(())
}

/// Properties of a device that pacing uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Its line rate, where the driver tells it.
    pub line: Option<Rate>,
    /// Why it does not keep gap frames between packets, if so.
    pub disorder: Option<String>,
}

/// Looks at a device, in the calling thread's network namespace.
///
/// # Errors
/// It isn't there, is down or no Ethernet device; or there is no iproute2.
pub fn inspect(device: &str) -> Result<Inspection, Error> {
    let device = device::find(device)?;
    let disorder = device::require_order(&device).err().map(|error| error.to_string());
    Ok(Inspection { line: device::line_rate(&device), disorder })
}

/// Why there can be no gateway on this machine, if so.
pub fn lacking() -> Option<Lack> {
    use rustix::thread::{CapabilitySet, capabilities};
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Some(Lack::tun());
    }
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    let held = capabilities(None).is_ok_and(|held| held.effective.contains(needed));
    (!held).then(|| Lack::root("it requires root"))
}
