// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots of many sites in etcd: each tells of itself under a lease, and hears of the others.
//!
//! ```text
//! settings   where etcd is, and how to reach it
//! list       all that is there, in pages
//! announce   one value under a lease, which is renewed, or asked for again
//! follow     all that is there, then each change; from the last revision after a lost connection, anew after a compaction
//! ```
//! Values are texts that this crate does not read: depots sign them, so that who can write to etcd cannot speak for a depot. Nothing
//! here waits for etcd where somebody waits for it: [`list`] takes a time, the others run beside.
//!
//! Threats. etcd, or who can write to it, may send anything: at most [`MOST`] values of at most [`LONGEST`] bytes are passed on, and a
//! message of more than 4 MiB ends the connection. A key that is not text, or not below the prefix, is passed over.

mod announce;
mod follow;
mod list;
mod settings;

pub use announce::announce;
pub use follow::{Change, follow};
pub use list::list;
pub use settings::{Error, Settings};

use units::BackOff;

/// The most values that are read.
pub const MOST: usize = 1024;
/// The longest value that is read, in bytes.
pub const LONGEST: usize = 4 << 10;
/// How long after a failure etcd is asked again: at first, and at last.
const PAUSE: BackOff =
    BackOff::new(std::time::Duration::from_millis(200), std::time::Duration::from_secs(10));

/// A value of a key below the prefix: the rest of the key, and the value. None of what nobody reads.
fn read(prefix: &str, value: &etcd_client::KeyValue) -> Option<(String, String)> {
    let name = value.key_str().ok()?.strip_prefix(prefix)?;
    let text = value.value_str().ok().filter(|text| text.len() <= LONGEST)?;
    Some((name.to_owned(), text.to_owned()))
}
