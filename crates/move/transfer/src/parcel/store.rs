// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions that a depot keeps: left, collected, listed, extended and dropped (docs/lsl.md, sections 13 and 14).
//!
//! ```text
//! leaving    code, owner's key ──▶ request; content ──▶ source or PipeSealer ──▶ the stream that is stored
//! collect    code or owner's key ──▶ request ──▶ stored bytes ──▶ note, content ──▶ `placing`
//! client     list, extend, drop: the owner's requests
//! ```
//! All that opens a session stays here: the depot has public keys, a name, and bytes that it cannot read. Threats: it can keep
//! back, cut, or change what it has. Changes are noticed, and it cannot pass off as encrypted what is not: a collector who has
//! a code takes plain bytes only if told to.

mod client;
mod collect;
mod leaving;
mod owner_key;
mod refused;
mod source;

pub use client::StoreClient;
pub use collect::{CollectRequest, Collector};
pub use leaving::Leaving;
pub use owner_key::{OwnerKey, default_owner_key};

pub(super) use leaving::{PipeSealer, Sealing};
pub(super) use owner_key::state_folder;
pub(super) use refused::refused;
