// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP signalling: wire format and rules of a route through depots. No I/O.
