// SPDX-License-Identifier: GPL-2.0-or-later
//! Users of the proxy and their hashed passwords, as `openssl passwd -6` makes them.
//!
//! ```text
//! ann:$6$3IxWzT9qKp0aVb1c$F5Z...       NAME:$6$[rounds=N$]SALT$HASH, SHA-512 crypt
//! ```
//! Checking a hash takes milliseconds, and clients send their password with each request. So the last clients of each user
//! with the right password are remembered until the file is read again, as a SHA-256 with a secret key of this process.
//!
//! Every check takes as long: a hash with fewer rounds than the file's most is followed by further rounds of a made-up
//! hash, so that all make the same number ([`Check`]). A name that is not in the file stands for one that is, chosen by
//! a keyed hash of the name, so that the lengths of salts tell nothing either.
//! Limits: passwords of up to 255 bytes, as the hash takes longer for long ones; at most 1 000 000 rounds.

use protocol::http::proxy::Credentials;
use relay::client_key::host_key;
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

/// The user whose password is a ticket.
pub(crate) const TICKET_USER: &str = "ticket";
/// The longest name and password, in bytes.
const LONGEST: usize = 255;
/// How many clients of a user are remembered.
const MOST_REMEMBERED: usize = 64;
/// More rounds would let each guess take seconds.
const MOST_ROUNDS: u32 = 1_000_000;
/// Fewer rounds than this are not possible (SHA-crypt specification).
const LEAST_ROUNDS: u32 = 1000;
/// The rounds of a hash that names none.
const USUAL_ROUNDS: u32 = 5000;
/// Characters of the hash itself.
const HASH_LENGTH: usize = 86;
/// The hash that an unknown name is checked against if the file has no users. It only has to take as long as others.
const DUMMY: &str = "$6$longhaul$ve1Pvk..CH977y11N8pJmCLHPIaoaCy3vJeKCV63wKaL9UhlPEtZfI8tAM1diBo4dGLOT35jsSh6t/B0f/q3O/";

/// All users.
#[derive(Default)]
pub(crate) struct Passwords {
    users: HashMap<String, User>,
    /// The names of the file in its order: others stand for one of them.
    names: Vec<String>,
    /// The most rounds of a hash of the file.
    most_rounds: u32,
    key: [u8; 32],
}

struct User {
    hash: String,
    rounds: u32,
    /// Clients with the password that was right, as [`Passwords::remembered`] has them; the latest last.
    right: Mutex<VecDeque<[u8; 32]>>,
}

/// What a check computes: rounds of `hash`, then as many more as make the sum the same for all names.
#[derive(Debug, PartialEq, Eq)]
struct Check<'p> {
    hash: &'p str,
    rounds: u32,
    more: u32,
}

impl Check<'_> {
    /// Whether the password is that of the hash.
    fn matches(&self, password: &[u8]) -> bool {
        let verifies = |hash: &str| ShaCrypt::default().verify_password(password, hash).is_ok();
        let matches = verifies(self.hash);
        let (salt, hash) = salt_and_hash(self.hash);
        // Of the same salt, as its length counts in each round.
        std::hint::black_box(verifies(&format!("$6$rounds={}${salt}${hash}", self.more)));
        matches
    }
}

/// The last two parts of a hash that [`check_hash`] has passed.
fn salt_and_hash(hash: &str) -> (&str, &str) {
    let (rest, last) = hash.rsplit_once('$').unwrap_or(("", hash));
    (rest.rsplit_once('$').map_or(rest, |(_, salt)| salt), last)
}

impl Passwords {
    /// Reads a file's text.
    ///
    /// # Errors
    /// In words, with the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut all = Self { key: random()?, ..Self::default() };
        for (n, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: &str| format!("line {}: {why}", n + 1);
            let (name, hash) = line.split_once(':').ok_or_else(|| {
                wrong("expected NAME:HASH, with a hash as `openssl passwd -6` prints it")
            })?;
            if name.is_empty() || name.len() > LONGEST || name.contains(char::is_control) {
                return Err(wrong("a name has 1 to 255 bytes and no control characters"));
            }
            if name == TICKET_USER {
                return Err(wrong("the name \"ticket\" is for tickets: choose another one"));
            }
            let rounds = check_hash(hash).map_err(|why| wrong(&why))?;
            let user = User { hash: hash.to_owned(), rounds, right: Mutex::default() };
            if all.users.insert(name.to_owned(), user).is_some() {
                return Err(wrong(&format!("the name {name:?} is there twice")));
            }
            all.names.push(name.to_owned());
            all.most_rounds = all.most_rounds.max(rounds);
        }
        Ok(all)
    }

    /// The number of users.
    pub(crate) fn len(&self) -> usize {
        self.users.len()
    }

    /// The hash that the file has for a user.
    pub(crate) fn hash(&self, user: &str) -> Option<&str> {
        self.users.get(user).map(|user| &*user.hash)
    }

    /// Whether this password was right before from this client. Others must not learn it: they could go on guessing a
    /// password that is in use when they have no tries left.
    pub(crate) fn was_right(&self, given: &Credentials, client: IpAddr) -> bool {
        let Some(user) = self.users.get(&given.user) else { return false };
        let remembered = self.remembered(client, &given.password);
        let right = user.right.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |right: &[u8; 32]| {
            right.iter().zip(remembered).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
        };
        right.iter().fold(false, |found, right| found | is_same(right))
    }

    /// Whether this password is right. It takes milliseconds of a processor, whatever the answer.
    pub(crate) fn is_right(&self, given: &Credentials, client: IpAddr) -> bool {
        if given.password.len() > LONGEST {
            return false;
        }
        let matches = self.check(&given.user).matches(&given.password);
        let user = self.users.get(&given.user);
        let Some(user) = user.filter(|_| matches) else { return false };
        let remembered = self.remembered(client, &given.password);
        let mut right = user.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.retain(|other| *other != remembered);
        right.push_back(remembered);
        if right.len() > MOST_REMEMBERED {
            right.pop_front();
        }
        true
    }

    /// What to compute for a name, whether or not it is in the file.
    fn check(&self, name: &str) -> Check<'_> {
        let user = self.users.get(name).or_else(|| self.users.get(self.stand_in(name)?));
        let (hash, rounds) = user.map_or((DUMMY, USUAL_ROUNDS), |user| (&*user.hash, user.rounds));
        let more = self.most_rounds.max(rounds) - rounds + LEAST_ROUNDS;
        Check { hash, rounds, more }
    }

    /// The name of the file that another name stands for: always the same until the file is read again.
    fn stand_in(&self, name: &str) -> Option<&String> {
        let chosen = self.keyed(&[name.as_bytes()]);
        let number = chosen.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let place = number.checked_rem(self.names.len() as u64)?;
        self.names.get(usize::try_from(place).ok()?)
    }

    fn remembered(&self, client: IpAddr, password: &[u8]) -> [u8; 32] {
        let client = match host_key(client) {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        // Key and address have a fixed length, so no two triples with the password are the same bytes.
        self.keyed(&[&client.octets(), password])
    }

    fn keyed(&self, parts: &[&[u8]]) -> [u8; 32] {
        let hash = Sha256::new().chain_update(self.key);
        parts.iter().fold(hash, Digest::chain_update).finalize().into()
    }
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passwords").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

/// The rounds of a hash that is well formed.
fn check_hash(hash: &str) -> Result<u32, String> {
    let form = || {
        "the password's hash is not SHA-512 crypt ($6$SALT$HASH): make it with `openssl passwd -6`"
            .to_owned()
    };
    let rest = hash.strip_prefix("$6$").ok_or_else(form)?;
    let (rounds, rest) = match rest.strip_prefix("rounds=") {
        None => (USUAL_ROUNDS, rest),
        Some(rest) => {
            let (rounds, rest) = rest.split_once('$').ok_or_else(form)?;
            let rounds: u32 = rounds.parse().map_err(|_| form())?;
            if !(LEAST_ROUNDS..=MOST_ROUNDS).contains(&rounds) {
                return Err(format!("rounds={rounds}: expected {LEAST_ROUNDS} to {MOST_ROUNDS}"));
            }
            (rounds, rest)
        }
    };
    let (salt, hash) = rest.split_once('$').ok_or_else(form)?;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"./".contains(&b));
    let is_hash = hash.len() == HASH_LENGTH && plain(hash);
    let is_salt = (1..=16).contains(&salt.len()) && plain(salt);
    if is_salt && is_hash { Ok(rounds) } else { Err(form()) }
}

fn random() -> Result<[u8; 32], String> {
    host::random().map_err(|error| format!("no random bytes: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// By `openssl passwd -6 -salt longhaulsalt secret`.
    const SECRET: &str = "$6$longhaulsalt$lgVWM.bjH0A4hmIiKNDkAmuJ9OlixNMdPHAgn8USTSJgpeLHbbCleY1f7aDgH14.3wmCVV0.vxMl7Ru4N2.ZF0";

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn given(user: &str, password: &str) -> Credentials {
        Credentials { user: user.to_owned(), password: password.into() }
    }

    #[test]
    fn only_right_password_is_cached() {
        let all = Passwords::parse(&format!("# users\n\nann:{SECRET}\r\nbob:{SECRET}\n")).unwrap();
        assert_eq!(all.len(), 2);
        for (user, password, right) in [
            ("ann", "secret", true),
            ("ann", "Secret", false),
            ("ann", "", false),
            ("eve", "secret", false),
            ("", "secret", false),
            ("ann", &"secret".repeat(100), false),
        ] {
            assert!(!all.was_right(&given(user, password), HERE), "{user}:{password}");
            assert_eq!(all.is_right(&given(user, password), HERE), right, "{user}:{password}");
        }
        assert!(all.was_right(&given("ann", "secret"), HERE));
        assert!(!all.was_right(&given("bob", "secret"), HERE), "another user's is not remembered");
        assert!(!all.was_right(&given("ann", "secre"), HERE));
        let empty = Passwords::default();
        assert!(!empty.is_right(&given("ann", "secret"), HERE));
    }

    #[test]
    fn right_password_is_cached_for_its_client_alone() {
        let all = Passwords::parse(&format!("ann:{SECRET}")).unwrap();
        let (ann, other) = (given("ann", "secret"), IpAddr::from([192, 0, 2, 2]));
        assert!(all.is_right(&ann, HERE));
        assert!(!all.was_right(&ann, other));
        assert!(all.was_right(&ann, "::ffff:192.0.2.1".parse().unwrap()), "the same client");
        let right = |all: &Passwords| all.users["ann"].right.lock().unwrap().len();
        assert!(all.is_right(&ann, HERE));
        assert_eq!(right(&all), 1, "a client is remembered once");
        for n in 0..=u8::try_from(MOST_REMEMBERED).unwrap() {
            assert!(all.is_right(&ann, IpAddr::from([198, 51, 100, n])));
        }
        assert_eq!(right(&all), MOST_REMEMBERED);
        assert!(!all.was_right(&ann, HERE), "the first of too many is forgotten");
    }

    #[test]
    fn dummy_hash_is_well_formed() {
        assert_eq!(check_hash(DUMMY), Ok(USUAL_ROUNDS));
    }

    #[test]
    fn every_name_takes_the_same_rounds() {
        let (_, hash) = salt_and_hash(SECRET);
        let with = |rounds, salt| format!("$6$rounds={rounds}${salt}${hash}");
        let [few, many] = [with(LEAST_ROUNDS, "a"), with(40_000, "aaaaaaaaaaaaaaaa")];
        let all = Passwords::parse(&format!("few:{few}\nusual:{SECRET}\nmany:{many}\n")).unwrap();
        let sum = |check: &Check<'_>| check.rounds + check.more;
        for (name, hash) in [("few", &*few), ("usual", SECRET), ("many", &*many)] {
            let check = all.check(name);
            assert_eq!((check.hash, sum(&check)), (hash, 41_000), "{name}");
            // The password is checked against the file's hash alone.
            assert!(check.more >= LEAST_ROUNDS, "{name}");
        }
        let strangers: Vec<_> = (0..300).map(|n| format!("stranger {n}")).collect();
        for hash in [&*few, SECRET, &*many] {
            let alike = strangers.iter().filter(|name| all.check(name).hash == hash).count();
            assert!((50..150).contains(&alike), "{hash}: {alike} of 300");
        }
        for name in &strangers {
            assert_eq!(sum(&all.check(name)), 41_000, "{name}");
            assert_eq!(all.check(name), all.check(name), "{name}: the same each time");
        }
        let none = Passwords::default();
        assert_eq!(none.check("ann").rounds, USUAL_ROUNDS);
    }

    #[test]
    fn malformed_password_lines_are_named() {
        for (line, part) in [
            ("ann", "NAME:HASH"),
            (":x", "a name has"),
            ("a\u{1}:x", "a name has"),
            ("ann:secret", "openssl passwd -6"),
            ("ann:$1$salt$abcdefgh", "SHA-512"),
            ("ann:$6$salt$short", "SHA-512"),
            ("ann:$6$rounds=999$salt$x", "rounds=999"),
            ("ann:$6$rounds=999999999$salt$x", "1000 to 1000000"),
            (&format!("ticket:{SECRET}"), "for tickets"),
            (&format!("bob:{SECRET}"), "twice"),
        ] {
            let error = Passwords::parse(&format!("bob:{SECRET}\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(part), "{line}: {error}");
        }
    }
}
