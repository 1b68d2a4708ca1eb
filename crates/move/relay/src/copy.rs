// SPDX-License-Identifier: GPL-2.0-or-later
//! Copying bytes from one connection to another, within bounds of memory and time.

mod ack_progress;
mod batch;
#[expect(clippy::module_inception, reason = "the type is called so")]
mod copy;
mod error;
mod idle;
pub mod minimum_rate;
pub mod pipe;
mod progress;
mod resources;
mod splice;
mod to_end;
mod write_all;

pub use ack_progress::AckProgress;
pub use copy::{Copy, Ends, Envelope, Observer, SMALL};
pub use error::CopyError;
pub use idle::IdleTimeouts;
pub use minimum_rate::MinimumRate;
pub use progress::Progress;
pub use resources::{CopyMode, RelayResources};
pub use to_end::copy_to_end;
