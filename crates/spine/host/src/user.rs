// SPDX-License-Identifier: GPL-2.0-or-later
//! The user that a process runs as: its name for messages, and how a process of root's becomes that user.
//!
//! Names come from the host's user database (`getpwuid_r(3)`, `getpwnam_r(3)`), so those that systemd gives to units
//! with `DynamicUser=` are known while the unit runs.

use crate::sys;
use rustix::process::{geteuid, getuid};
use std::{fmt, io};

/// A user of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name; `None` if the user database has none for this number.
    name: Option<String>,
    uid: u32,
    gid: u32,
}

/// Why this process cannot become a user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// Neither a name of the user database nor a number.
    #[error(
        "this host has no user \"{0}\": name one of `getent passwd`, or give a number (a unit with DynamicUser=yes \
         has its user only while it runs)"
    )]
    Unknown(String),
    /// The process is not root's.
    #[error("only root can act as {wanted}, and this is {current}: run it by sudo -u, or as root")]
    NotRoot {
        /// The user that was asked for.
        wanted: User,
        /// The user that the process runs as.
        current: User,
    },
    /// The kernel refuses.
    #[error("cannot act as {wanted}: {error}")]
    Refused {
        /// The user that was asked for.
        wanted: User,
        /// What the system said.
        error: io::Error,
    },
}

impl User {
    /// The user whose rights this process has (the effective one).
    pub fn current() -> Self {
        let uid = geteuid().as_raw();
        match sys::user_with_uid(uid) {
            Some((name, gid)) => Self { name: Some(name), uid, gid },
            None => Self { name: None, uid, gid: rustix::process::getegid().as_raw() },
        }
    }

    /// The user of this name or number. A number that the user database does not know is also its own group.
    ///
    /// # Errors
    /// There is no such user.
    pub fn find(text: &str) -> Result<Self, UserError> {
        if let Some((uid, gid)) = sys::user_with_name(text) {
            return Ok(Self { name: Some(text.to_owned()), uid, gid });
        }
        // The largest number stands for "no change" in the system calls.
        let uid = text.parse().ok().filter(|uid| *uid != u32::MAX);
        let uid = uid.ok_or_else(|| UserError::Unknown(text.to_owned()))?;
        Ok(match sys::user_with_uid(uid) {
            Some((name, gid)) => Self { name: Some(name), uid, gid },
            None => Self { name: None, uid, gid: uid },
        })
    }

    /// Whether this is root.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Gives this process the user's rights and groups for good, and none of root's. Threads that run get them too.
    ///
    /// # Errors
    /// The process is not root's, or the kernel refuses.
    pub fn assume(&self) -> Result<(), UserError> {
        let current = Self::current();
        if current.uid == self.uid && getuid().as_raw() == self.uid {
            return Ok(());
        }
        if !current.is_root() {
            return Err(UserError::NotRoot { wanted: self.clone(), current });
        }
        let assumed = sys::become_user(self.name.as_deref(), self.uid, self.gid);
        assumed.map_err(|error| UserError::Refused { wanted: self.clone(), error })
    }
}

impl fmt::Display for User {
    /// `user longhaul (uid 999)`, or `user 999` if it has no name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "user {name} (uid {})", self.uid),
            None => write!(f, "user {}", self.uid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = User { name: Some("root".to_owned()), uid: 0, gid: 0 };
        assert_eq!(User::find("root").unwrap(), root);
        assert_eq!(User::find("0").unwrap(), root);
        assert_eq!(root.to_string(), "user root (uid 0)");
        let nameless = User::find("2000000123").unwrap();
        assert_eq!(nameless.to_string(), "user 2000000123");
        for text in ["no-such-user", "-1", "4294967295", "", "a\0b"] {
            let error = User::find(text).unwrap_err().to_string();
            assert!(error.contains("getent passwd"), "{text:?}: {error}");
        }
    }
}
