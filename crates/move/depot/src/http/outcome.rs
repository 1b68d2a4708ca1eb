// SPDX-License-Identifier: GPL-2.0-or-later
//! How an exchange went.

use crate::{
    http::{body::Broken, refused::Unanswered},
    observe::Withdrawal,
    upstream,
};
use protocol::http::{Fault, Framing};
use std::io;

/// How an exchange ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client's kernel has the whole answer.
    Complete,
    /// No next hop gave an answer that could be relayed; nothing was sent to the client.
    Unanswered(Unanswered),
    /// The client went away before it was answered.
    Abandoned(io::Error),
    /// The answer broke off.
    Broken(Broken),
    /// The request's body broke off before the answer began.
    RequestBroken(Broken),
    /// The depot has ended it.
    Withdrawn(Withdrawal),
    /// The next hop's connection, which had waited, was closed or dead before it carried the request.
    NotCarried,
}

impl From<Unanswered> for End {
    fn from(unanswered: Unanswered) -> Self {
        Self::Unanswered(unanswered)
    }
}

impl From<Broken> for End {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// A response that has begun.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status that was passed on.
    pub status: u16,
    /// How long its body was to be.
    pub framing: Framing,
    /// The reason of a later depot's own answer, if it is one.
    pub refusal: Option<Box<Fault>>,
    /// Whether the client may send another request on its connection once the response is complete.
    pub keeps_client: bool,
    /// Whether the next hop's connection is then fit for anybody's request.
    pub keeps_upstream: bool,
}

/// How an exchange went.
pub(crate) struct Outcome {
    /// How it ended.
    pub end: End,
    /// The response, if one has begun.
    pub answer: Option<Answer>,
    /// The next hop's connection, to be looked at, unless there was none.
    pub upstream: Option<upstream::Used>,
}

impl Outcome {
    pub(super) fn without(end: End) -> Self {
        Self { end, answer: None, upstream: None }
    }
}
