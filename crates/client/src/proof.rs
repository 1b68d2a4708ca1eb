// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a body that ended with its connection is whole.
//!
//! A connection that ends looks the same whether the server was done or died. The proof is the file's digest; or 416
//! with the file's length, to a request for what would follow; or the length by HEAD, of the same version.

use crate::{Error, answer::Framing, error::Trouble, get::Transfer, http::Wanted};
use http::StatusCode;

/// A server's statement about the length of the version that the client has.
enum Length {
    Known(u64),
    /// More follows, but not how much.
    Longer,
    Unknown,
}

impl Transfer<'_> {
    /// Proves that the file has `length` bytes.
    pub(crate) async fn prove_end(&mut self, length: u64) -> Result<(), Trouble> {
        if !self.expected().is_empty() {
            self.start_digests();
            self.catch_up(length).await?;
            let whole = self.running.iter().filter(|running| running.at == length);
            let made: Vec<_> = whole.map(crate::hash::RunningDigest::digest).collect();
            if self.expected().iter().any(|(_, expected)| made.contains(expected)) {
                return Ok(());
            }
        }
        let early = || {
            let text = format!("the connection ended after {length} bytes, before the file did");
            Trouble::retry(Error::Connection(text))
        };
        match self.length_at_server(length).await? {
            Length::Known(known) if known == length => Ok(()),
            Length::Known(known) if known > length => {
                self.identity.total = Some(known);
                Err(early())
            }
            Length::Known(_) => Err(Trouble::Restart("the server sent more than there is".into())),
            Length::Longer => Err(early()),
            // The digest decides: at the end it is an error of its own.
            Length::Unknown if !self.expected().is_empty() => Ok(()),
            Length::Unknown if self.client.options.allow_unknown_length => Ok(()),
            Length::Unknown => Err(Error::UnknownLength(length).into()),
        }
    }

    async fn length_at_server(&self, length: u64) -> Result<Length, Trouble> {
        let validators = &self.identity.validators;
        let Some(validator) = validators.strong() else { return Ok(Length::Unknown) };
        let validator = Some(validator);
        let beyond = Wanted { range: Some((length, None)), validator, ..Wanted::default() };
        let (answer, _) = self.client.http.get(&self.target, beyond).await?;
        let other_version = answer.validators.etag.is_some()
            && answer.validators.etag != self.identity.validators.etag;
        match (answer.status, answer.unsatisfied, answer.content_range) {
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(total), _) if !other_version => {
                return Ok(Length::Known(total));
            }
            (StatusCode::PARTIAL_CONTENT, _, Some(range))
                if validators.same_version(&answer.validators) && range.start == length =>
            {
                return Ok(range.total.map_or(Length::Longer, Length::Known));
            }
            _ => {}
        }
        let head = Wanted { head_only: true, ..Wanted::default() };
        let (answer, _) = self.client.http.get(&self.target, head).await?;
        let same = answer.status == StatusCode::OK && validators.same_version(&answer.validators);
        Ok(match answer.framing {
            Framing::Length(total) if same => Length::Known(total),
            _ => Length::Unknown,
        })
    }
}
