// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters that are not per request: connections, handshakes, tickets, reloads.

use super::{
    counters::Counters,
    status::{Reload, Side},
};
use http::StatusCode;
use protocol::{
    Panicked,
    http::{Fault, ProxyError},
};
use relay::buffers::NoMemory;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The most issuers of tickets that are told apart, and the longest name of one.
const ISSUERS: (usize, usize) = (50, 64);
/// The issuer that all others are.
const OTHER: &str = "other";
/// What a connection to a next hop fails of, each with a line from the start.
const FAILURES: [ProxyError; 9] = [
    ProxyError::DnsTimeout,
    ProxyError::DnsError,
    ProxyError::DestinationIpUnroutable,
    ProxyError::ConnectionRefused,
    ProxyError::ConnectionTerminated,
    ProxyError::ConnectionTimeout,
    ProxyError::TlsAlertReceived,
    ProxyError::TlsCertificateError,
    ProxyError::TlsProtocolError,
];

/// Whether a request that ended so had a next hop with which no connection could be established.
pub(super) fn is_connect_failure(error: ProxyError) -> bool {
    FAILURES.contains(&error)
}

/// Whose memory was used up, each with a line from the start.
const MEMORY_OF: [&str; 3] = ["all", "kept", "client"];

/// The counters, and the state of the configuration.
#[derive(Debug)]
pub(crate) struct Counts {
    counters: Mutex<Counters>,
    configuration: Mutex<Reload>,
}

impl Counts {
    /// Of a depot that has just read its configuration.
    pub(crate) fn new() -> Self {
        let none = |name: &str| (name.to_owned(), 0);
        let counters = Counters {
            tls_failures: [Side::Client, Side::Upstream].map(|side| none(side.as_str())).into(),
            connect_failures: FAILURES.map(|failure| none(failure.token())).into(),
            tickets: [none(OTHER)].into(),
            memory_refusals: MEMORY_OF.map(none).into(),
            ..Counters::default()
        };
        let configuration = Reload::of(("configuration", true, SystemTime::now()));
        Self { counters: counters.into(), configuration: configuration.into() }
    }

    /// The counters.
    pub(crate) fn read(&self) -> Counters {
        self.counted().clone()
    }

    /// Whether the configuration could be read.
    pub(crate) fn configuration(&self) -> Reload {
        locked(&self.configuration).clone()
    }

    /// A connection could not be accepted.
    pub(crate) fn not_accepted(&self) {
        self.counted().accept_failures += 1;
    }

    /// A handler panicked: a defect of the depot.
    pub(crate) fn panicked(&self, what: &str, panicked: &Panicked) {
        self.counted().panics += 1;
        tracing::error!(%panicked, "a defect of this depot has ended {what}. Please report it");
    }

    /// A client's handshake failed.
    pub(crate) fn client_tls_failed(&self) {
        self.tls_failed(Side::Client);
    }

    fn tls_failed(&self, side: Side) {
        *self.counted().tls_failures.entry(side.as_str().to_owned()).or_default() += 1;
    }

    /// A connection to a next hop stands after so long, or this is why not.
    pub(crate) fn connected(&self, took: Duration, fault: Option<&Fault>) {
        let Some(fault) = fault else { return self.counted().times.connect.add(took) };
        // A refusal by the rules is not a failure.
        if fault.status == StatusCode::FORBIDDEN {
            return;
        }
        let error = fault.error.token();
        if error.starts_with("tls_") {
            self.tls_failed(Side::Upstream);
        }
        *self.counted().connect_failures.entry(error.to_owned()).or_default() += 1;
    }

    /// A ticket of this issuer was taken.
    pub(crate) fn ticket_taken(&self, issuer: Option<&str>) {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
        let issuer = issuer.unwrap_or("none").chars().take(ISSUERS.1);
        let mut name: String = issuer.map(|c| if plain(c) { c } else { '_' }).collect();
        let tickets = &mut self.counted().tickets;
        if !tickets.contains_key(&name) && tickets.len() > ISSUERS.0 {
            OTHER.clone_into(&mut name);
        }
        *tickets.entry(name).or_default() += 1;
    }

    /// A ticket was not.
    pub(crate) fn ticket_refused(&self) {
        self.counted().ticket_refusals += 1;
    }

    /// A transfer was refused for lack of memory.
    pub(crate) fn memory_refused(&self, why: &NoMemory) {
        let [all, kept, client] = MEMORY_OF;
        let of = match why {
            NoMemory::All { .. } => all,
            NoMemory::Kept { .. } => kept,
            NoMemory::Client { .. } => client,
        };
        *self.counted().memory_refusals.entry(of.to_owned()).or_default() += 1;
    }

    /// The configuration was read again, or could not be used.
    pub(crate) fn reloaded(&self, good: bool) {
        let mut configuration = locked(&self.configuration);
        configuration.good = good;
        if good {
            *configuration = Reload::of(("configuration", true, SystemTime::now()));
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counters> {
        locked(&self.counters)
    }
}

/// Nothing is left half counted, so a panic elsewhere does not spoil the numbers.
fn locked<T>(counted: &Mutex<T>) -> MutexGuard<'_, T> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reload {
    /// When this was read well last, and whether it was so the last time.
    pub(crate) fn of((what, good, when): (&str, bool, SystemTime)) -> Self {
        let since_1970 = when.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { of: what.to_owned(), good, good_unix_s: since_1970.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_cannot_add_unbounded_metrics_lines() {
        let counts = Counts::new();
        counts.ticket_taken(None);
        counts.ticket_taken(Some("https://o.example/\"} 1\nx{y=\""));
        (0..100).for_each(|n| counts.ticket_taken(Some(&format!("issuer{n}"))));
        let tickets = counts.read().tickets;
        assert_eq!(tickets.len(), ISSUERS.0 + 1);
        assert_eq!((tickets["none"], tickets["https://o.example/___1_x_y__"]), (1, 1));
        assert_eq!(tickets.values().sum::<u64>(), 102);
        assert!(tickets[OTHER] > 0);
    }
}
