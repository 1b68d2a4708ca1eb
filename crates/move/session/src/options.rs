// SPDX-License-Identifier: GPL-2.0-or-later
//! How a session behaves.

use ::route::Chooser;
use protocol::session::{
    handshake::WholeDigest,
    request::{Request, SigningKey},
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use units::{Bytes, Rate};

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct Options {
    /// The secret that both ends need, such as a short code. Empty: no secret.
    pub secret: Vec<u8>,
    /// Whether an initiator with a secret encrypts everything, so that depots see only how much passes and when. An acceptor
    /// follows it.
    pub encrypt: bool,
    /// For the application at the other end, at most 4 096 bytes.
    pub note: Vec<u8>,
    /// What an initiator asks of a depot that keeps sessions, and the key that signs it: in place of a note.
    pub request: Option<(Request, Arc<SigningKey>)>,
    /// The digest of each whole stream that both ends also compare. The initiator chooses; the acceptor follows.
    pub digest: Option<WholeDigest>,
    /// The most that is kept of what was written and not acknowledged; less than 512 KiB counts as that.
    pub send_window: Bytes,
    /// The most that is received ahead of the application.
    pub receive_window: Bytes,
    /// How many connections an initiator uses at once, over its routes in turn: 1 to 16. With one, further routes are for when
    /// the first fails. A listener follows, and a meeting has one.
    pub connections: u8,
    /// Which of its routes an initiator takes; none: in the order in which they are listed.
    pub chooser: Option<Arc<dyn Chooser>>,
    /// How much it will send, if that is known: for this choice.
    pub expected: Option<Bytes>,
    /// How fast this end sends at most.
    pub limit_rate: Option<Rate>,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// The longest wait between two attempts to connect.
    pub longest_wait: Duration,
    /// How long the session lasts without a connection.
    pub patience: Duration,
    /// Certificates (PEM) of further authorities to trust for depots over TLS.
    pub ca: Option<PathBuf>,
    /// The other end learns that everything has arrived when the application says so
    /// ([`Session::confirm`](crate::Session::confirm)), and not when it has read everything.
    pub confirm_by_hand: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            secret: Vec::new(),
            encrypt: true,
            note: Vec::new(),
            request: None,
            digest: None,
            send_window: Bytes::new(64 << 20),
            receive_window: Bytes::new(64 << 20),
            connections: 1,
            chooser: None,
            expected: None,
            limit_rate: None,
            connect_timeout: Duration::from_secs(15),
            longest_wait: Duration::from_secs(5),
            patience: Duration::from_secs(600),
            ca: None,
            confirm_by_hand: false,
        }
    }
}

/// Bounds of a listener.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// The secret that initiators need. Empty: no secret. Initiators that encrypt without it never reach
    /// [`Listener::accept`](crate::Listener::accept).
    pub secret: Vec<u8>,
    /// The most connections that have not said yet what they want.
    pub handshakes: usize,
    /// How long they may take to say it.
    pub handshake_time: Duration,
    /// The most sessions that wait for the application to accept them.
    pub backlog: usize,
    /// The most sessions, with those that have no connection at the moment.
    pub sessions: usize,
    /// Whether each HELLO begins a session of its own, also under a name that one has already: for programs that decide by the
    /// note. The program has to end the earlier one when the later one is [proved](crate::Session::proved).
    pub each_hello_begins: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            secret: Vec::new(),
            handshakes: 256,
            handshake_time: Duration::from_secs(10),
            backlog: 64,
            sessions: 1024,
            each_hello_begins: false,
        }
    }
}
