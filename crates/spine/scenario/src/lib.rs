// SPDX-License-Identifier: GPL-2.0-or-later
//! The scenario file: parse, validate, expand a sweep into concrete runs.
//!
//! A scenario describes nodes, links and flows once; named variants, a sweep and a repeat count make
//! many runs of it. The file's keys are documented in `docs/scenario-reference.md`. From text to runs:
//!
//! 1. `document`: TOML becomes a tree of values, each of which knows its [`Location`], a line of the
//!    file or a `--set`.
//! 2. `outline`: what belongs to the whole scenario: title, repeats, variants, references, and the swept
//!    keys (`sweep`).
//! 3. `expand`: for each variant and each point of the sweep a copy of the tree, changed by the variant,
//!    the point and the `--set`s in this order (`keys`), its `${...}` filled in (`vars`).
//! 4. `network`: that copy read key by key (`fields`), so that one pass finds every problem; what
//!    stands for many (`count`) becomes many.
//! 5. `resolve`: names checked, paths computed (`routes`), queues and buffers sized from rate and
//!    delay, background made of traffic. What is random is drawn from each run's seed (`seeds`).
//!
//! Runs can also come expanded ([`Scenario::of_runs`]), and are then checked by `expanded`.
//!
//! While a run goes on, its traffic is drawn by [`FileArrivals`] and [`Random`], whatever the method.
//!
//! Everything but [`load`] and [`load_runs`] is pure: no I/O, no clock, and the same text gives the same runs.

pub mod addresses;
pub mod app_rate;
mod congestion_level;
mod diagnostics;
mod directed_links;
mod document;
mod draws;
mod expand;
mod expanded;
mod fields;
mod json;
pub mod kept;
mod keys;
mod limits;
mod network;
mod outline;
mod resolve;
mod routes;
mod run;
mod scenario;
mod seeds;
mod sweep;
mod vars;

pub use diagnostics::{Diagnostics, Location, Problem};
pub use directed_links::DirectedLink;
pub use draws::{FileArrival, FileArrivals, Random};
pub use limits::PathLimits;
pub use routes::{Leg, Routes};
pub use run::{
    Action, Bottleneck, Burst, Capture, ChangingRate, Client, Congestion, Direction, Discipline,
    Event, Family, FileSize, Flow, FlowPacing, Heading, Hop, JitterDistribution, LatePackets, Link,
    LinkChange, LinkImpairments, LinkOutage, LinkPolicer, Loss, LossDetection, Move, Node,
    PacingRtt, PacingSettings, PacketJitter, Profile, Queue, Recovery, Reference, Run, Setting,
    Signalling, Source, Tcp, Thresholds, Traffic, Variant,
};
pub use scenario::{Axis, Scenario, load, load_runs};
pub use seeds::fnv_1a;
