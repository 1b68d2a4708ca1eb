// SPDX-License-Identifier: GPL-2.0-or-later
//! Handing bytes to a sink that may have no room for them.

use crate::{
    copy::{AckProgress, CopyError, IdleTimeouts, Progress},
    tcp::Sink,
};
use std::{io, sync::atomic::Ordering::Relaxed, time::Instant};
use tokio::net::TcpStream;

impl Progress {
    /// Resolves once the sink has taken nothing for too long.
    pub(super) async fn blocked(&self, sink: &TcpStream, timeouts: IdleTimeouts) -> CopyError {
        struct Blocked<'p>(&'p Progress, Instant);
        impl Drop for Blocked<'_> {
            fn drop(&mut self) {
                let Self(progress, since) = self;
                progress.blocked.store(false, Relaxed);
                progress.held_up_ms.fetch_add(since.elapsed().as_millis() as u64, Relaxed);
            }
        }
        let _until_then = Blocked(self, Instant::now());
        self.blocked.store(true, Relaxed);
        AckProgress::stalls(sink, timeouts).await
    }

    /// Awaits what is done with a sink, unless that has stalled.
    pub(super) async fn unless_blocked<T>(
        &self,
        sink: &TcpStream,
        timeouts: IdleTimeouts,
        done: impl Future<Output = io::Result<T>>,
    ) -> Result<T, CopyError> {
        tokio::select! {
            biased;
            done = done => done.map_err(CopyError::SinkGone),
            stalled = self.blocked(sink, timeouts) => Err(stalled),
        }
    }

    /// Hands over all of a head that no body follows at once. Each time the sink has taken some of it,
    /// `left` is told how many bytes it has not.
    ///
    /// # Errors
    /// The sink is gone, or has stalled.
    pub async fn write_all(
        &self,
        sink: &mut Sink<'_>,
        mut bytes: &[u8],
        timeouts: IdleTimeouts,
        mut left: impl FnMut(usize),
    ) -> Result<(), CopyError> {
        let tcp = sink.tcp();
        while !bytes.is_empty() {
            let written = self.unless_blocked(tcp, timeouts, sink.write(bytes)).await?;
            bytes = &bytes[written..];
            left(bytes.len());
        }
        self.unless_blocked(tcp, timeouts, sink.flush()).await
    }
}
