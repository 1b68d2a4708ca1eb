// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests of several crates share.

pub mod captured;
mod credible;
pub mod draft;
pub mod etcd;
pub mod fuzz;
pub mod http_server;
mod refusing;
mod turn;
mod wait;

pub use credible::{Measured, credible};
pub use refusing::refusing_address;
pub use turn::{Turn, alone, one_of_two, with_kernel_names};
pub use wait::until;
