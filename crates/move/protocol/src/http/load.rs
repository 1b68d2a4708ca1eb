// SPDX-License-Identifier: GPL-2.0-or-later
//! Request of depots and redirectors to a depot: how full it is.

use super::{Connection, Method, RequestHead, own_answer};
use serde::{Deserialize, Serialize};

/// Path of the request.
pub const LOAD: &str = "/lh1/load";
/// The maximum length of the answer's body, in bytes.
pub const MAX_LOAD_BODY: usize = 4 << 10;

/// Whether a request asks how full this depot is.
pub fn asks_load(request: &RequestHead) -> bool {
    request.target == LOAD && matches!(request.method, Method::Get | Method::Head)
}

/// How full a depot is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Connections of clients.
    pub connections: usize,
    /// How many it takes.
    pub connections_limit: usize,
    /// Whether it takes no more, because it stops.
    pub leaving: bool,
    /// Transfers under way.
    #[serde(default)]
    pub transfers: usize,
    /// What they move together, in both directions, over the last second: bit/s.
    #[serde(default)]
    pub rate_bps: u64,
    /// The highest such rate of late, in bit/s: half of it counts 10 minutes later. 0 of a depot that does not tell.
    #[serde(default)]
    pub highest_rate_bps: u64,
}

impl Load {
    /// From 0, empty, to 1, full.
    pub fn share(self) -> f64 {
        self.connections as f64 / self.connections_limit.max(1) as f64
    }

    /// As an answer.
    pub fn answer(self, method: Method, connection: Connection) -> Vec<u8> {
        let text = serde_json::to_string(&self).expect("numbers are JSON");
        own_answer("application/json", &(text + "\n"), method, connection)
    }
}
