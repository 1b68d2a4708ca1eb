// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests of several crates share.

mod turn;

pub use turn::{Turn, alone, one_of_two, with_kernel_names};
