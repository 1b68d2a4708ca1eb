// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection to the first hop, and the headers on it.

use crate::{
    error::{Error, Loss},
    options::Options,
    route::Route,
    wire::Reader,
};
use ::protocol::{
    DepotId, Host, Scheme,
    session::{ALPN, Answer, Congestion, Header, Hop, MAX_HEADER, SessionId},
};
use bytes::Buf;
use host::FileError;
use http::StatusCode;
use relay::{
    dial::{Connector, Dialer, Names, PeerAddr, PeerHost, Resolver},
    tcp::{
        Stream, congestion::Overruled, info::SocketPacing, socket_options::HopOptions,
        tls::ClientConfig, tls_files,
    },
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, OnceLock},
};

/// Connects to first hops.
#[derive(Debug)]
pub(crate) struct FirstHopDialer {
    names: Names,
    overruled: Overruled,
    options: Options,
    tls: OnceLock<Arc<ClientConfig>>,
}

impl FirstHopDialer {
    pub(crate) fn new(options: &Options) -> Self {
        let (names, overruled) = (Names::default(), Overruled::default());
        Self { names, overruled, options: options.clone(), tls: OnceLock::new() }
    }

    /// A connection to the first hop of a route.
    pub(crate) async fn connect(&self, route: &Route) -> Result<Stream, Loss> {
        let hop = route.first();
        let peer = peer_of(hop);
        let unreadable =
            |error: FileError| Error::Source(Arc::new(io::Error::other(error.to_string())));
        let tls = if peer.tls { Some(self.tls().map_err(unreadable)?) } else { None };
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

    fn tls(&self) -> Result<Arc<ClientConfig>, FileError> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let files: Vec<_> = self.options.ca.iter().cloned().collect();
        let mut config = tls_files::client_config(&files)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Arc::clone(self.tls.get_or_init(|| Arc::new(config))))
    }
}

fn peer_of(hop: &Hop) -> PeerAddr {
    let authority = &hop.address.authority;
    let host = match &authority.host {
        Host::Ip(ip) => PeerHost::Ip(*ip),
        Host::Name(name) => PeerHost::Name(name.clone()),
    };
    PeerAddr { host, port: authority.port, tls: hop.address.scheme == Scheme::Https }
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
