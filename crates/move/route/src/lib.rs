// SPDX-License-Identifier: GPL-2.0-or-later
//! Routes: which destinations are reached through which depots, and in which order routes are tried.
//!
//! ```toml
//! [[route]]
//! to = ["*.example.org", "10.0.0.0/8", "*:5432"]
//! via = ["d1.example.com", "https:d2.example.org"]
//! ```
//! The routes of which `to` names the destination are alternatives, in the order in which they are written. `via` lists a
//! route's depots, the nearest first. A rule without depots ends the list: directly. `*` is every destination but this
//! machine. On a command line, `--via d1,d2` is one route, and each further `--via` the next alternative.
//!
//! ```text
//! destination  where somebody wants to connect, and patterns for it
//! table        the rules of a file
//! chain        the depots of a route, as text
//! standing     what is known of depots: failed lately, down
//! choice       the order in which routes are tried
//! auto         the order by forecasts, from earlier transfers and what depots tell
//! dial         connections to first depots
//! send_options congestion control, pacing and connections of the first hop
//! peer         hosts and ports as addresses to connect to
//! short_rule   destinations that are reached directly since their connections are short
//! ```

mod auto;
mod chain;
mod choice;
mod destination;
mod dial;
mod peer;
mod send_options;
mod short_rule;
mod standing;
mod table;

pub use auto::{Auto, AutoSettings, Found, PROBE_TIME, read_key};
pub use chain::{ChainTextError, read_chain};
pub use choice::{AsWritten, Attempt, AttemptEnd, Chooser, Floor, MOST_LEFT, Plan, Prepared};
pub use destination::{Destination, Match, MatchError};
pub use dial::FirstHopDialer;
pub use overlay::{Assessed, Basis, Candidate, Claim, Decision, Memory, Why};
pub use peer::{authority_of, depot_peer, server_peer};
pub use send_options::{SendOptions, SendOptionsTextError};
pub use short_rule::{FirstContact, ShortRule};
pub use standing::{Standing, Standings};
pub use table::{Matching, Route, RouteTable, Rule};
