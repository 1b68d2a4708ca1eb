// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion controls of `cc/`, for programs. The same C files are compiled here and, by
//! `longhaul-kernel`, for the running kernel; `cc/cc.h` is their contract. [`response`] has their
//! closed forms, [`path`] two plain paths to watch them on, [`trial`] tells them what none can be told. A file of a
//! user, written to the same contract, is compiled and loaded by [`mod@file`]; one of a program's own functions is taken up by [`program`].
//!
//! ```
//! use longhaul_congestion::{Ack, Algorithm, Control, Decision};
//!
//! let reno = Algorithm::find("reno")?;
//! let mut decision = Decision { cwnd: 10, ..Decision::default() };
//! let ack = Ack { now_us: 1_000, acked: 4, mss: 1448, flags: Ack::CWND_LIMITED, ..Ack::default() };
//! let mut control = Control::new(reno.default_set(), &ack, &mut decision);
//! control.ack(&ack, &mut decision);
//! assert_eq!(decision.cwnd, 14); // slow start
//! control.loss(&ack, &mut decision);
//! assert_eq!(decision.ssthresh, 7);
//! # Ok::<(), longhaul_congestion::UnknownName>(())
//! ```

mod ffi;
pub mod file;
pub mod path;
pub mod program;
pub mod response;
pub mod trial;

pub use ffi::{
    Ack, Algorithm, AlgorithmFile, Attach, Control, Decision, Event, Param, Params, Set, State,
    UnknownName,
};
pub use file::{Fault, catch_fault};
