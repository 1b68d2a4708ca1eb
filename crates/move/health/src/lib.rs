// SPDX-License-Identifier: GPL-2.0-or-later
//! Health checks of depots: short requests, and up or down from the answers.
//!
//! ```text
//! question   one request and its answer, a document of bounded size
//! probe      how full a depot is, and so whether it takes requests: a Finding
//! state      up or down, by the findings of late
//! ```
//! The caller connects, by its own rules, and decides when to probe.
//!
//! Threats. The bytes of an answer are hostile: at most one head and one body of bounded size are read. An
//! answer may come slowly, or never: [`within`] bounds the time.

mod probe;
mod question;
mod state;

pub use probe::{Finding, load, probe, within};
pub use question::{BodyLimit, QuestionError, Response, ask, ask_with_padding};
pub use state::{Health, Rules};
