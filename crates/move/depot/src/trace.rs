// SPDX-License-Identifier: GPL-2.0-or-later
//! By what one transfer is followed through the logs of a chain of depots.
//!
//! ```text
//! Longhaul-Request: 5f0c7d2e-2a     the name that the first depot gave the request
//! Forwarded: for=192.0.2.7          the client that asked that one
//! ```
//! A depot sends these to a depot of `trust.depots` and believes them of one, by its address: for the log, and for
//! the limits of clients ([`crate::admission::limits`]). It sends `Forwarded` also to the next depot of a
//! ticket for certain clients: see [`crate::http::plan`].

use crate::config::TrustFiles;
use http::{HeaderName, HeaderValue};
use protocol::http::{Fields, RequestHead, forwarded_client, forwarded_for};
use rustix::rand::{GetRandomFlags, getrandom};
use std::{
    fmt::Write,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The name of a request.
static REQUEST: HeaderName = HeaderName::from_static("longhaul-request");
/// The longest one that is taken from others.
const LONGEST: usize = 64;

/// Gives requests names that no other depot gives.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Unlike that of any other depot, and of this one before it was started.
    own: u32,
    count: AtomicU64,
}

impl Default for Requests {
    fn default() -> Self {
        let mut own = [0; 4];
        // Without random bytes names may meet those of other depots; nothing depends on them.
        let _ = getrandom(&mut own, GetRandomFlags::NONBLOCK);
        Self { own: u32::from_ne_bytes(own), count: AtomicU64::new(0) }
    }
}

impl Requests {
    fn next(&self) -> String {
        let mut name = String::with_capacity(24);
        let count = self.count.fetch_add(1, Relaxed);
        write!(name, "{:08x}-{count:x}", self.own).expect("a string takes everything");
        name
    }
}

/// By what a request is followed.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// Its name: the same at all depots of a chain that trust each other.
    pub request: Arc<str>,
    /// The client that asked the first of them, where this is not that one.
    pub asked_for: Option<IpAddr>,
}

impl Trace {
    /// That of a request from `peer`.
    pub(crate) fn of(
        request: &RequestHead,
        peer: IpAddr,
        (trust, requests): (&TrustFiles, &Requests),
    ) -> Self {
        let trusted = trust.has_depot(peer);
        let told = Some(&request.headers).filter(|_| trusted);
        let name = told.and_then(name_in).map(Arc::from);
        Self {
            request: name.unwrap_or_else(|| requests.next().into()),
            asked_for: told.and_then(forwarded_client),
        }
    }

    /// The fields that tell the next depot about a request from `peer`: for the log only, unless the next
    /// depot has to check a client against a ticket.
    pub(crate) fn fields(
        &self,
        vouched: Option<IpAddr>,
        peer: IpAddr,
    ) -> [(HeaderName, HeaderValue); 2] {
        let name = HeaderValue::from_str(&self.request).expect("letters, digits and hyphens");
        [(REQUEST.clone(), name), forwarded_for(vouched.or(self.asked_for).unwrap_or(peer))]
    }
}

/// The request's name in what a depot sent.
fn name_in(fields: &Fields) -> Option<&str> {
    let name = fields.get(&REQUEST)?.to_str().ok()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    ((1..=LONGEST).contains(&name.len()) && name.bytes().all(plain)).then_some(name)
}
