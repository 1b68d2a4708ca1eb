// SPDX-License-Identifier: GPL-2.0-or-later
//! What a server says of a file, and reading ranges of that version.
//!
//! The first byte is asked for, which shows more than HEAD does: whether ranges work, and how long the file is.

use crate::{
    Client, Error, Status,
    accept::{Asked, End, Lengths, Use, accept},
    answer::{Answer, RangeField},
    error::Trouble,
    get::Transfer,
    http::{Target, Wanted, refusal},
    part::Identity,
    sink::MemorySink,
};
use http::StatusCode;
use http_body_util::BodyExt;
use reqwest::Body;
use std::{future::pending, ops::Range, time::SystemTime};
use tokio::time::timeout;
use units::Bytes;

/// A file at a server.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its length, if the server says it.
    pub bytes: Option<u64>,
    /// When it was changed last.
    pub modified: Option<SystemTime>,
    /// `ETag`, weak or strong.
    pub etag: Option<String>,
    /// By which ranges can be read. None where the server sends no ranges, or has no strong validator that shows which version
    /// a range is of.
    pub version: Option<Version>,
}

/// One version of a file at a server.
#[derive(Debug, Clone)]
pub struct Version(Identity);

/// What a transfer is for.
#[derive(Debug)]
pub(crate) enum Goal {
    /// The file's bytes.
    Bytes,
    /// What the server says of it, once that has come.
    Properties(Option<Box<Found>>),
}

impl Client {
    /// Asks what the server has.
    ///
    /// # Errors
    /// There is no such file, or no answer after the retries of the options.
    pub async fn find(&self, url: &str) -> Result<Found, Error> {
        let target = Target::new(url, &self.options, &*self.chooser, None).await?;
        let mut transfer = Transfer::into_memory(self, target, MemorySink::whole(0), None);
        transfer.goal = Goal::Properties(None);
        transfer.run(pending()).await?;
        match transfer.goal {
            Goal::Properties(Some(found)) => Ok(*found),
            _ => unreachable!("a transfer that ends well has found it"),
        }
    }

    /// Reads a whole file of at most `most` bytes into memory. Where the server promises a digest, the bytes have it.
    ///
    /// # Errors
    /// It does not come, or not as promised, or is larger.
    pub async fn read(&self, url: &str, most: Bytes) -> Result<Vec<u8>, Error> {
        let target = Target::new(url, &self.options, &*self.chooser, None).await?;
        let sink = MemorySink::whole(most.get());
        let mut transfer = Transfer::into_memory(self, target, sink, None);
        transfer.run(pending()).await?;
        Ok(transfer.sink.into_bytes())
    }

    /// Reads a range of a version, which ends within the file. Nothing of another version gets among the bytes.
    ///
    /// # Errors
    /// It does not come; the server has another version now ([`Error::Range`]).
    pub async fn read_range(
        &self,
        url: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Vec<u8>, Error> {
        if range.start >= range.end {
            return Ok(Vec::new());
        }
        let bytes = Bytes::new(range.end - range.start);
        let target = Target::new(url, &self.options, &*self.chooser, Some(bytes)).await?;
        if version.0.url != target.shown {
            return Err(Error::Range("the version is another file's".to_owned()));
        }
        let (sink, identity) = (MemorySink::range(range), Some(version.0.clone()));
        let mut transfer = Transfer::into_memory(self, target, sink, identity);
        transfer.run(pending()).await?;
        Ok(transfer.sink.into_bytes())
    }
}

impl Transfer<'_> {
    /// Asks for the first byte.
    pub(crate) async fn find(&mut self) -> Result<Status, Trouble> {
        let wanted = Wanted { range: Some((0, Some(1))), ..Wanted::default() };
        let (answer, body) = self.client.http.get(&self.target, wanted).await?;
        self.hops = answer.hops;
        self.sender.clone_from(&answer.sender);
        self.check_encoding(&answer)?;
        let (bytes, has_ranges) = match answer.status {
            StatusCode::PARTIAL_CONTENT => (length_of_part(&answer), true),
            StatusCode::RANGE_NOT_SATISFIABLE if answer.range == RangeField::Unsatisfied(0) => {
                (Some(0), false)
            }
            StatusCode::OK => (length_of_whole(&answer)?, false),
            _ => return Err(refusal(&answer, body).await),
        };
        if has_ranges {
            let _ = timeout(self.client.options.stall_time, first_byte(body)).await;
        }
        let version = (has_ranges && bytes.is_some()).then(|| Identity {
            url: self.target.shown.clone(),
            validators: answer.validators.clone(),
            total: bytes,
            digest: None,
            encoding: answer.encoding.clone(),
        });
        self.goal = Goal::Properties(Some(Box::new(Found {
            bytes,
            modified: answer.modified,
            etag: answer.validators.etag.clone(),
            version: version.filter(|it| it.validators.strong().is_some()).map(Version),
        })));
        Ok(Status::Complete)
    }
}

/// The file's length by an answer with its first byte; none where the answer is of anything else.
fn length_of_part(answer: &Answer) -> Option<u64> {
    match answer.range {
        RangeField::Bytes(range) if !answer.multipart && (range.start, range.end) == (0, 1) => {
            range.total
        }
        _ => None,
    }
}

/// The file's length by an answer with the whole, if it says it.
fn length_of_whole(answer: &Answer) -> Result<Option<u64>, Trouble> {
    let (known, lengths) = (Identity::default(), Lengths::default());
    let asked = Asked { range: None, known: &known, digest: None, lengths: &lengths };
    match accept(&asked, answer) {
        Use::Whole(End::At(total)) => Ok(Some(total)),
        Use::Contradiction(why) => Err(Trouble::retry(Error::Answer(why))),
        _ => Ok(None),
    }
}

/// Takes the body of one byte, so that the connection can be used again. One that is longer ends with its connection.
async fn first_byte(mut body: Body) {
    let mut left = 1_usize;
    while let Some(Ok(frame)) = body.frame().await {
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, bytes::Bytes::len)) else {
            return;
        };
        left = rest;
    }
}
