// SPDX-License-Identifier: GPL-2.0-or-later
//! Opening further connections to a depot that has agreed.

use crate::{
    http::{head, no_answer::no_answer, refused},
    settings::Settings,
    upstream,
};
use bytes::BytesMut;
use http::StatusCode;
use protocol::{
    Fetch,
    http::{
        ResponseHead,
        stripes::{JOIN, StripeAgreement},
    },
};
use relay::{stripes::Joins, tcp::Connection};
use std::{net::SocketAddr, sync::Arc};

/// Opens the further connections that were agreed on, to the address that the first one is with. Those
/// that do not come in time, or are refused, are done without.
pub(crate) fn join(
    fetch: &Fetch,
    address: SocketAddr,
    settings: &Arc<Settings>,
    agreed: StripeAgreement,
) -> Joins {
    let (time, next) = (settings.config.timeouts.connect.into(), fetch.next.to_string());
    let (settings, fetch) = (Arc::clone(settings), fetch.clone());
    let open = move || {
        let (settings, fetch) = (Arc::clone(&settings), fetch.clone());
        async move { one(&fetch, address, &settings, agreed).await }
    };
    Joins::open((agreed.streams - 1, 0), time, open, next)
}

/// One connection that is ready for blocks, and its result.
async fn one(
    fetch: &Fetch,
    address: SocketAddr,
    settings: &Settings,
    agreed: StripeAgreement,
) -> Result<(Connection, BytesMut), String> {
    let connected = upstream::connect_to(fetch.into(), address, settings).await;
    let mut stream = connected.map_err(|refusal| refused::fault(refusal).to_string())?;
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
    let head = head.map_err(|error| no_answer(&fetch.next, error).to_string())?;
    if head.status != StatusCode::OK {
        return Err(format!("it was answered {}", head.status));
    }
    drop((source, sink));
    Ok((stream.into_connection(), ahead))
}
