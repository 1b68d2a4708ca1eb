// SPDX-License-Identifier: GPL-2.0-or-later
//! How the body of an answer leaves a depot, where that is not how it came.
//!
//! A digest that is made on the way is known only when the last byte has passed, so it follows the
//! body as a trailer, and for that the body goes in chunks. Its length goes in a field,
//! `Longhaul-Length`; the depot nearest the client makes `Content-Length` of it again.

use super::super::{Fault, Framing, RequestHead, ResponseHead, framing};
use crate::digest::Algorithm;
use http::HeaderName;

/// Length of the data of a chunked body between two depots.
pub(super) static LENGTH: HeaderName = HeaderName::from_static("longhaul-length");

/// The kind of next hop that answered a depot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// Another depot: what it says between depots counts.
    Depot,
    /// The origin.
    Origin,
}

/// How a body goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingBody {
    /// How its end is marked.
    pub framing: Framing,
    /// The number of bytes of data, where it is known. The body must be cut off visibly when its
    /// bytes turn out to be more, or fewer: with [`Framing::Chunked`] by not sending the last chunk.
    pub length: Option<u64>,
    /// The digest of the content that is to follow as a trailer; announced in the head.
    pub digest: Option<Algorithm>,
}

impl OutgoingBody {
    /// How the body goes to the sender of `request`, when it came with `framing` from `next`.
    /// `digest` is what follows the body, or what this depot would make; it goes only to a depot that
    /// takes trailers.
    ///
    /// # Errors
    /// What to answer (502): the next depot's `Longhaul-Length` is not a number.
    pub fn of(
        head: &ResponseHead,
        request: &RequestHead,
        framing: Framing,
        next: NextHop,
        digest: Option<Algorithm>,
    ) -> Result<Self, Fault> {
        let length = match framing {
            Framing::Empty => return Ok(Self { framing, length: None, digest: None }),
            Framing::Length(length) => Some(length),
            Framing::Chunked if next == NextHop::Depot => announced(head)?,
            Framing::Chunked | Framing::UntilClose => None,
        };
        let to_depot = request.came_through_depot() && request.takes_trailers();
        let framing = match (to_depot, digest, length) {
            (true, Some(_), _) => Framing::Chunked,
            (false, _, Some(length)) => Framing::Length(length),
            _ => framing,
        };
        Ok(Self { framing, length, digest: digest.filter(|_| to_depot) })
    }
}

/// The length that a depot announced for a chunked body.
fn announced(head: &ResponseHead) -> Result<Option<u64>, Fault> {
    let mut values = head.headers.get_all(&LENGTH);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let number = value.to_str().ok().filter(|v| !v.is_empty()).and_then(framing::bytes);
            number.map(Some).ok_or_else(|| {
                Fault::bad_response("the next depot's Longhaul-Length is not a number of bytes")
            })
        }
        (Some(_), Some(_)) => {
            Err(Fault::bad_response("the next depot's answer has more than one Longhaul-Length"))
        }
    }
}
