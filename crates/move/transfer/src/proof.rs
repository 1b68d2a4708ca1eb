// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a body that ended with its connection is whole.
//!
//! A connection that ends looks the same whether the server was done or died. The proof is the file's digest; or 416
//! with the file's length, to a request for what would follow; or the length by HEAD, of the same version.

use crate::{
    Error,
    accept::{End, Use, accept},
    error::Trouble,
    get::Transfer,
    http::Wanted,
};

/// A server's statement about the length of the version that the client has.
enum Length {
    Known(u64),
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
        let at_server = self.length_at_server(length).await?;
        if let Length::Known(known) = at_server {
            self.lengths.learn(&self.identity.validators, known);
        }
        match at_server {
            Length::Known(known) if known == length => Ok(()),
            Length::Known(known) if known > length => {
                self.identity.total = Some(known);
                Err(early())
            }
            Length::Known(_) => Err(Trouble::Restart("the server sent more than there is".into())),
            // The digest decides: at the end it is an error of its own.
            Length::Unknown if !self.expected().is_empty() => Ok(()),
            Length::Unknown if self.client.options.allow_unknown_length => Ok(()),
            Length::Unknown => Err(Error::UnknownLength(length).into()),
        }
    }

    async fn length_at_server(&self, length: u64) -> Result<Length, Trouble> {
        let validators = &self.identity.validators;
        let Some(validator) = validators.strong() else { return Ok(Length::Unknown) };
        let (validator, range) = (Some(validator), Some((length, None)));
        let beyond = Wanted { range, validator, ..Wanted::default() };
        let (answer, _) = self.client.http.get(&self.target, beyond).await?;
        let etag = &answer.validators.etag;
        let other_version = etag.is_some() && *etag != validators.etag;
        match accept(&self.asked(range), &answer) {
            Use::Beyond(Some(total)) if !other_version => return Ok(Length::Known(total)),
            Use::Part { total, .. } => return Ok(Length::Known(total)),
            _ => {}
        }
        let head = Wanted { head_only: true, ..Wanted::default() };
        let (answer, _) = self.client.http.get(&self.target, head).await?;
        let same = validators.same_version(&answer.validators);
        Ok(match accept(&self.asked(None), &answer) {
            Use::Whole(End::At(total)) if same => Length::Known(total),
            _ => Length::Unknown,
        })
    }
}
