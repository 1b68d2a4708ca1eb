// SPDX-License-Identifier: GPL-2.0-or-later
//! The next hop: a connection to it, new or used before, and what is said when it does not answer.

mod connect;
mod names;
mod pool;

pub(crate) use connect::connect_to;
pub(crate) use names::{Names, Resolver};
pub(crate) use pool::Pool;

use crate::{
    admission::Grant, config::Config, exchange::reset_on_close, head::HeadError,
    settings::Settings, stream::Stream,
};
use bytes::BytesMut;
use http::StatusCode;
use pool::{Idle, Key};
use session::{
    Authority, Fetch,
    message::{Fault, ProxyError},
};
use std::{sync::Arc, time::Duration};

/// A connection to the next hop.
pub(crate) struct Hop {
    /// The connection.
    pub stream: Stream,
    /// What was read from it beyond what was asked for so far.
    pub ahead: BytesMut,
    /// Whether it was used before. Then it may be closed already.
    pub reused: bool,
    key: Key,
    /// By whose rules it was opened.
    settings: Arc<Settings>,
}

/// A connection whose exchange is over.
pub(crate) struct Used {
    /// The connection.
    pub hop: Hop,
    /// Whether it can be used again.
    pub fit: bool,
}

/// A connection to the next hop that waits for work, if there is one. It may turn out to be closed, so
/// it serves only what can be asked again.
pub(crate) fn waiting(fetch: &Fetch, grant: Grant, pool: &Pool, config: &Config) -> Option<Hop> {
    let key = Key::of(fetch, grant);
    let (stream, ahead, settings) = pool.take(&key, &config.reuse)?;
    Some(Hop { stream, ahead, reused: true, key, settings })
}

/// A new connection to the next hop.
pub(crate) async fn connected(
    fetch: &Fetch,
    grant: Grant,
    settings: Arc<Settings>,
    resolver: Resolver<'_>,
) -> Result<Hop, Fault> {
    let stream = connect::connect(fetch, grant, &settings, resolver).await?;
    let key = Key::of(fetch, grant);
    Ok(Hop { stream, ahead: BytesMut::new(), reused: false, key, settings })
}

impl Hop {
    /// Whether the rules by which it was opened still count.
    pub(crate) fn is_current(&self) -> bool {
        self.settings.are_current()
    }
}

impl Used {
    /// What was asked on it has ended in good order: then so may its close. Where it is kept, the
    /// pool sees to that.
    pub(crate) fn settle(self) -> Self {
        if !self.fit {
            reset_on_close(self.hop.stream.tcp(), false);
        }
        self
    }

    /// Keeps the connection for the next exchange, if it is fit.
    pub(crate) fn keep(self, pool: &Pool, config: &Config) {
        if self.fit {
            let Hop { stream, ahead, key, settings, .. } = self.hop;
            pool.put(key, Idle::new(stream, ahead, settings), &config.reuse);
        }
    }
}

/// The next hop does not answer: having taken the request, or having stopped taking its body.
pub(crate) fn late(next: &Authority, time: Duration, uploaded: bool) -> Fault {
    let stopped = if uploaded { "" } else { "took no more of the request's body and " };
    let reason = format!("upstream {next} {stopped}did not answer within {} s", time.as_secs_f64());
    Fault::new(StatusCode::GATEWAY_TIMEOUT, ProxyError::HttpResponseTimeout, reason)
}

/// The next hop took the request and gave no usable answer.
pub(crate) fn no_answer(next: &Authority, error: HeadError) -> Fault {
    let (kind, what) = match error {
        HeadError::Malformed(fault) => return fault,
        HeadError::Closed => (ProxyError::ConnectionTerminated, "closed without an answer".into()),
        HeadError::CutOff => {
            (ProxyError::HttpResponseIncomplete, "closed in the middle of its head".into())
        }
        HeadError::TooLarge => {
            (ProxyError::HttpProtocolError, "sent a head larger than this depot takes".into())
        }
        HeadError::Io(error) => (ProxyError::ConnectionTerminated, format!("failed: {error}")),
    };
    Fault::new(StatusCode::BAD_GATEWAY, kind, format!("upstream {next} {what}"))
}
