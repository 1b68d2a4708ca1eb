// SPDX-License-Identifier: GPL-2.0-or-later
//! Opening further connections to a depot that has agreed.

use crate::{head, settings::Settings, stream::Stream, upstream};
use bytes::BytesMut;
use http::StatusCode;
use session::{
    Fetch,
    message::{
        ResponseHead,
        stripes::{JOIN, StripeAgreement},
    },
};
use std::{
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

/// Who is told of each connection that has joined.
pub(crate) type Told = Box<dyn Fn(&Stream) + Send + Sync>;

/// Connections that are about to join; given up when dropped.
pub(crate) struct Joins {
    come: mpsc::Receiver<(Stream, BytesMut)>,
    tasks: JoinSet<()>,
    told: Told,
}

impl std::fmt::Debug for Joins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joins").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

impl Joins {
    /// The next connection that has joined, with what has come on it; none when no more will.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<(Stream, BytesMut)>> {
        let next = self.come.poll_recv(context);
        if let Poll::Ready(Some((stream, _))) = &next {
            (self.told)(stream);
        }
        next
    }

    /// Those that a test sends.
    #[cfg(test)]
    pub(super) fn by_hand() -> (mpsc::Sender<(Stream, BytesMut)>, Self) {
        let (sender, come) = mpsc::channel(15);
        (sender, Self { come, tasks: JoinSet::new(), told: Box::new(|_| ()) })
    }

    /// Gives up those that have not come.
    pub(crate) fn end(&mut self) {
        self.tasks.abort_all();
        self.come.close();
    }
}

/// Opens the further connections that were agreed on, to the address that the first one is with. Those
/// that do not come in time, or are refused, are done without.
pub(crate) fn join(
    fetch: &Fetch,
    address: SocketAddr,
    settings: &Arc<Settings>,
    agreed: StripeAgreement,
    told: Told,
) -> Joins {
    let more = usize::from(agreed.streams) - 1;
    let (sender, come) = mpsc::channel(more);
    let mut tasks = JoinSet::new();
    for _ in 0..more {
        let (sender, settings, fetch) = (sender.clone(), Arc::clone(settings), fetch.clone());
        tasks.spawn(async move {
            let time = Duration::from(settings.config.timeouts.connect);
            let joined = timeout(time, one(&fetch, address, &settings, agreed)).await;
            match joined.unwrap_or_else(|_| Err("not in time".to_owned())) {
                // Where nobody wants it any more, the transfer is over.
                Ok(joined) => drop(sender.send(joined).await),
                Err(why) => {
                    tracing::warn!(upstream = %fetch.next, why, "a connection could not join");
                }
            }
        });
    }
    Joins { come, tasks, told }
}

/// One connection, ready for blocks, and what has come of them.
async fn one(
    fetch: &Fetch,
    address: SocketAddr,
    settings: &Settings,
    agreed: StripeAgreement,
) -> Result<(Stream, BytesMut), String> {
    let connected = upstream::connect_to(fetch, address, settings).await;
    let mut stream = connected.map_err(|fault| fault.to_string())?;
    // The transfer under way goes on with what it has.
    if !settings.are_current() {
        return Err("the settings were read again meanwhile".to_owned());
    }
    let (host, token) = (&fetch.host, agreed.token);
    let text = format!("GET {JOIN}{token} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let (mut source, mut sink) = stream.split();
    let mut left = text.as_bytes();
    while !left.is_empty() {
        let written = sink.write(left).await.map_err(|error| error.to_string())?;
        left = &left[written..];
    }
    sink.flush().await.map_err(|error| error.to_string())?;
    let (mut ahead, limit) = (BytesMut::new(), settings.config.limits.head.get() as usize);
    let head = head::read(&mut source, &mut ahead, limit, ResponseHead::parse).await;
    let head = head.map_err(|error| upstream::no_answer(&fetch.next, error).to_string())?;
    if head.status != StatusCode::OK {
        return Err(format!("it was answered {}", head.status));
    }
    drop((source, sink));
    Ok((stream, ahead))
}
