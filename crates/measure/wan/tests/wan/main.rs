// SPDX-License-Identifier: GPL-2.0-or-later
//! Emulated networks and the pacing gateway, with real sockets. As root.

mod gateway;
mod network;

use testkit::{alone, one_of_two};
