// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions at rest: on a disk that loses what is not synced, on one that fails, and on the real one.

mod crashes;
mod damage;
mod faults;
mod fuzz;
mod harness;
mod many;
mod owners;
mod real;
mod rounds;
mod runtime;
mod sim_disk;
mod space;
