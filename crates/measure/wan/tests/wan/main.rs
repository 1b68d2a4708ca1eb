// SPDX-License-Identifier: GPL-2.0-or-later
//! Emulated networks and the pacing gateway, with real sockets. As root.

#[path = "../../../../spine/scenario/tests/draft/mod.rs"]
mod draft;
mod gateway;
mod network;

use testkit::{alone, one_of_two};
