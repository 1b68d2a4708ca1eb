// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot's own short questions to another one.

use crate::{
    admission::verdict::Grant,
    http::no_answer::no_answer,
    settings::Settings,
    state::Shared,
    upstream::{self, UpstreamConnection},
    wrong_port::{is_alert, next_expects_tls},
};
use health::{BodyLimit, QuestionError};
use http::StatusCode;
use protocol::{Fetch, http::Fault};
use relay::dial::resolver::OWN;
use serde::de::DeserializeOwned;
use std::io;

/// A new connection to another depot, for a question; or why there is none.
pub(crate) async fn connected(
    fetch: &Fetch,
    grant: Grant,
    settings: &Settings,
    shared: &Shared,
) -> Result<UpstreamConnection, String> {
    let connected =
        upstream::connected(fetch.into(), grant, settings, shared.next_hops.resolver(OWN)).await;
    connected.map_err(|refusal| refusal.to_string())
}

/// Sends a request and reads its answer, a JSON document; also says whether the connection is fit for another
/// exchange.
pub(crate) async fn ask<T: DeserializeOwned>(
    hop: &mut UpstreamConnection,
    question: &str,
    limit: BodyLimit,
) -> io::Result<(T, bool)> {
    ask_with_padding(hop, (question, 0), limit).await
}

/// The same with a request whose body is this many bytes of padding.
pub(crate) async fn ask_with_padding<T: DeserializeOwned>(
    hop: &mut UpstreamConnection,
    (question, padding): (&str, u64),
    limit: BodyLimit,
) -> io::Result<(T, bool)> {
    let (next, is_tls) = (hop.key().peer.clone(), hop.stream.is_tls());
    let as_io = |fault: Fault| io::Error::other(fault.to_string());
    let answer = health::ask_with_padding(&mut hop.stream, (question, padding), limit).await;
    let answer = answer.map_err(|error| match error {
        QuestionError::Head(_, came) if !is_tls && is_alert(&came) => {
            as_io(next_expects_tls(&next))
        }
        QuestionError::Head(error, _) => as_io(no_answer(&next, error)),
        QuestionError::Framing(fault) => as_io(fault),
        QuestionError::Size => io::Error::other("its answer has no length, or is too long"),
        QuestionError::Io(error) => error,
    })?;
    if answer.head.status != StatusCode::OK {
        return Err(io::Error::other(format!("it answers {}", answer.head.status)));
    }
    Ok((serde_json::from_slice(&answer.document)?, answer.is_reusable))
}
