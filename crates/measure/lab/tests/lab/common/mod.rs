// SPDX-License-Identifier: GPL-2.0-or-later
//! What tests over the emulator share.

pub mod emulated;

pub use testkit::{Measured, alone, credible, one_of_two};
