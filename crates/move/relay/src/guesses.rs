// SPDX-License-Identifier: GPL-2.0-or-later
//! How many wrong passwords clients may try.
//!
//! Each client (an IPv4 address, an IPv6 /64) has 10 tries, and gets one back every 6 s. Right passwords
//! cost none. Few passwords are checked at a time (two), so that guessing cannot take all processors.
//! Limits: 8192 clients are remembered; of more, those are forgotten that have waited longest.

use crate::client_key::host_key;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

/// How many wrong passwords may follow one another.
const AT_ONCE: u32 = 10;
/// After which time one more may.
const AGAIN: Duration = Duration::from_secs(6);
/// How many clients are remembered.
const MOST: usize = 8192;
/// How many passwords are checked at a time.
const AT_A_TIME: usize = 2;

/// The client has tried too many wrong passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many wrong passwords came from this client: try again in a minute")]
pub struct TooManyGuesses;

/// Clients that have tried wrong passwords.
#[derive(Debug)]
pub struct Guesses {
    /// When a client will have all its tries again.
    until: Mutex<HashMap<IpAddr, Instant>>,
    checks: Semaphore,
}

/// A client that has tried wrong passwords.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    client: IpAddr,
    /// Seconds until it has all its tries again.
    seconds: f64,
}

/// A try. It counts as wrong unless [`Guess::was_right`] is called.
#[derive(Debug)]
pub struct Guess<'g> {
    guesses: &'g Guesses,
    client: IpAddr,
    _check: SemaphorePermit<'g>,
}

impl Default for Guesses {
    fn default() -> Self {
        Self { until: Mutex::default(), checks: Semaphore::new(AT_A_TIME) }
    }
}

impl Guesses {
    /// Lets a client try a password, and waits until it can be checked.
    ///
    /// # Errors
    /// The client has tried too many.
    ///
    /// # Panics
    /// Never: checks go on for as long as this exists.
    pub async fn begin(&self, client: IpAddr) -> Result<Guess<'_>, TooManyGuesses> {
        let client = host_key(client);
        self.take(client, Instant::now())?;
        let check = self.checks.acquire().await.expect("nothing closes it");
        Ok(Guess { guesses: self, client, _check: check })
    }

    fn take(&self, client: IpAddr, now: Instant) -> Result<(), TooManyGuesses> {
        let mut all = self.until();
        let until = all.get(&client).copied().unwrap_or(now).max(now) + AGAIN;
        if until - now > AGAIN * AT_ONCE {
            return Err(TooManyGuesses);
        }
        if all.len() >= MOST && !all.contains_key(&client) {
            all.retain(|_, until| *until > now);
            if all.len() >= MOST
                && let Some(oldest) = all.iter().min_by_key(|(_, until)| **until)
            {
                let oldest = *oldest.0;
                all.remove(&oldest);
            }
        }
        all.insert(client, until);
        Ok(())
    }

    /// Clients that have tried wrong passwords lately, for another process.
    pub fn tried(&self) -> Vec<Tried> {
        let now = Instant::now();
        let all = self.until();
        let tried = all.iter().filter(|(_, until)| **until > now);
        tried
            .map(|(client, until)| Tried { client: *client, seconds: (*until - now).as_secs_f64() })
            .collect()
    }

    /// Adds clients that have tried wrong passwords at another process.
    pub fn add(&self, tried: Vec<Tried>) {
        let now = Instant::now();
        let mut all = self.until();
        for Tried { client, seconds } in tried.into_iter().take(MOST) {
            let most = (AGAIN * AT_ONCE).as_secs_f64();
            let left = Duration::from_secs_f64(if seconds.is_finite() {
                seconds.clamp(0.0, most)
            } else {
                most
            });
            all.insert(host_key(client), now + left);
        }
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn until(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guess<'_> {
    /// The password was right.
    pub fn was_right(self) {
        let mut all = self.guesses.until();
        if let Some(until) = all.get_mut(&self.client)
            && let Some(earlier) = until.checked_sub(AGAIN)
        {
            *until = earlier;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn tries_of_one_client_run_out_and_come_back() {
        let guesses = Guesses::default();
        for n in 0..AT_ONCE {
            assert!(guesses.begin(ip("192.0.2.1")).await.is_ok(), "{n}");
        }
        assert_eq!(guesses.begin(ip("192.0.2.1")).await.unwrap_err(), TooManyGuesses);
        assert_eq!(guesses.begin(ip("::ffff:192.0.2.1")).await.unwrap_err(), TooManyGuesses);
        assert!(guesses.begin(ip("192.0.2.2")).await.is_ok(), "others have their own");
        tokio::time::advance(AGAIN).await;
        assert!(guesses.begin(ip("192.0.2.1")).await.is_ok());
        assert!(guesses.begin(ip("192.0.2.1")).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn ipv6_host_shares_tries_and_success_costs_none() {
        let guesses = Guesses::default();
        for n in 0..AT_ONCE {
            assert!(guesses.begin(ip(&format!("2001:db8::{n:x}"))).await.is_ok());
        }
        assert!(guesses.begin(ip("2001:db8::ffff")).await.is_err());
        for _ in 0..3 * AT_ONCE {
            guesses.begin(ip("192.0.2.1")).await.unwrap().was_right();
        }
        assert!(guesses.begin(ip("192.0.2.1")).await.is_ok());
    }

    #[test]
    fn memory_is_bounded() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for n in 0..2 * MOST as u32 {
            guesses.take(std::net::Ipv4Addr::from(n).into(), now).unwrap();
        }
        assert_eq!(guesses.until().len(), MOST);
    }
}
