// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection to the first hop, and the headers on it.

use crate::{
    error::{Error, Loss},
    options::Options,
    route::Route,
    wire::Reader,
};
use ::protocol::{
    DepotId,
    session::{Answer, Answers, Congestion, SessionId},
};
use ::route::{FirstHopDialer, SendOptions};
use http::StatusCode;
use relay::tcp::{Stream, info::SocketPacing, socket_options::HopOptions};
use units::{Bytes, Rate};

/// What a socket may hold unsent, if a session uses several connections at once: a record and a half.
const UNSENT: Bytes = Bytes::new(384 << 10);

/// Connects to first hops, with the options of a session.
#[derive(Debug)]
pub(crate) struct SessionDialer {
    dialer: FirstHopDialer,
    options: Options,
}

impl SessionDialer {
    pub(crate) fn new(options: &Options) -> Self {
        Self { dialer: FirstHopDialer::new(options.ca.clone()), options: options.clone() }
    }

    /// A connection to the first hop of a route, one of `connections` at once.
    pub(crate) async fn connect(
        &self,
        route: &Route,
        send_options: &SendOptions,
        connections: u8,
    ) -> Result<Stream, Loss> {
        let hop = route.first();
        // Of several connections each has a part.
        let share = |rate: Rate| Rate::bits_per_second(rate.bps().div_ceil(connections.into()));
        let limit = self.options.limit_rate.map(share);
        let rate = [hop.pacing, limit].into_iter().flatten().min();
        let options = HopOptions {
            // What a socket holds unsent cannot go by another connection.
            notsent_lowat: (connections > 1).then_some(UNSENT),
            congestion: hop
                .congestion
                .as_ref()
                .or(send_options.congestion.as_ref())
                .map(Congestion::as_str),
            spacing: match rate {
                Some(rate) => SocketPacing::AtMost(rate),
                None if send_options.paced => SocketPacing::Own,
                None => SocketPacing::Free,
            },
            keepalive: true,
            ..HopOptions::default()
        };
        let stream =
            self.dialer.connect(&hop.address, &options, self.options.connect_timeout).await?;
        stream.wire().pace(options.spacing)?;
        Ok(stream)
    }
}

/// The bytes before the first record.
pub(crate) fn open(route: &Route, session: SessionId) -> Vec<u8> {
    route.open(session).to_bytes().expect("a route fits into a header")
}

/// The answer of an acceptor that takes a session.
pub(crate) fn accepted() -> Vec<u8> {
    Answer::of(StatusCode::OK, end()).to_bytes().expect("a short header")
}

/// The name of an end other than a depot (3.1).
pub(crate) fn end() -> DepotId {
    "end".parse().expect("a name")
}

/// Reads until the final ANSWER has come. Calls `interim` for those before it.
pub(crate) async fn read_answer(
    reader: &mut Reader<'_>,
    mut interim: impl FnMut(&Answer),
) -> Result<Answer, Loss> {
    let mut answers = Answers::default();
    loop {
        let answer = reader.header(|bytes| answers.next(bytes)).await?;
        if answer.is_interim() {
            interim(&answer);
            continue;
        }
        return match answer.fault() {
            // The error may be temporary, or limited to this route: retry. A depot that keeps no sessions, or has no space for
            // any, stays so for a while, and its alternatives lead to the same one.
            Some(fault) if fault.status.is_server_error() && !is_of_store(fault.status) => {
                Err(Loss::Connection(fault.to_string()))
            }
            Some(fault) => Err(Loss::Fatal(Error::Refused(fault))),
            None => {
                reader.answered();
                Ok(answer)
            }
        };
    }
}

/// Whether only a depot's store answers so.
fn is_of_store(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_IMPLEMENTED | StatusCode::INSUFFICIENT_STORAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn first_hop_is_sent_as_the_chooser_wants_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let route = Route::to(&[], &listener.local_addr().unwrap().to_string()).unwrap();
        let own: SendOptions = "reno, paced".parse().unwrap();
        for (send_options, connections, control, unsent) in
            [(own, 1, Some("reno"), None), (SendOptions::default(), 3, None, Some(UNSENT))]
        {
            let dialer = SessionDialer::new(&Options::default());
            let stream = dialer.connect(&route, &send_options, connections).await.unwrap();
            if let Some(control) = control {
                assert_eq!(sockopt::tcp_congestion(stream.tcp()).unwrap(), control);
            }
            let has = relay::tcp::info::notsent_lowat(stream.tcp()).unwrap();
            assert_eq!(u64::from(has) == UNSENT.get(), unsent.is_some());
        }
    }
}
