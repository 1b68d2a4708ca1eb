// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients (by network) and tickets (by name) that the operator denies for a time.
//!
//! The list outlasts a reload. [`kept`](crate::control::kept) keeps it over a crash, and a successor inherits it.

use http::StatusCode;
use ipnet::IpNet;
use protocol::{
    http::{Fault, ProxyError},
    ticket::MAX_ID_LEN,
};
use serde::{Deserialize, Serialize};
use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use units::text::is_hidden;

/// Maximum number of denials at a time: each request is checked against all networks.
pub(crate) const MOST: usize = 4096;
/// The longest time: what is to last belongs in the configuration.
pub(crate) const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// The longest reason that is kept, in bytes.
pub(crate) const LONGEST_WHY: usize = 200;

/// A denied client or ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shunned {
    /// All clients of a network.
    Client(IpNet),
    /// All tickets of this name (`jti`).
    Ticket(String),
}

/// A denial: of which client or ticket, until when, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// Who.
    pub who: Shunned,
    /// Until when: seconds since 1970.
    pub until_unix_s: u64,
    /// Why, for the client and for operators.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Denial {
    /// Checks a denial that comes from outside: it must be bounded, printable and end within [`LONGEST`].
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.why.len() > LONGEST_WHY || self.why.chars().any(is_hidden) {
            return Err(format!(
                "the reason must be one line of at most {LONGEST_WHY} bytes, all printable"
            ));
        }
        if let Shunned::Ticket(id) = &self.who
            && (id.is_empty() || id.len() > MAX_ID_LEN || !id.bytes().all(|b| b.is_ascii_graphic()))
        {
            return Err("that is not a ticket name (jti)".to_owned());
        }
        if self.until_unix_s > now().saturating_add(LONGEST.as_secs()) {
            let days = LONGEST.as_secs() / 86_400;
            return Err(format!("the time is from 1 s to {days} days"));
        }
        Ok(())
    }
}

/// The list.
#[derive(Debug)]
pub(crate) struct Denied {
    list: Mutex<Vec<Denial>>,
    /// Requests skip the list's lock while the list is empty, as on most depots.
    is_empty: AtomicBool,
}

impl Default for Denied {
    fn default() -> Self {
        Self { list: Mutex::default(), is_empty: AtomicBool::new(true) }
    }
}

impl Denied {
    /// Why this client is denied, if it is.
    pub(crate) fn client(&self, client: IpAddr) -> Option<Arc<str>> {
        let client = client.to_canonical();
        self.find(|who| matches!(who, Shunned::Client(net) if net.contains(&client)))
    }

    /// Why this ticket is, if it is.
    pub(crate) fn ticket(&self, id: &str) -> Option<Arc<str>> {
        self.find(|who| matches!(who, Shunned::Ticket(denied) if denied == id))
    }

    /// Sees whether this client may ask.
    ///
    /// # Errors
    /// It is denied.
    pub(crate) fn check_client(&self, client: IpAddr) -> Result<(), Fault> {
        self.client(client).map_or(Ok(()), |why| Err(shut_out(&why)))
    }

    /// Sees whether this ticket may be used.
    ///
    /// # Errors
    /// It is denied.
    pub(crate) fn check_ticket(&self, id: &str) -> Result<(), Fault> {
        self.ticket(id).map_or(Ok(()), |why| Err(shut_out(&why)))
    }

    fn find(&self, is: impl Fn(&Shunned) -> bool) -> Option<Arc<str>> {
        if self.is_empty.load(Relaxed) {
            return None;
        }
        let now = now();
        let list = self.list();
        let denial = list.iter().find(|denial| denial.until_unix_s > now && is(&denial.who));
        denial.map(|denial| denial.why.as_str().into())
    }

    /// Denies a client or ticket, and replaces its earlier denial.
    pub(crate) fn deny(&self, denial: Denial) -> Result<(), String> {
        self.change(|list| {
            list.retain(|old| old.who != denial.who);
            if list.len() >= MOST {
                return Err(format!(
                    "{MOST} are denied already: use allow.clients or trust.revoked"
                ));
            }
            list.push(denial);
            Ok(())
        })
    }

    /// Removes the denial of a client or ticket. Returns whether there was one.
    pub(crate) fn allow(&self, who: &Shunned) -> Result<bool, String> {
        let mut was = false;
        self.change(|list| {
            let before = list.len();
            list.retain(|denial| denial.who != *who);
            was = list.len() < before;
            Ok(())
        })?;
        Ok(was)
    }

    /// All denials in force.
    pub(crate) fn all(&self) -> Vec<Denial> {
        let now = now();
        self.list().iter().filter(|denial| denial.until_unix_s > now).cloned().collect()
    }

    /// Takes over these denials in place of its own, as far as there is room.
    pub(crate) fn replace(&self, mut with: Vec<Denial>) {
        with.truncate(MOST);
        let mut list = self.list();
        self.is_empty.store(with.is_empty(), Relaxed);
        *list = with;
    }

    /// Changes the list, or leaves it as it is.
    fn change(
        &self,
        with: impl FnOnce(&mut Vec<Denial>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut list = self.list();
        let (mut new, now) = (list.clone(), now());
        new.retain(|denial| denial.until_unix_s > now);
        with(&mut new)?;
        self.is_empty.store(new.is_empty(), Relaxed);
        *list = new;
        Ok(())
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn list(&self) -> MutexGuard<'_, Vec<Denial>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to denied clients.
fn shut_out(why: &str) -> Fault {
    let reason = "the operator of this depot has shut this client or this ticket out";
    let reason = if why.is_empty() { reason.to_owned() } else { format!("{reason}: {why}") };
    Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(who: Shunned, seconds: u64) -> Denial {
        Denial { who, until_unix_s: now() + seconds, why: "too much".to_owned() }
    }

    #[test]
    fn networks_and_tickets_are_denied_until_their_time() {
        let denied = Denied::default();
        let client = |text: &str| denied.client(text.parse().unwrap()).is_some();
        let has_ticket = |id| denied.ticket(id).is_some();
        assert!(!client("10.0.0.1") && !has_ticket("a"));
        let net = Shunned::Client("10.0.0.0/24".parse().unwrap());
        denied.deny(denial(net.clone(), 60)).unwrap();
        denied.deny(denial(Shunned::Ticket("a".to_owned()), 60)).unwrap();
        denied.deny(denial(Shunned::Ticket("b".to_owned()), 0)).unwrap();
        assert!(client("10.0.0.1") && client("::ffff:10.0.0.9") && !client("10.0.1.1"));
        assert!(has_ticket("a") && !has_ticket("b"), "the time of one is over");
        denied.deny(denial(net.clone(), 30)).unwrap();
        assert_eq!(denied.all().len(), 2, "a network is there once");
        assert_eq!((denied.allow(&net), denied.allow(&net)), (Ok(true), Ok(false)));
        assert!(!client("10.0.0.1"));
    }

    #[test]
    fn list_is_bounded() {
        let denied = Denied::default();
        let ticket = |n: usize| denial(Shunned::Ticket(n.to_string()), 60);
        denied.replace((0..MOST + 5).map(ticket).collect());
        assert_eq!(denied.all().len(), MOST);
        assert!(denied.deny(ticket(MOST)).is_err() && denied.deny(ticket(7)).is_ok());
        denied.replace(Vec::new());
        assert!(denied.ticket("7").is_none());
    }

    #[test]
    fn reason_is_told_and_must_be_printable() {
        let denied = Denied::default();
        denied.deny(denial(Shunned::Ticket("a".to_owned()), 60)).unwrap();
        let fault = denied.check_ticket("a").unwrap_err();
        assert!(fault.reason.ends_with("shut this client or this ticket out: too much"), "{fault}");
        let with =
            |why: &str| Denial { why: why.to_owned(), ..denial(Shunned::Ticket("a".into()), 9) };
        assert!(with("Überlast – write to ops@example.org").check().is_ok());
        for why in
            ["a\nb", "\u{1b}[2J", "\u{9b}2J", "\u{202e}x", "\u{2028}", "\u{200b}", &"x".repeat(201)]
        {
            assert!(with(why).check().is_err(), "{why:?}");
        }
        let late = Denial { until_unix_s: u64::MAX, ..with("") };
        assert!(late.check().is_err());
        assert!(denial(Shunned::Ticket("a b".to_owned()), 9).check().is_err());
    }
}
