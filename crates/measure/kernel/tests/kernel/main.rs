// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion controls in the running kernel, and the monitor. Needs root, as the program does.
//!
//! A test that loads something has a turn `with_kernel_names`, or is `alone` where gaps or calls are recorded, which needs
//! the processors.

mod changing;
mod common;
mod compiling;
mod lacking;
mod loading;
mod monitor;
mod pacing;
mod pinning;
mod replaying;
