// SPDX-License-Identifier: GPL-2.0-or-later
//! Policy routing that leads marked packets to this host: a rule and a table with one route, for each version of IP.
//!
//! The kernel keeps both when their process ends. So a guard, a process of its own, waits for the end of the interceptor
//! and removes them, also after kill -9. Left alone they have no effect: only the nftables table, which goes with the
//! interceptor, marks packets.

use super::ruleset::MARK;
use crate::sys;
use host::{IprouteError, iproute};
use rustix::process::setsid;
use serde::Deserialize;
use std::{
    env,
    io::{self, ErrorKind, Read},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Number of the routing table, and the rule's priority: after that of local addresses, before all others' usual ones.
const ROUTES: &str = "19528";
const PRIORITY: &str = "900";
/// How long the guard of an earlier interceptor may take.
const OTHER_GUARD: Duration = Duration::from_secs(1);

/// Policy routing, for as long as this lives.
#[derive(Debug)]
pub(super) struct Steering {
    versions: &'static [&'static str],
    guard: Child,
}

impl Steering {
    /// Removes leftovers of an earlier one, starts a guard, and sets it up.
    pub(super) fn set_up(v6: bool) -> Result<Self, IprouteError> {
        let versions: &[&str] = if v6 { &["-4", "-6"] } else { &["-4"] };
        await_other_guard();
        remove();
        let guard = start_guard().map_err(|error| IprouteError::Start {
            command: "longhaul intercept guard".to_owned(),
            error,
        })?;
        let steering = Self { versions, guard };
        for version in versions {
            add(version)?;
        }
        Ok(steering)
    }

    /// Sets up again what another program has removed. Answers whether anything was missing.
    pub(super) fn restore(&self) -> Result<bool, IprouteError> {
        let mut is_missing = false;
        for version in self.versions {
            if !is_there(version)? {
                is_missing = true;
                remove_version(version);
                add(version)?;
            }
        }
        Ok(is_missing)
    }

    /// The commands that set it up, for people to read.
    pub(super) fn text() -> String {
        let both = ["-4", "-6"].into_iter();
        let commands = both.flat_map(|version| [rule(version, "add"), route(version, "add")]);
        let lines: Vec<_> = commands.map(|words| format!("# ip {}\n", words.join(" "))).collect();
        lines.concat()
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        remove();
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn rule<'a>(version: &'a str, verb: &'a str) -> [&'a str; 9] {
    [version, "rule", verb, "pref", PRIORITY, "fwmark", MARK, "lookup", ROUTES]
}

fn route<'a>(version: &'a str, verb: &'a str) -> [&'a str; 9] {
    [version, "route", verb, "local", "default", "dev", "lo", "table", ROUTES]
}

fn add(version: &str) -> Result<(), IprouteError> {
    iproute::ip(&route(version, "replace"))?;
    iproute::ip(&rule(version, "add")).map(drop)
}

#[derive(Deserialize)]
struct Shown {}

fn is_there(version: &str) -> Result<bool, IprouteError> {
    let rules = iproute::ip_json::<Shown>(&[version, "rule", "show", "pref", PRIORITY])?;
    Ok(!rules.is_empty() && has_routes(version))
}

/// Some versions of ip say of a table without routes that it does not exist.
fn has_routes(version: &str) -> bool {
    let routes = iproute::ip_json::<Shown>(&[version, "route", "show", "table", ROUTES]);
    routes.is_ok_and(|routes| !routes.is_empty())
}

/// Waits for the guard of an interceptor that was killed just now. It removes routes last.
fn await_other_guard() {
    let since = Instant::now();
    while ["-4", "-6"].into_iter().any(has_routes) && since.elapsed() < OTHER_GUARD {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Removes whatever there is.
pub fn remove() {
    for version in ["-4", "-6"] {
        remove_version(version);
    }
}

fn remove_version(version: &str) {
    // The same rule may be there several times; after the last one the command fails.
    while iproute::ip(&rule(version, "del")).is_ok() {}
    let _ = iproute::ip(&route(version, "del"));
}

fn start_guard() -> io::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["intercept", "guard"]).stdin(Stdio::piped()).stdout(Stdio::null());
    // Signals of a terminal are for the interceptor alone.
    sys::before_exec(&mut command, || Ok(setsid().map(drop)?));
    command.spawn()
}

/// Waits for the end of standard input, which the interceptor holds, and removes the policy routing. A service manager
/// ends all processes of a service at once; the guard goes last.
///
/// # Errors
/// Signals cannot be ignored.
pub fn guard() -> io::Result<()> {
    let _signals = host::stop_socket()?;
    let mut nothing = [0; 64];
    loop {
        match io::stdin().read(&mut nothing) {
            Ok(0) => break,
            Err(error) if error.kind() != ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    remove();
    Ok(())
}
