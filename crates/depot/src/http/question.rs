// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot's own short questions to another one.

use crate::{
    admission::verdict::Grant,
    http::{head, no_answer::no_answer},
    settings::Settings,
    state::Shared,
    upstream::{self, Hop},
    wrong_port::{is_alert, next_expects_tls},
};
use bytes::{Buf, BytesMut};
use serde::de::DeserializeOwned;
use session::{
    Fetch,
    message::{Framing, RequestHead, ResponseHead},
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr},
};

/// How much of an answer is read at a time.
const PIECE: u64 = 64 << 10;

/// The client for which names are looked up: this depot itself.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A new connection to another depot, for a question; or why there is none.
pub(crate) async fn connected(
    fetch: &Fetch,
    grant: Grant,
    settings: &Settings,
    shared: &Shared,
) -> Result<Hop, String> {
    let connected = upstream::connected(fetch.into(), grant, settings, shared.resolver(OWN)).await;
    connected.map_err(|refusal| refusal.to_string())
}

/// Sends a request and reads its answer, a JSON document within `max_body` bytes; also says whether
/// the connection is fit for another exchange. The document may have spaces behind it, `padding` bytes at most.
pub(crate) async fn ask<T: DeserializeOwned>(
    hop: &mut Hop,
    question: &str,
    (max_body, padding): (usize, u64),
) -> io::Result<(T, bool)> {
    let parsed = RequestHead::parse(question.as_bytes()).ok().flatten();
    let (request, _) = parsed.ok_or(io::ErrorKind::InvalidInput)?;
    let (next, is_tls) = (hop.key().peer.clone(), hop.stream.is_tls());
    let (mut source, mut sink) = hop.stream.split();
    let mut left = question.as_bytes();
    while !left.is_empty() {
        left = &left[sink.write(left).await?..];
    }
    sink.flush().await?;
    let mut buffer = BytesMut::new();
    let head = head::read(&mut source, &mut buffer, max_body, ResponseHead::parse).await;
    let head = head.map_err(|error| {
        let expects_tls = !is_tls && is_alert(&buffer);
        let fault = if expects_tls { next_expects_tls(&next) } else { no_answer(&next, error) };
        io::Error::other(fault.to_string())
    })?;
    let framing = head.framing(&request).map_err(|fault| io::Error::other(fault.to_string()))?;
    if head.status != 200 {
        return Err(io::Error::other(format!("it answers {}", head.status)));
    }
    let length = match framing {
        Framing::Length(length) if length <= max_body as u64 + padding => length,
        _ => return Err(io::Error::other("its answer has no length, or is too long")),
    };
    let (mut document, mut left) = (BytesMut::new(), length);
    loop {
        let came = left.min(buffer.len() as u64);
        let of_document = (came as usize).min(max_body - document.len());
        document.extend_from_slice(&buffer[..of_document]);
        buffer.advance(came as usize);
        left -= came;
        if left == 0 {
            break;
        }
        if source.read(&mut buffer, left.min(PIECE) as usize).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    // What nobody asked for would pass for the answer to whatever is asked next.
    let fit = buffer.is_empty() && head.keeps_alive(framing);
    Ok((serde_json::from_slice(&document)?, fit))
}
