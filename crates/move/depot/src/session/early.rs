// SPDX-License-Identifier: GPL-2.0-or-later
//! What a client sends before there is an ANSWER (rule 2.6). It is kept until then, so that it can be sent
//! again (rule 2.9), and is bounded.

use crate::client::failed;
use bytes::BytesMut;
use relay::tcp::{Sink, Source};
use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How much of it is kept.
pub(super) const MOST: usize = 64 << 10;
/// How much is read at a time.
const CHUNK: usize = 16 << 10;

/// What the end of a client's bytes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// It has sent all that it will, and may still read.
    HalfClosed,
    /// It is gone.
    Gone,
}

/// Resolves once the client is gone. What it sends meanwhile is kept.
pub(super) async fn until_gone(
    source: &mut Source<'_>,
    ahead: &mut BytesMut,
    at_end: AtEnd,
) -> io::Error {
    while ahead.len() < MOST {
        match more(source, ahead).await {
            Ok(0) if at_end == AtEnd::Gone => return io::ErrorKind::UnexpectedEof.into(),
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return error,
        }
    }
    failed(source.tcp()).await
}

/// Sends OPEN and then, as far as that is allowed, what the client sends. `sent` is how much of `ahead` was. Where
/// the hop is divided, OPEN is with the writer already.
/// Resolves once the client is gone. A next hop that takes no more may have answered: that tells.
pub(super) async fn send(
    open: &[u8],
    (source, ahead): (&mut Source<'_>, &mut BytesMut),
    sink: &mut Sink<'_>,
    (may_send, sent): (usize, &AtomicUsize),
) -> io::Error {
    let mut left = open;
    while !left.is_empty() {
        let Ok(written) = sink.write(left).await else {
            return until_gone(source, ahead, AtEnd::HalfClosed).await;
        };
        left = &left[written..];
    }
    loop {
        while sent.load(Relaxed) < ahead.len().min(may_send) {
            let ready = &ahead[sent.load(Relaxed)..ahead.len().min(may_send)];
            let Ok(written) = sink.write(ready).await else {
                return until_gone(source, ahead, AtEnd::HalfClosed).await;
            };
            sent.fetch_add(written, Relaxed);
        }
        if sink.flush().await.is_err() {
            return until_gone(source, ahead, AtEnd::HalfClosed).await;
        }
        if ahead.len() >= MOST {
            return failed_meanwhile(source, sink).await;
        }
        let came = tokio::select! {
            came = more(source, ahead) => came,
            _ = sink.drive() => return until_gone(source, ahead, AtEnd::HalfClosed).await,
        };
        match came {
            Ok(0) => return failed_meanwhile(source, sink).await,
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}

/// Resolves once the client is gone. What a divided hop has not taken yet is sent meanwhile.
async fn failed_meanwhile(source: &Source<'_>, sink: &mut Sink<'_>) -> io::Error {
    tokio::select! {
        error = failed(source.tcp()) => error,
        _ = sink.drive() => failed(source.tcp()).await,
    }
}

async fn more(source: &mut Source<'_>, ahead: &mut BytesMut) -> io::Result<usize> {
    source.read(ahead, CHUNK.min(MOST - ahead.len())).await
}
