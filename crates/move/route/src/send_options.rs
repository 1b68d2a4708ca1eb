// SPDX-License-Identifier: GPL-2.0-or-later
//! How this host sends on the first hop of a route.

use host::sysctl;
use overlay::Hop;
use protocol::session::Congestion;
use std::{fmt, str::FromStr};

/// Connections of the alternative with several.
const SEVERAL: u8 = 4;
/// The most congestion controls that are tried apart from the system's.
const MOST_CONTROLS: usize = 2;
/// Congestion controls that pace and that keep their rate when few packets are lost.
const BEAR_LOSS: [&str; 2] = ["bbr", "lh_bbr"];
/// Never an alternative: at best as fast as the others on long paths.
const LEFT_OUT: [&str; 1] = ["reno"];
/// The word for pacing in [`Display`](fmt::Display).
const PACED: &str = "paced";
/// The same for several connections, behind their number.
const CONNECTIONS: &str = " connections";

/// How this host sends on the first hop of a route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Congestion control. `None`: the system's, or the route's.
    pub congestion: Option<Congestion>,
    /// Whether TCP paces what it sends. Some congestion controls always do.
    pub paced: bool,
    /// Parallel connections. `None`: as many as the program usually has.
    pub connections: Option<u8>,
}

/// As the system sends.
pub(crate) static USUAL: SendOptions =
    SendOptions { congestion: None, paced: false, connections: None };

impl SendOptions {
    /// The alternatives to how the system sends: the congestion controls that its administrator allows to all users
    /// (`net.ipv4.tcp_allowed_congestion_control`), pacing, and four connections.
    pub fn alternatives() -> Vec<Self> {
        let read = |name: &str| sysctl::read(&format!("net.ipv4.{name}")).unwrap_or_default();
        let usual = read("tcp_congestion_control");
        alternatives(&usual, &read("tcp_allowed_congestion_control"))
    }

    /// Whether it is how the system sends.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Applies it to the first hop of a candidate.
    pub(crate) fn apply(&self, hop: &mut Hop) {
        hop.connections = self.connections.unwrap_or(1);
        hop.bears_loss = self.congestion.as_ref().is_some_and(|name| bears_loss(name.as_str()));
    }
}

fn bears_loss(control: &str) -> bool {
    BEAR_LOSS.contains(&control)
}

fn alternatives(usual: &str, allowed: &str) -> Vec<SendOptions> {
    let is_other = |name: &&str| *name != usual && !LEFT_OUT.contains(name);
    let mut others: Vec<&str> = allowed.split_whitespace().filter(is_other).collect();
    others.sort_by_key(|name| !bears_loss(name));
    let by = |name: &str| {
        Some(SendOptions { congestion: Some(name.parse().ok()?), ..SendOptions::default() })
    };
    let mut all: Vec<SendOptions> = others.into_iter().filter_map(by).take(MOST_CONTROLS).collect();
    if !bears_loss(usual) {
        all.push(SendOptions { paced: true, ..SendOptions::default() });
    }
    all.push(SendOptions { connections: Some(SEVERAL), ..SendOptions::default() });
    all
}

/// Its parts, separated by commas; nothing for how the system sends.
impl fmt::Display for SendOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let congestion = self.congestion.as_ref().map(|name| name.as_str().to_owned());
        let paced = self.paced.then(|| PACED.to_owned());
        let connections = self.connections.map(|number| format!("{number}{CONNECTIONS}"));
        let parts: Vec<String> = [congestion, paced, connections].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

/// A text that says nothing of how to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a congestion control, \"paced\" and a number of connections, separated by commas"
)]
pub struct SendOptionsTextError;

impl FromStr for SendOptions {
    type Err = SendOptionsTextError;

    fn from_str(text: &str) -> Result<Self, SendOptionsTextError> {
        let mut send_options = Self::default();
        for part in text.split(", ").filter(|part| !part.is_empty()) {
            if part == PACED {
                send_options.paced = true;
            } else if let Some(number) = part.strip_suffix(CONNECTIONS) {
                send_options.connections = Some(number.parse().map_err(|_| SendOptionsTextError)?);
            } else {
                send_options.congestion = Some(part.parse().map_err(|_| SendOptionsTextError)?);
            }
        }
        Ok(send_options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(usual: &str, allowed: &str) -> Vec<String> {
        alternatives(usual, allowed).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_administrator_allows_is_tried() {
        assert_eq!(texts("cubic", "reno cubic"), ["paced", "4 connections"]);
        assert_eq!(texts("cubic", "reno cubic bbr"), ["bbr", "paced", "4 connections"]);
        assert_eq!(texts("bbr", "reno cubic bbr"), ["cubic", "4 connections"]);
        let many = "lh_scalable lh_htcp cubic lh_bbr";
        assert_eq!(texts("cubic", many), ["lh_bbr", "lh_scalable", "paced", "4 connections"]);
        assert_eq!(texts("", ""), ["paced", "4 connections"]);
        assert_eq!(texts("cubic", "NO-NAME cubic"), ["paced", "4 connections"]);
        assert!(!SendOptions::alternatives().is_empty());
    }

    #[test]
    fn text_gives_the_same_sending() {
        let all = SendOptions {
            congestion: Some("bbr".parse().unwrap()),
            paced: true,
            connections: Some(4),
        };
        assert_eq!(all.to_string(), "bbr, paced, 4 connections");
        for send_options in
            [all, SendOptions::default()].iter().chain(&alternatives("cubic", "lh_htcp"))
        {
            assert_eq!(send_options.to_string().parse().as_ref(), Ok(send_options));
        }
        assert!(SendOptions::default().is_usual() && "".parse::<SendOptions>().unwrap().is_usual());
        for wrong in ["x connections", "NO NAME", "a;b"] {
            assert_eq!(wrong.parse::<SendOptions>(), Err(SendOptionsTextError), "{wrong}");
        }
    }
}
