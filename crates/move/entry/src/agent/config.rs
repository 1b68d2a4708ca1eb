// SPDX-License-Identifier: GPL-2.0-or-later
//! The agent's settings.

use host::settings_file::{self, ConfigError};
use relay::guesses::{Guesses, TooManyGuesses};
use route::{FirstContact, RouteTable, Rule};
use serde::Deserialize;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

/// What the agent is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who may use it. Everybody, if it listens on loopback.
    pub login: Option<Login>,
    /// Which destinations go through which depots.
    pub routes: RouteTable,
    /// Whether connections fail when all their routes do. Otherwise they are made directly then.
    pub strict: bool,
    /// How long one route may take.
    pub connect_timeout: Duration,
    /// Certificates (PEM) of further authorities to trust for depots over TLS.
    pub ca: Option<PathBuf>,
}

/// A name and its password.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// At most 255 bytes.
    pub user: String,
    /// At most 255 bytes.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    /// Whether a client shows this one.
    ///
    /// # Errors
    /// It has tried too many wrong passwords.
    pub(super) async fn is_shown(
        &self,
        (guesses, client): (&Guesses, IpAddr),
        (user, password): (&[u8], &[u8]),
    ) -> Result<bool, TooManyGuesses> {
        // A program of this machine has 16 million addresses there.
        let is_here = client.to_canonical().is_loopback();
        let client = if is_here { Ipv4Addr::LOCALHOST.into() } else { client };
        let guess = guesses.begin(client).await?;
        let is_right = self.is(user, password);
        if is_right {
            guess.was_right();
        }
        Ok(is_right)
    }

    /// Whether it is this one, in a time that does not tell how much of it is.
    fn is(&self, user: &[u8], password: &[u8]) -> bool {
        let same = |a: &[u8], b: &[u8]| {
            a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
        };
        same(self.user.as_bytes(), user) & same(self.password.as_bytes(), password)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default = "default_listen")]
    listen: SocketAddr,
    login: Option<Login>,
    #[serde(default)]
    route: Vec<Rule>,
    direct_below: Option<units::Bytes>,
    #[serde(default)]
    first_contact: FirstContact,
    #[serde(default)]
    strict: bool,
    connect_timeout: Option<units::Duration>,
    ca: Option<PathBuf>,
}

fn default_listen() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, Config::PORT).into()
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: default_listen(),
            login: None,
            routes: RouteTable::default(),
            strict: false,
            connect_timeout: Duration::from_secs(10),
            ca: None,
        }
    }
}

impl Config {
    /// The port if none is said.
    pub const PORT: u16 = 3885;

    /// Reads a file.
    ///
    /// # Errors
    /// The text names the file, and the line if one line is wrong.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        settings_file::read(file, |document| {
            let Document {
                listen,
                login,
                route,
                direct_below,
                first_contact,
                strict,
                connect_timeout,
                ca,
            } = document;
            let routes = RouteTable::new(route).directly_below(direct_below, first_contact);
            let connect_timeout =
                connect_timeout.map_or(Self::default().connect_timeout, Into::into);
            let config = Self { listen, login, routes, strict, connect_timeout, ca };
            config.check()?;
            Ok(config)
        })
    }

    /// What is wrong with them as a whole, if anything.
    ///
    /// # Errors
    /// In words for the user.
    pub fn check(&self) -> Result<(), String> {
        self.routes.check()?;
        if !self.listen.ip().is_loopback() && self.login.is_none() {
            return Err(format!(
                "{} can be reached from elsewhere: give `login = {{ user = \"...\", password = \"...\" }}`, or listen on loopback",
                self.listen
            ));
        }
        let fits = |text: &str| (1..=255).contains(&text.len()) && !text.contains(':');
        if self.login.as_ref().is_some_and(|login| {
            !fits(&login.user) || login.password.is_empty() || login.password.len() > 255
        }) {
            return Err(
                "`login`: user and password have 1 to 255 bytes, and the user no colon".to_owned()
            );
        }
        Ok(())
    }
}
