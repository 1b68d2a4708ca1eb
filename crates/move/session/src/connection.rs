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
    session::{ALPN, Answer, Congestion, Header, MAX_HEADER, SessionId},
};
use ::route::depot_peer;
use bytes::Buf;
use host::FileError;
use http::StatusCode;
use relay::{
    dial::{Connector, Dialer, Names, Resolver},
    tcp::{
        Stream, congestion::Overruled, info::SocketPacing, socket_options::HopOptions,
        tls_files::LazyClient,
    },
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

/// Connects to first hops.
#[derive(Debug)]
pub(crate) struct FirstHopDialer {
    names: Names,
    overruled: Overruled,
    options: Options,
    tls: LazyClient,
}

impl FirstHopDialer {
    pub(crate) fn new(options: &Options) -> Self {
        let (names, overruled) = (Names::default(), Overruled::default());
        let tls = LazyClient::new(options.ca.clone(), ALPN);
        Self { names, overruled, options: options.clone(), tls }
    }

    /// A connection to the first hop of a route.
    pub(crate) async fn connect(&self, route: &Route) -> Result<Stream, Loss> {
        let hop = route.first();
        let peer = depot_peer(&hop.address);
        let unreadable =
            |error: FileError| Error::Source(Arc::new(io::Error::other(error.to_string())));
        let tls = peer.tls.then(|| self.tls.get()).transpose().map_err(unreadable)?;
        let client = || tls.clone().expect("made for peers that speak TLS");
        let connector = Connector { tls: &client, overruled: &self.overruled };
        let resolver = Resolver { names: &self.names, client: IpAddr::V4(Ipv4Addr::LOCALHOST) };
        let dialer = Dialer { connector, resolver, time: self.options.connect_timeout };
        let rate = [hop.pacing, self.options.limit_rate].into_iter().flatten().min();
        let options = HopOptions {
            congestion: hop.congestion.as_ref().map(Congestion::as_str),
            spacing: rate.map_or(SocketPacing::Free, SocketPacing::AtMost),
            keepalive: true,
            ..HopOptions::default()
        };
        let stream = dialer.dial(&peer, &options).await?;
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
    loop {
        let ahead = reader.ahead();
        if let Some((answer, length)) = Header::parse_answer(ahead)? {
            ahead.advance(length);
            if answer.is_interim() {
                interim(&answer);
                continue;
            }
            return match answer.fault() {
                // The error may be temporary, or limited to this route: retry.
                Some(fault) if fault.status.is_server_error() => {
                    Err(Loss::Connection(fault.to_string()))
                }
                Some(fault) => Err(Loss::Fatal(Error::Refused(fault))),
                None => {
                    reader.answered();
                    Ok(answer)
                }
            };
        }
        if ahead.len() > MAX_HEADER {
            return Err(Loss::Connection("ANSWER is too long".to_owned()));
        }
        reader.read_more().await?;
    }
}
