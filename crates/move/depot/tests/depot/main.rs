// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots as processes of their own, among clients, next hops and origins. The tests run side by
//! side in one process: none changes this process's environment, directory, limits or signals. What
//! does, or measures or loads the whole machine, is in `tests/alone`.

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod blame;
mod bodies;
mod certificates;
mod claims;
mod clients;
mod control;
mod deploy;
mod detours;
mod digests;
mod faults;
mod fetching;
mod fuzz;
mod hops;
mod interims;
mod leaving;
mod lifecycle;
mod listings;
mod log;
mod logins;
mod observe;
mod operators;
mod panics;
mod proxy;
mod quiet;
mod rates;
mod receipts;
mod refusals;
mod registers;
mod reloads;
mod resets;
mod sessions;
mod shares;
mod siblings;
mod sites;
mod sources;
mod stored;
mod striping;
mod takeovers;
mod tickets;
mod tls;
mod warm;
mod wrong_ports;
