// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a file that has the name already is the one that is asked for.

use crate::{
    Error, Status,
    accept::{End, Use, accept},
    answer::Answer,
    error::Trouble,
    get::Transfer,
    hash,
    http::{Wanted, refusal},
};
use http::StatusCode;
use protocol::digest::Digest;
use std::{
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::SystemTime,
};

impl Transfer<'_> {
    /// Compares by digest, or by length and date.
    pub(crate) async fn compare_existing(&mut self) -> Result<Status, Trouble> {
        let Some(file) = self.file.clone() else { return Ok(Status::Unchanged) };
        let differs = |why: String| Trouble::Final(Error::Exists { file: file.clone(), why });
        let data = fs::metadata(&file).map_err(|error| Error::file("read", &file, error))?;
        if !data.is_file() {
            return Err(differs(" and is not a regular file".to_owned()));
        }
        let here = data.len();
        if let Some(digest) = &self.asked_digest {
            let other = || differs(" with another digest".to_owned());
            return if has_digest(&file, digest).await? {
                self.progress.set(here, Some(here));
                Ok(Status::Unchanged)
            } else {
                Err(other())
            };
        }
        let answer = self.ask_about().await?;
        self.hops = answer.hops;
        let same = match (accept(&self.asked(None), &answer), &answer.digest) {
            (Use::Whole(End::At(there)), _) if there != here => {
                return Err(differs(format!(" with {here} bytes, and has {there} at the server")));
            }
            (Use::Whole(_), Some(digest)) => has_digest(&file, digest).await?,
            (Use::Whole(End::At(_)), None) => has_date(&data, answer.modified),
            _ => false,
        };
        if !same {
            return Err(differs(" and is not known to be the same".to_owned()));
        }
        self.progress.set(here, Some(here));
        Ok(Status::Unchanged)
    }

    /// The header section of the file at the server: by HEAD, or by GET where the server does not know that.
    async fn ask_about(&self) -> Result<Answer, Trouble> {
        let head = Wanted { head_only: true, ..Wanted::default() };
        let (answer, _) = self.client.http.get(&self.target, head).await?;
        if answer.status == StatusCode::OK {
            return Ok(answer);
        }
        let (answer, body) = self.client.http.get(&self.target, Wanted::default()).await?;
        if answer.status == StatusCode::OK { Ok(answer) } else { Err(refusal(&answer, body).await) }
    }
}

async fn has_digest(file: &Path, digest: &Digest) -> Result<bool, Error> {
    let (path, algorithm): (PathBuf, _) = (file.to_owned(), digest.algorithm());
    let made = tokio::task::spawn_blocking(move || hash::of_file(&path, algorithm)).await;
    Ok(made.map_err(|error| Error::file("read", file, std::io::Error::other(error)))?? == *digest)
}

/// Whether the file's date is this one, to the second.
fn has_date(data: &Metadata, date: Option<SystemTime>) -> bool {
    let seconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs()).ok()
    };
    let here = data.modified().ok().and_then(seconds);
    here.is_some() && here == date.and_then(seconds)
}
