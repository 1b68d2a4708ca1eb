// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that this end opens to join a striped transfer.

use crate::tcp::Connection;
use bytes::BytesMut;
use std::{
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

/// A connection that has joined, with what has come on it.
type Opened = (Connection, BytesMut);
type Begin = Box<dyn FnOnce(&mut JoinSet<()>) + Send + Sync>;

/// Connections that are about to join; given up when dropped.
pub struct Joins {
    come: mpsc::Receiver<Opened>,
    tasks: JoinSet<()>,
    /// Opens them, once this many bytes have moved.
    begin: Option<(u64, Begin)>,
}

impl std::fmt::Debug for Joins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joins").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

impl Joins {
    /// The next connection that has joined, with what has come on it; none when no more will. So many bytes have moved.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        moved: u64,
    ) -> Poll<Option<Opened>> {
        if let Some((_, begin)) = self.begin.take_if(|(least, _)| moved >= *least) {
            begin(&mut self.tasks);
        }
        self.come.poll_recv(context)
    }

    /// Those that a test sends.
    #[cfg(test)]
    pub fn by_hand() -> (mpsc::Sender<Opened>, Self) {
        let (sender, come) = mpsc::channel(15);
        (sender, Self { come, tasks: JoinSet::new(), begin: None })
    }

    /// Opens `more` connections once `least` bytes have moved, each by `open`, within `time`. The log
    /// says which peer one could not be opened to, and why; the transfer goes on without it.
    pub fn open<F>(
        (more, least): (u8, u64),
        time: Duration,
        open: impl Fn() -> F + Send + Sync + 'static,
        peer: String,
    ) -> Self
    where
        F: Future<Output = Result<Opened, String>> + Send + 'static,
    {
        let (sender, come) = mpsc::channel(more.max(1).into());
        let begin: Begin = Box::new(move |tasks| {
            for _ in 0..more {
                let (sender, opened, peer) = (sender.clone(), open(), peer.clone());
                tasks.spawn(async move {
                    let joined = timeout(time, opened).await;
                    match joined.unwrap_or_else(|_| Err("not in time".to_owned())) {
                        // If the receiver is gone, the transfer is over.
                        Ok(joined) => drop(sender.send(joined).await),
                        Err(why) => {
                            tracing::warn!(upstream = peer, why, "a connection could not join");
                        }
                    }
                });
            }
        });
        Self { come, tasks: JoinSet::new(), begin: Some((least, begin)) }
    }

    /// Gives up those that have not come.
    pub fn end(&mut self) {
        self.begin = None;
        self.tasks.abort_all();
        self.come.close();
        // The other end waits until those are closed that have come and were not taken in.
        while self.come.try_recv().is_ok() {}
    }
}
