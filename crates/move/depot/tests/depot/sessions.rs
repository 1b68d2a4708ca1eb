// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions: bytes in both directions through depots (`docs/lsl.md`, sections 1 to 4).

mod bytes;
mod detours;
mod meetings;
pub mod peers;
mod ports;
mod refused;
mod servers;
mod shares;
mod stripes;
mod takeover;
mod tickets;
mod warm;
mod watched;
