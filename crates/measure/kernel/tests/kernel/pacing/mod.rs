// SPDX-License-Identifier: GPL-2.0-or-later
//! Paced packets, byte by byte, where they leave.

mod auto;
mod departures;
mod frames;
mod sockets;
mod stock;
mod streams;
mod wire;

use longhaul_kernel::pace::{DevicePacer, Frames, Match, Method, Options, Rule, Target};
use std::num::NonZeroU16;
use units::{Bytes, Rate};
use wire::DEVICE;

const LINE: u64 = 1_000_000_000;

fn mbit(mbit: u64) -> Rate {
    Rate::bits_per_second(mbit * 1_000_000)
}

/// A wire of 1 Gb/s whose frames may be 4 KB, and what is to leave by it.
fn options(overhead: u64, target: Target, to_port: Option<u16>) -> Options {
    let matches = Match { to_port: to_port.and_then(NonZeroU16::new), ..Match::default() };
    let frames = Frames {
        line: Some(Rate::bits_per_second(LINE)),
        overhead: Some(Bytes::new(overhead)),
        max_gap: None,
        max_frame: Some(Bytes::new(4 << 10)),
    };
    let rules = vec![Rule { matches, target }];
    Options { device: DEVICE.to_owned(), rules, frames, method: Some(Method::Gap) }
}

fn injector(options: &Options) -> DevicePacer {
    DevicePacer::attach(options).unwrap_or_else(|error| panic!("{error}"))
}
