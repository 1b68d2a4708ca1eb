// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients (by network) and tickets (by name) that the operator denies for a time.
//!
//! It stays when the configuration is read again. With a file it also stays when the depot is started again, or another
//! one takes over.

use host::FileError;
use http::StatusCode;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use session::message::{Fault, ProxyError};
use std::{
    fs, io,
    io::Write,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Maximum number of denials at a time: each request is checked against all networks.
pub(crate) const MOST: usize = 4096;
/// The longest time: what is to last belongs in the configuration.
pub(crate) const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// A longer file is no such list.
const LONGEST_FILE: u64 = 4 << 20;
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
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// Who.
    pub who: Shunned,
    /// Until when: seconds since 1970.
    pub until_unix_s: u64,
    /// Why, for operators.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The list.
#[derive(Debug)]
pub(crate) struct Denied {
    file: Option<PathBuf>,
    list: Mutex<Vec<Denial>>,
    /// Requests skip the list's lock while the list is empty, as on most depots.
    is_empty: AtomicBool,
}

impl Denied {
    /// The list that this file keeps, if there is one.
    pub(crate) fn new(file: Option<&Path>) -> Result<Self, FileError> {
        let list = file.map_or_else(|| Ok(Vec::new()), read)?;
        let is_empty = AtomicBool::new(list.is_empty());
        Ok(Self { file: file.map(Path::to_owned), list: Mutex::new(list), is_empty })
    }

    /// Whether this client is denied.
    pub(crate) fn has_client(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.has(|who| matches!(who, Shunned::Client(net) if net.contains(&client)))
    }

    /// Whether this ticket is.
    pub(crate) fn has_ticket(&self, id: &str) -> bool {
        self.has(|who| matches!(who, Shunned::Ticket(denied) if denied == id))
    }

    /// Sees whether this client may ask.
    ///
    /// # Errors
    /// It is denied.
    pub(crate) fn check_client(&self, client: IpAddr) -> Result<(), Fault> {
        if self.has_client(client) { Err(shut_out()) } else { Ok(()) }
    }

    /// Sees whether this ticket may be used.
    ///
    /// # Errors
    /// It is denied.
    pub(crate) fn check_ticket(&self, id: &str) -> Result<(), Fault> {
        if self.has_ticket(id) { Err(shut_out()) } else { Ok(()) }
    }

    fn has(&self, is: impl Fn(&Shunned) -> bool) -> bool {
        if self.is_empty.load(Relaxed) {
            return false;
        }
        let now = now();
        self.list().iter().any(|denial| denial.until_unix_s > now && is(&denial.who))
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

    /// Changes the list, and what the file keeps of it: both, or none.
    fn change(
        &self,
        with: impl FnOnce(&mut Vec<Denial>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut list = self.list();
        let (mut new, now) = (list.clone(), now());
        new.retain(|denial| denial.until_unix_s > now);
        with(&mut new)?;
        if let Some(file) = &self.file {
            write(file, &new).map_err(|error| format!("{}: {error}", file.display()))?;
        }
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
fn shut_out() -> Fault {
    let reason = "the operator of this depot has shut this client or this ticket out";
    Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn read(file: &Path) -> Result<Vec<Denial>, FileError> {
    let failed = |error: &io::Error| FileError::io(file, error);
    let text = match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&error)),
        Ok(data) if data.len() > LONGEST_FILE => {
            return Err(FileError::new(file, &"it is too long for a deny list"));
        }
        Ok(_) => fs::read_to_string(file).map_err(|error| failed(&error))?,
    };
    let list: Vec<Denial> = serde_json::from_str(&text)
        .map_err(|error| FileError::new(file, &format!("it is not a deny list: {error}")))?;
    if list.len() > MOST {
        return Err(FileError::new(file, &format!("more than {MOST} are denied")));
    }
    Ok(list)
}

/// Replaces the file atomically: a reader sees the old list or the new one.
fn write(file: &Path, list: &[Denial]) -> io::Result<()> {
    let text = serde_json::to_string_pretty(list)?;
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut options = fs::OpenOptions::new();
    let mut opened = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(who: Shunned, seconds: u64) -> Denial {
        Denial { who, until_unix_s: now() + seconds, why: "too much".to_owned() }
    }

    #[test]
    fn networks_and_tickets_are_denied_until_their_time() {
        let denied = Denied::new(None).unwrap();
        let client = |text: &str| denied.has_client(text.parse().unwrap());
        assert!(!client("10.0.0.1") && !denied.has_ticket("a"));
        let net = Shunned::Client("10.0.0.0/24".parse().unwrap());
        denied.deny(denial(net.clone(), 60)).unwrap();
        denied.deny(denial(Shunned::Ticket("a".to_owned()), 60)).unwrap();
        denied.deny(denial(Shunned::Ticket("b".to_owned()), 0)).unwrap();
        assert!(client("10.0.0.1") && client("::ffff:10.0.0.9") && !client("10.0.1.1"));
        assert!(denied.has_ticket("a") && !denied.has_ticket("b"), "the time of one is over");
        denied.deny(denial(net.clone(), 30)).unwrap();
        assert_eq!(denied.all().len(), 2, "a network is there once");
        assert_eq!((denied.allow(&net), denied.allow(&net)), (Ok(true), Ok(false)));
        assert!(!client("10.0.0.1"));
    }

    #[test]
    fn list_is_bounded_and_kept_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("denied.json");
        let denied = Denied::new(Some(&file)).unwrap();
        let ticket = |n: usize| denial(Shunned::Ticket(n.to_string()), 60);
        denied.deny(ticket(0)).unwrap();
        let again = Denied::new(Some(&file)).unwrap();
        assert!(again.has_ticket("0"));
        for text in ["[", "{}", "[{\"who\":{\"client\":\"x\"},\"until_unix_s\":1}]"] {
            fs::write(&file, text).unwrap();
            assert!(Denied::new(Some(&file)).is_err(), "{text}");
        }
        let many: Vec<_> = (0..MOST).map(ticket).collect();
        write(&file, &many).unwrap();
        let full = Denied::new(Some(&file)).unwrap();
        assert!(full.deny(ticket(MOST)).is_err() && full.deny(ticket(7)).is_ok());
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(full.allow(&Shunned::Ticket("7".to_owned())).is_err());
        assert!(full.has_ticket("7"), "what cannot be kept does not count");
    }
}
