// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that are about to join a striped transfer on its receiving end.

use crate::tcp::Stream;
use bytes::BytesMut;
use std::{
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

/// What is called for each connection that has joined.
pub type OnJoin = Box<dyn Fn(&Stream) + Send + Sync>;

/// Connections that are about to join; given up when dropped.
pub struct Joins {
    come: mpsc::Receiver<(Stream, BytesMut)>,
    tasks: JoinSet<()>,
    on_join: OnJoin,
}

impl std::fmt::Debug for Joins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joins").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

impl Joins {
    /// The next connection that has joined, with what has come on it; none when no more will.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(Stream, BytesMut)>> {
        let next = self.come.poll_recv(context);
        if let Poll::Ready(Some((stream, _))) = &next {
            (self.on_join)(stream);
        }
        next
    }

    /// Those that a test sends.
    #[cfg(test)]
    pub fn by_hand() -> (mpsc::Sender<(Stream, BytesMut)>, Self) {
        let (sender, come) = mpsc::channel(15);
        (sender, Self { come, tasks: JoinSet::new(), on_join: Box::new(|_| ()) })
    }

    /// Opens `more` connections, each by `open`, within `time`. The log
    /// says which peer one could not be opened to, and why; the transfer goes on without it.
    pub fn open<F>(
        more: usize,
        time: Duration,
        open: impl Fn() -> F,
        peer: &str,
        on_join: OnJoin,
    ) -> Self
    where
        F: Future<Output = Result<(Stream, BytesMut), String>> + Send + 'static,
    {
        let (sender, come) = mpsc::channel(more.max(1));
        let mut tasks = JoinSet::new();
        for _ in 0..more {
            let (sender, opened, peer) = (sender.clone(), open(), peer.to_owned());
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
        Self { come, tasks, on_join }
    }

    /// Gives up those that have not come.
    pub fn end(&mut self) {
        self.tasks.abort_all();
        self.come.close();
    }
}
