// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests all announcements that a depot has.

use crate::announcement_set::AnnouncementList;
use health::{BodyLimit, ask};
use protocol::{
    DepotAddress,
    announcement::{ANNOUNCEMENTS, MAX_ANNOUNCEMENTS_BODY},
};
use relay::tcp::{info::reset_on_close, socket_options::HopOptions};
use route::FirstHopDialer;
use std::time::Duration;
use tokio::time::timeout;

/// The announcements that a depot has. `time` limits connection and response together.
///
/// # Errors
/// Why there is no response.
pub(crate) async fn query(
    dialer: &FirstHopDialer,
    depot: &DepotAddress,
    time: Duration,
) -> Result<AnnouncementList, String> {
    let response = async {
        let connected = dialer.connect(depot, &HopOptions::default(), time).await;
        let mut stream = connected.map_err(|refusal| refusal.to_string())?;
        let host = depot.authority.without_port(depot.scheme.default_port());
        let question =
            format!("GET {ANNOUNCEMENTS} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let limit = BodyLimit { document: MAX_ANNOUNCEMENTS_BODY, padding: 0 };
        let answer = ask(&mut stream, &question, limit).await;
        reset_on_close(stream.tcp(), answer.is_err());
        let answer = answer.map_err(|_| "it does not respond as a depot does".to_owned())?;
        if !answer.head.status.is_success() {
            return Err(format!("it responds with {}", answer.head.status));
        }
        serde_json::from_slice(&answer.document).map_err(|error| error.to_string())
    };
    let late = |_| Err(format!("it does not respond within {} s", time.as_secs_f64()));
    timeout(time, response).await.unwrap_or_else(late)
}
