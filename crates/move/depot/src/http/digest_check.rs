// SPDX-License-Identifier: GPL-2.0-or-later
//! Digests of bodies in transit: computes missing ones and verifies those that the sender promised.

use crate::{config::DigestMode, http::body::BodyObserver};
use http::StatusCode;
use protocol::{
    digest::{self, Algorithm, CONTENT_DIGEST, Digest},
    http::{Fault, Fields, Framing, ProxyError, RequestHead, ResponseHead},
};
use relay::copy::Observer;
use sha2::digest::DynDigest;

/// A body whose bytes are hashed.
pub(crate) struct DigestCheck<'x> {
    body: CheckedBody<'x>,
    /// Who sent it, in words.
    sender: String,
    /// What the head promised.
    promised: Option<Digest>,
    /// What is to follow the body.
    follows: Option<Algorithm>,
    hashes: Vec<(Algorithm, Box<dyn DynDigest + Send>)>,
    /// The result, for the log.
    found: Option<String>,
}

/// Whose body it is.
#[derive(Clone, Copy)]
pub(crate) enum CheckedBody<'x> {
    /// An answer's, to this request.
    Answer(&'x ResponseHead, &'x RequestHead),
    /// A request's.
    Request(&'x RequestHead),
}

impl CheckedBody<'_> {
    fn headers(&self) -> &Fields {
        match self {
            Self::Answer(head, _) => &head.headers,
            Self::Request(head) => &head.headers,
        }
    }

    /// The digest in these fields that is of this body.
    fn digest_in(&self, fields: &Fields) -> Option<Digest> {
        match self {
            Self::Answer(head, request) => digest::of_response(head, request, fields),
            Self::Request(head) => digest::of_request(head, fields),
        }
    }

    /// The fault to send, if it can still be sent.
    fn fault(&self, reason: String) -> Fault {
        let (status, error) = match self {
            Self::Answer(..) => (StatusCode::BAD_GATEWAY, ProxyError::HttpProtocolError),
            Self::Request(_) => (StatusCode::BAD_REQUEST, ProxyError::HttpRequestError),
        };
        Fault::new(status, error, reason)
    }

    /// Whether a digest made here would be worth having: of an answer with content that was asked for.
    fn is_worth_one(&self) -> bool {
        let good = [StatusCode::OK, StatusCode::PARTIAL_CONTENT];
        matches!(self, Self::Answer(head, _) if good.contains(&head.status))
    }
}

impl<'x> DigestCheck<'x> {
    /// How to check a body. `None` if there is no body or no digest to compare.
    pub(crate) fn new(
        body: CheckedBody<'x>,
        framing: Framing,
        mode: DigestMode,
        sender: impl FnOnce() -> String,
    ) -> Option<Self> {
        if framing == Framing::Empty || mode == DigestMode::Off {
            return None;
        }
        let promised = body.digest_in(body.headers());
        let announced = Some(body.headers()).filter(|_| framing == Framing::Chunked);
        let candidates = announced.map(digest::candidates).unwrap_or_default();
        let announced = announced.and_then(digest::announced);
        let known = promised.is_some() || announced.is_some();
        let made = mode.makes().filter(|_| !known && body.is_worth_one());
        let follows = announced.or(made);
        let mut algorithms = Vec::from_iter(promised.as_ref().map(Digest::algorithm));
        for algorithm in candidates.into_iter().chain(follows) {
            if !algorithms.contains(&algorithm) {
                algorithms.push(algorithm);
            }
        }
        if algorithms.is_empty() {
            return None;
        }
        let hashes = algorithms.into_iter().map(|algorithm| (algorithm, hash(algorithm))).collect();
        Some(Self { body, sender: sender(), promised, follows, hashes, found: None })
    }

    /// The digest that follows the body, where the receiver takes one.
    pub(crate) fn follows(&self) -> Option<Algorithm> {
        self.follows
    }

    /// The result, for the log. `None` before the body's end.
    pub(crate) fn found(self) -> Option<String> {
        self.found
    }
}

impl Observer for DigestCheck<'_> {
    fn see(&mut self, bytes: &[u8]) {
        for (_, hash) in &mut self.hashes {
            hash.update(bytes);
        }
    }
}

impl BodyObserver for DigestCheck<'_> {
    fn conclude(&mut self, trailers: &mut Fields) -> Result<(), Fault> {
        let expected = [self.promised.take(), self.body.digest_in(trailers)];
        let computed: Vec<_> = self.hashes.iter().map(|(algorithm, _)| *algorithm).collect();
        let mut checks = 0;
        for (algorithm, hash) in self.hashes.drain(..) {
            let Some(is) = Digest::new(algorithm, &hash.finalize()) else { continue };
            let mut expected = expected.iter().flatten().filter(|e| e.algorithm() == algorithm);
            if let Some(expected) = expected.clone().find(|expected| **expected != is) {
                let reason = format!(
                    "the bytes from {} are not those that were sent: {is}, and {expected} was promised",
                    self.sender
                );
                return Err(self.body.fault(reason));
            }
            if expected.next().is_some() {
                checks += 1;
                self.found = Some(format!("{is} checked"));
            } else if self.found.is_none() {
                self.found = Some(format!("{is} made"));
            }
            if self.follows == Some(algorithm) && !trailers.contains(&CONTENT_DIGEST) {
                trailers.append(CONTENT_DIGEST.clone(), is.to_value());
            }
        }
        // Said of what came by another algorithm than anybody could know of.
        let mut came = expected.iter().flatten().map(Digest::algorithm);
        let unknown = came.rfind(|algorithm| !computed.contains(algorithm));
        if let (Some(unknown), Some(found), 0) = (unknown, &mut self.found, checks) {
            *found += &format!(", {} that came not checked", unknown.key());
        }
        Ok(())
    }
}

fn hash(algorithm: Algorithm) -> Box<dyn DynDigest + Send> {
    match algorithm {
        Algorithm::Md5 => Box::new(md5::Md5::default()),
        Algorithm::Sha256 => Box::new(sha2::Sha256::default()),
        Algorithm::Sha512 => Box::new(sha2::Sha512::default()),
    }
}
