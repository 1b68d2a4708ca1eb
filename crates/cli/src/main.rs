// SPDX-License-Identifier: GPL-2.0-or-later
//! The binary `longhaul`: arguments and printing only. What a command does lives in the rooms.
//!
//! Results go to standard output, progress and logs to standard error. Exit codes: 0 done,
//! 1 failed, 2 wrong usage, 3 the machine lacks something, 4 data did not verify.

fn main() {}
