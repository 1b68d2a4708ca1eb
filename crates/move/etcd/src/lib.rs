// SPDX-License-Identifier: GPL-2.0-or-later
//! Announcements of depots in etcd: written under a lease, listed, watched.
//!
//! ```text
//! settings   endpoints, prefix, TLS, login
//! list       all values, in pages
//! announce   one value under a lease, which is renewed, or granted again after it expired
//! follow     all values, then each change; resumes at the last revision, or lists again after a compaction
//! ```
//! Values are opaque here. Depots sign them, so write access to etcd does not allow forging. [`list`] has a time limit; `announce` and
//! `follow` run in the background.
//!
//! Threats. Writers to etcd may store anything: at most [`MOST`] values of at most [`LONGEST`] bytes are returned, and a message above
//! 4 MiB ends the connection. Keys that are not text, or not below the prefix, are skipped.

mod announce;
mod follow;
mod list;
mod settings;

pub use announce::announce;
pub use follow::{Change, follow};
pub use list::list;
pub use settings::{Error, Settings};

use units::BackOff;

/// Maximum number of listed values.
pub const MOST: usize = 1024;
/// Maximum length of a value, in bytes.
pub const LONGEST: usize = 4 << 10;
/// Delay between attempts to connect.
const PAUSE: BackOff =
    BackOff::new(std::time::Duration::from_millis(200), std::time::Duration::from_secs(10));

/// The key without its prefix, and the value. `None` if either is not text, or the value is too long.
fn read(prefix: &str, value: &etcd_client::KeyValue) -> Option<(String, String)> {
    let name = value.key_str().ok()?.strip_prefix(prefix)?;
    let text = value.value_str().ok().filter(|text| text.len() <= LONGEST)?;
    Some((name.to_owned(), text.to_owned()))
}
