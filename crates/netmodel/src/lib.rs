// SPDX-License-Identifier: GPL-2.0-or-later
//! What a network does to packets: links with rate, delay, queue and loss, and a monitor. No clock, no I/O.
