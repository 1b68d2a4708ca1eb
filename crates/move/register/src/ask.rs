// SPDX-License-Identifier: GPL-2.0-or-later
//! Asks a depot for all announcements that it has heard.

use crate::known::Told;
use health::{BodyLimit, ask as ask_depot};
use protocol::{
    DepotAddress,
    announcement::{ANNOUNCEMENTS, MAX_ANNOUNCEMENTS_BODY},
};
use relay::tcp::{info::reset_on_close, socket_options::HopOptions};
use route::FirstHopDialer;
use std::time::Duration;
use tokio::time::timeout;

/// What a depot tells within this time.
///
/// # Errors
/// Why it tells nothing.
pub(crate) async fn ask(
    dialer: &FirstHopDialer,
    depot: &DepotAddress,
    time: Duration,
) -> Result<Told, String> {
    let asked = async {
        let connected = dialer.connect(depot, &HopOptions::default(), time).await;
        let mut stream = connected.map_err(|refusal| refusal.to_string())?;
        let host = depot.authority.without_port(depot.scheme.default_port());
        let question =
            format!("GET {ANNOUNCEMENTS} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let limit = BodyLimit { document: MAX_ANNOUNCEMENTS_BODY, padding: 0 };
        let answer = ask_depot(&mut stream, &question, limit).await;
        reset_on_close(stream.tcp(), answer.is_err());
        let answer = answer.map_err(|_| "it does not answer as a depot does".to_owned())?;
        if !answer.head.status.is_success() {
            return Err(format!("it answers {}", answer.head.status));
        }
        serde_json::from_slice(&answer.document).map_err(|error| error.to_string())
    };
    let late = |_| Err(format!("it does not answer within {} s", time.as_secs_f64()));
    timeout(time, asked).await.unwrap_or_else(late)
}
