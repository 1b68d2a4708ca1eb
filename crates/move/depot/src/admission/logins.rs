// SPDX-License-Identifier: GPL-2.0-or-later
//! Users of the proxy: their passwords, and whether a transfer's user still has the same one.

use crate::{
    admission::{passwords::Passwords, trust},
    config::Proxy,
    observe::{UsedLogin, status::Reload},
};
use host::{FileError, ReloadingFile, SettingFile};
use http::StatusCode;
use protocol::http::{Fault, ProxyError, proxy::Credentials};
use relay::guesses::{Guesses, TooManyGuesses};
use sha2::{Digest, Sha256};
use std::{net::IpAddr, sync::Arc};

/// Users of the proxy, if there are any.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    passwords: Option<ReloadingFile<Passwords>>,
}

impl Logins {
    /// Reads the file that `[proxy]` names.
    pub(crate) fn new(proxy: Option<&Proxy>) -> Result<Self, FileError> {
        let Some(file) = proxy.and_then(|proxy| proxy.passwords.as_ref()) else {
            return Ok(Self::default());
        };
        let made = ReloadingFile::new(
            "passwords",
            vec![SettingFile::new("proxy.passwords", file)],
            |files| trust::read(files, Passwords::parse),
            |all| all.len().to_string(),
        );
        // An operator who removes the file wants to lock all users out.
        Ok(Self { passwords: Some(made?.or_else_gone(Passwords::default)) })
    }

    /// Reads the file again if it has changed.
    pub(crate) fn refresh(&self) {
        self.passwords.iter().for_each(ReloadingFile::refresh);
    }

    /// How it went when it was read last.
    pub(crate) fn reloads(&self) -> impl Iterator<Item = Reload> {
        self.passwords.iter().map(ReloadingFile::last_read).map(Reload::of)
    }

    /// The user with this password.
    ///
    /// # Errors
    /// There is none (407), or the client has tried too many (429).
    pub(crate) async fn check(
        &self,
        given: Credentials,
        client: IpAddr,
        guesses: &Guesses,
    ) -> Result<UsedLogin, Fault> {
        let passwords = self.passwords.as_ref().ok_or_else(wants_password)?.get();
        if !passwords.was_right(&given, client) {
            let guess = guesses.begin(client).await.map_err(too_many)?;
            let (all, tried) = (Arc::clone(&passwords), given.clone());
            let checked = tokio::task::spawn_blocking(move || all.is_right(&tried, client)).await;
            match checked {
                Ok(true) => guess.was_right(),
                Ok(false) => return Err(wants("the user or the password is wrong")),
                Err(error) => {
                    return Err(Fault::internal(format!("cannot check a password: {error}")));
                }
            }
        }
        let mark = passwords.hash(&given.user).map(mark).ok_or_else(wants_password)?;
        Ok(UsedLogin { user: given.user, mark })
    }

    /// Whether this user still has the same password.
    pub(crate) fn still_takes(&self, login: &UsedLogin) -> bool {
        let hash = |all: Arc<Passwords>| all.hash(&login.user).map(mark);
        self.passwords.as_ref().and_then(|all| hash(all.get())) == Some(login.mark)
    }
}

/// What tells one password of a user from another.
fn mark(hash: &str) -> [u8; 32] {
    Sha256::digest(hash).into()
}

/// The fault for a client without valid credentials (407).
pub(crate) fn wants_password() -> Fault {
    wants("this proxy wants a user and a password, or the user \"ticket\" and a ticket")
}

fn wants(reason: &str) -> Fault {
    let (status, error) =
        (StatusCode::PROXY_AUTHENTICATION_REQUIRED, ProxyError::HttpRequestDenied);
    Fault::new(status, error, reason)
}

fn too_many(error: TooManyGuesses) -> Fault {
    let (status, reason) = (StatusCode::TOO_MANY_REQUESTS, error.to_string());
    Fault::new(status, ProxyError::HttpRequestDenied, reason)
}
