// SPDX-License-Identifier: GPL-2.0-or-later
//! Kept connections on which nothing gets through any more: a middlebox has forgotten them, or the peer has
//! gone without a word.

use relay::tcp::info;
use std::time::Duration;
use tokio::{net::TcpStream, time::sleep};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(100);
/// One timeout may be a lost packet. TCP's second comes after some three round trips, and after 0.6 s at
/// least, in which three copies of the request or of its end were lost.
const TIMEOUTS: u8 = 2;

/// Resolves once the peer has not acknowledged anything over that many of TCP's timeouts.
pub(crate) async fn silence(socket: &TcpStream) {
    loop {
        sleep(LOOK).await;
        if info::tcp_info(socket).is_ok_and(|info| info.timeouts >= TIMEOUTS) {
            return;
        }
    }
}
