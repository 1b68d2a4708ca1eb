// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion controls of `cc/` in the running kernel, precise pacing of what leaves a device
//! ([`pace`]), and the monitor of a device's packets ([`monitor`]).
//!
//! `src/bpf` holds two adapters, for window and for rate algorithms. `build.rs` compiles them once
//! for each line of `cc/algorithms.h` into an eBPF program that the kernel takes as a congestion
//! control (`struct_ops`), named `lh_` and the algorithm's name. They only translate: what decides
//! is the same C file that programs use through `longhaul-congestion`, and [`cc::Loaded::trace`]
//! lets one check that, call by call.
//!
//! ```no_run
//! use congestion::Algorithm;
//! use longhaul_kernel::cc;
//!
//! let cubic = Algorithm::find("cubic")?;
//! let loaded = cc::load(cubic.default_set(), &cc::Options::default())?;
//! // ... lh_cubic is there for every socket that asks for it, until `loaded` is dropped, or the
//! // process dies, or for good:
//! loaded.pin()?;
//! cc::unload(cubic)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it needs
//! To build: clang (14 or newer), and for libbpf a C compiler, make, pkg-config and the headers of
//! libelf and zlib (Debian: `clang gcc make pkg-config libelf-dev zlib1g-dev`). Without clang the
//! build says how to get it and ends with cargo's own exit code, 101; the 3 of `longhaul`, for what
//! a machine lacks, is that of the built program.
//!
//! To run: root, and Linux 6.1 or newer with BTF. Written for what differs between versions (links
//! since 6.4, `cong_control` with four arguments since 6.10, `cwnd_event_tx_start` since 7.1), but run on
//! 6.18 only: there, links and the four arguments were in use; registering without a link was tested on it
//! too; the adapter with two arguments, and the one for 7.1, were compiled, never run.
//!
//! Before 6.4 a congestion control that was loaded without being pinned stays in the kernel when
//! its process is killed, and can't be left to a child ([`cc::Loaded::is_inherited`]).

mod bpf_statistics;
mod bpffs;
mod error;
mod lock;
mod maps;
mod objects;
mod ring;
mod support;
mod sys;

pub mod cc;
pub mod monitor;
pub mod pace;

pub use bpf_statistics::{BpfStatistics, ProgramRuns};
pub use error::Error;
pub use support::{CongControl, Restart, Support};
