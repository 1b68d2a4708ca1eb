// SPDX-License-Identifier: GPL-2.0-or-later
//! What the relay reads from peers, and its example.

mod blocks;
mod example;
