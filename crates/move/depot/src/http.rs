// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP between clients and next hops.
//!
//! ```text
//! connection      one client: request after request
//!   message         what it sends first: a request, a session, or a connection that joins
//!   hold            connections that the depot before this one wants held open
//!   receipt         what limited a transfer, for those who ask for it afterwards
//!   plan            what to do with a request, if the rules or a ticket allow it
//!   fetch           a request that goes on: its exchange, and then its client, log and connections
//!     exchange        it passed on and its response passed back
//!       question        a depot's own short questions to another one
//!       attempt         the exchange with one connection
//!         body            HTTP's framing of what `relay` copies
//!         digest_check    digests made and compared as a body passes
//!         interims        1xx responses
//!         striping        a response over several connections
//!         silent_hop      kept connections on which nothing gets through
//!         slow_client     clients below the minimum rate
//!         stalled_hop     next hops below theirs
//! ```

pub(crate) mod attempt;
pub(crate) mod body;
mod client_watch;
pub(crate) mod connection;
pub(crate) mod digest_check;
pub(crate) mod exchange;
mod fetch;
pub(crate) mod head;
mod hold;
pub(crate) mod interims;
mod message;
pub(crate) mod no_answer;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod question;
mod receipt;
pub(crate) mod refused;
pub(crate) mod silent_hop;
mod slow_client;
mod stalled_hop;
pub(crate) mod stripe_enter;
pub(crate) mod stripe_join;
pub(crate) mod striping;
