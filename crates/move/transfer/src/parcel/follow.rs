// SPDX-License-Identifier: GPL-2.0-or-later
//! Files that grow while they are sent: `longhaul send --follow`.
//!
//! ```text
//! look: stat, rules ──▶ length ──▶ the session sends what is new        every 200 ms
//!        └─▶ a rule holds ──▶ all is sent ──▶ read and hashed again ──▶ FIN
//! ```
//! The note has no length and no date, so a receiver takes the length from FIN (docs/lsl.md, 11.6). What was sent and then
//! overwritten is noticed at the end only, when the whole is read again, before FIN: the receiver never takes it for the
//! file.

mod file;
mod rules;

pub(super) use file::Followed;
pub use rules::{Follow, Until, UntilError};
pub(super) use rules::{Name, Rules, Seen};

use super::threads::on_a_thread;
use crate::Error;
use session::{Session, Stored};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// How often a file is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How often it is asked whether everything is sent.
const LAST_BYTES: Duration = Duration::from_millis(20);

/// Keeps a session up with its file, and ends what is sent when the file is over. Waits forever then, or if no file is
/// followed.
pub(super) async fn keep_up(followed: Option<&Arc<Followed>>, session: &Session) -> Error {
    if let Some(followed) = followed
        && let Err(error) = to_the_end(followed, session).await
    {
        return error;
    }
    std::future::pending().await
}

async fn to_the_end(followed: &Arc<Followed>, session: &Session) -> Result<(), Error> {
    loop {
        let file = Arc::clone(followed);
        let is_over = on_a_thread(move || file.look()).await?;
        session.grown();
        if is_over {
            break;
        }
        sleep(LOOK).await;
    }
    if followed.compares() {
        let file = Arc::clone(followed);
        let found = on_a_thread(move || file.hash()).await?;
        if found != sent_hash(followed, session).await {
            let why = "what was sent was overwritten. Send it again without --follow".to_owned();
            return Err(followed.changed(why));
        }
    }
    session.end();
    Ok(())
}

/// The hash of all that was sent, once it is the whole file.
async fn sent_hash(followed: &Followed, session: &Session) -> [u8; 32] {
    // A connection that is lost takes it back to what has arrived.
    let is_all = || session.statistics().sent_bytes == followed.length();
    loop {
        if is_all() {
            let hash = session.sent_hash();
            if is_all() {
                return hash;
            }
        }
        sleep(LAST_BYTES).await;
    }
}
