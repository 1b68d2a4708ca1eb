// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages, routes and tickets as a depot reads and writes them.

mod chunked;
mod digest;
mod fuzz;
mod protocol;
mod rewrite;
mod route;
mod session;
mod ticket;
