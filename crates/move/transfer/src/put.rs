// SPDX-License-Identifier: GPL-2.0-or-later
//! An upload by PUT.
//!
//! A file is hashed, then sent with its length and `Repr-Digest`; PUT is idempotent, so what broke is sent again from the
//! start. A file whose length is only a hint is copied first. Standard input is sent in chunks, once. A server may answer before it has read everything: what it says counts,
//! also when it closes at once.

use crate::{
    Client, Error, Progress, Report, ReportedDigest, Status,
    answer::Answer,
    blocks::{Blocks, Sending},
    error::Trouble,
    hash::RunningDigest,
    http::{Http, Target, detail, failed, host, redirection, refusal},
    retry_timing::chance,
    source::{Copies, ends_elsewhere},
    way::Next,
};
use http::{HeaderValue, StatusCode, header};
use protocol::digest::{Algorithm, Digest};
use reqwest::{Body, Url};
use std::{
    fs::{File, Metadata},
    future::Future,
    io::{self, Read},
    os::unix::fs::{FileExt, MetadataExt},
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::task::spawn_blocking;
use units::BackOff;

const MAX_REDIRECTS: usize = 10;

/// The source of an upload.
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Something that can be read once: standard input.
    Stream(Box<dyn Read + Send>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// An upload.
#[derive(Debug)]
pub struct PutRequest {
    /// To where.
    pub url: String,
    /// From where.
    pub source: Source,
    /// Fail if the server has something there already (`If-None-Match: *`).
    pub no_overwrite: bool,
}

/// Properties of a file that are fixed before it is sent.
#[derive(Debug)]
struct Sent {
    file: PathBuf,
    length: u64,
    /// Its length, inode and time of change, which tell most changes.
    stamp: Stamp,
    /// What is sent instead of a file whose length is only a hint.
    copy: Option<Arc<File>>,
    digest: Digest,
}

impl Sent {
    /// The content, from its beginning.
    fn open(&self) -> Result<Box<dyn Read + Send>, Error> {
        if let Some(copy) = &self.copy {
            return Ok(Box::new(Again { file: Arc::clone(copy), at: 0 }));
        }
        let opened = File::open(&self.file);
        Ok(Box::new(opened.map_err(|error| Error::file("read", &self.file, error))?))
    }
}

/// Reads a file that others read, too.
struct Again {
    file: Arc<File>,
    at: u64,
}

impl Read for Again {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(buffer, self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    inode: u64,
    modified: (i64, i64),
}

fn stamp(data: &Metadata) -> Stamp {
    let modified = (data.mtime(), data.mtime_nsec());
    Stamp { length: data.len(), inode: data.ino(), modified }
}

/// One upload.
struct Upload<'c> {
    client: &'c Client,
    target: Target,
    no_overwrite: bool,
    progress: Arc<Progress>,
    attempts: u32,
    hops: u32,
}

impl Client {
    /// Uploads a file.
    pub async fn put(
        &self,
        request: PutRequest,
        progress: &Arc<Progress>,
        stop: impl Future<Output = ()>,
    ) -> Report {
        let started = Instant::now();
        let file = match &request.source {
            Source::File(file) => Some(file.clone()),
            Source::Stream(_) => None,
        };
        let mut report = Report { file, ..Report::refused(&request.url, Error::Stopped) };
        // Of a file that grows, it is a hint.
        let length = report.file.as_ref().and_then(|file| std::fs::metadata(file).ok());
        let bytes =
            length.map(|data| units::Bytes::new(data.len())).filter(|bytes| bytes.get() > 0);
        let target = match Target::new(&request.url, &self.options, &*self.chooser, bytes).await {
            Ok(target) => target,
            Err(error) => return Report { result: Err(error), ..report },
        };
        let progress = Arc::clone(progress);
        let no_overwrite = request.no_overwrite;
        let mut upload =
            Upload { client: self, target, no_overwrite, progress, attempts: 0, hops: 0 };
        let result = {
            let (stop, work) = (pin!(stop), pin!(upload.run(request.source)));
            tokio::select! {
                biased;
                () = stop => Err(Error::Stopped),
                result = work => result,
            }
        };
        report.bytes = upload.progress.held();
        report.attempts = upload.attempts;
        report.connections = 1;
        report.hops = upload.hops;
        report.via = upload.target.ways.via();
        report.result = result.map(|digest| {
            report.digest = digest.map(|digest| ReportedDigest { digest, verified: false });
            Status::Complete
        });
        report.seconds = started.elapsed().as_secs_f64();
        report
    }
}

impl Upload<'_> {
    async fn run(&mut self, source: Source) -> Result<Option<Digest>, Error> {
        match source {
            Source::File(file) => self.send_file(file).await.map(Some),
            Source::Stream(stream) => {
                self.attempts = 1;
                self.target.ways.begin(0);
                match self.attempt(Some(stream), None).await {
                    Ok(()) => {
                        self.worked();
                        Ok(None)
                    }
                    Err(trouble) => Err(trouble.into_error()),
                }
            }
        }
    }

    async fn send_file(&mut self, file: PathBuf) -> Result<Digest, Error> {
        let sent = spawn_blocking(move || examine(file)).await;
        let sent =
            sent.map_err(|error| Error::Usage(format!("the file was not read: {error}")))??;
        let options = &self.client.options;
        let mut failures = 0;
        loop {
            self.attempts += 1;
            self.target.ways.begin(0);
            let trouble = match self.attempt(None, Some(&sent)).await {
                Ok(()) => {
                    self.worked();
                    return Ok(sent.digest);
                }
                Err(trouble) => trouble,
            };
            check_unchanged(&sent)?;
            let may_help = matches!(trouble, Trouble::Retry(..));
            let (error, asked) = match trouble {
                Trouble::Retry(error, asked) => (error, asked),
                Trouble::OtherWay(error) => (error, None),
                other => return Err(other.into_error()),
            };
            let (ways, chooser) = (&mut self.target.ways, &*self.client.chooser);
            match ways.failed(chooser, &self.progress, &error, may_help) {
                Next::Another => continue,
                Next::Nothing => return Err(error),
                Next::Again => failures += 1,
            }
            if failures > options.retries {
                return Err(error);
            }
            let own =
                BackOff::new(options.first_wait, options.longest_wait).jittered(failures, chance());
            let wait = asked.unwrap_or(own);
            self.progress.note(format!("{error}; tries again in {:.1} s", wait.as_secs_f64()));
            tokio::time::sleep(wait).await;
        }
    }

    /// The way in use has brought it there.
    fn worked(&self) {
        let end = self.client.options.done();
        self.target.ways.ended(&*self.client.chooser, &self.progress, end);
    }

    /// Sends once. A redirect sends a file again, to where it leads.
    async fn attempt(
        &mut self,
        mut stream: Option<Box<dyn Read + Send>>,
        sent: Option<&Sent>,
    ) -> Result<(), Trouble> {
        let mut url = Http::start(&self.target);
        for _ in 0..=MAX_REDIRECTS {
            let source: Box<dyn Read + Send> = match (stream.take(), sent) {
                (Some(stream), _) => stream,
                (None, Some(sent)) => sent.open()?,
                (None, None) => {
                    let text = "the server redirects, but standard input cannot be sent twice";
                    return Err(Error::Redirect(text.to_owned()).into());
                }
            };
            match self.exchange(&url, source, sent).await? {
                Some(next) => url = self.client.http.follow(&url, next)?,
                None => return Ok(()),
            }
        }
        Err(Error::Redirect(format!("more than {MAX_REDIRECTS} redirects")).into())
    }

    /// One request and its answer; where a redirect leads.
    async fn exchange(
        &mut self,
        url: &Url,
        source: Box<dyn Read + Send>,
        sent: Option<&Sent>,
    ) -> Result<Option<Url>, Trouble> {
        let length = sent.map(|sent| sent.length);
        let sending = Arc::new(Sending::new(Arc::clone(&self.progress), length));
        let limit = self.client.limit.clone();
        let body = Blocks::start(source, length, limit, Arc::clone(&sending));
        let mut request = self.client.http.put(&self.target, url).body(Body::wrap(body));
        if let Some(sent) = sent {
            request = request.header("repr-digest", sent.digest.to_value());
        }
        if self.no_overwrite {
            request = request.header(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let response = {
            let (answer, stalled) = (pin!(request.send()), pin!(self.stalled(&sending)));
            tokio::select! {
                response = answer => response,
                error = stalled => {
                    self.client.http.blame(url);
                    return Err(Trouble::retry(error));
                }
            }
        };
        if let Some(why) = sending.failure() {
            return Err(match sent {
                Some(sent) => Error::SourceChanged { file: sent.file.clone(), why },
                None => Error::file("read", "standard input".as_ref(), io::Error::other(why)),
            }
            .into());
        }
        let response = response.map_err(|error| {
            self.client.http.blame(url);
            failed(&host(url), &error)
        })?;
        let answer = Answer::read(response.status(), response.headers(), SystemTime::now())
            .map_err(|why| Trouble::Final(Error::Answer(why)))?;
        self.hops = answer.hops;
        self.progress.set_hops(answer.hops);
        let status = answer.status;
        if matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
            return redirection(&response, url);
        }
        if status.is_success() {
            // A server that answers without having read all of it has not stored it.
            if !sending.is_whole() {
                let text = format!("it answered {status} before it had the whole file");
                return Err(Error::Answer(text).into());
            }
            return sent.map_or(Ok(()), check_unchanged).map(|()| None).map_err(Trouble::Final);
        }
        let body = http::Response::from(response).into_body();
        if status.is_redirection() {
            return Err(Error::Status { status, detail: detail(body).await }.into());
        }
        if status == StatusCode::PRECONDITION_FAILED && self.no_overwrite {
            let detail = ": something is there already, and --no-overwrite was given".to_owned();
            return Err(Error::Status { status, detail }.into());
        }
        Err(refusal(&answer, body).await)
    }

    /// Ends when the server has taken nothing for too long, or does not answer.
    async fn stalled(&self, sending: &Sending) -> Error {
        let time = self.client.options.stall_time;
        let patience = self.client.options.connect_timeout + time;
        let (mut known, mut since) = (0, Instant::now());
        loop {
            tokio::time::sleep(Duration::from_millis(100).min(time)).await;
            let moved = sending.moved();
            if moved != known || sending.waits_for_source() {
                (known, since) = (moved, Instant::now());
            }
            // The connection is part of the first wait.
            if since.elapsed() >= if known == 0 { patience } else { time } {
                let seconds = since.elapsed().as_secs_f64();
                return Error::Stalled(format!("the server did nothing for {seconds:.1} s"));
            }
        }
    }
}

/// Measures and hashes a file.
fn examine(file: PathBuf) -> Result<Sent, Error> {
    let failed = |error| Error::file("read", &file, error);
    let data = std::fs::metadata(&file).map_err(failed)?;
    if !data.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    let opened = File::open(&file).map_err(failed)?;
    let mut copy = None;
    let length = if ends_elsewhere(&opened, data.len()).map_err(failed)? {
        let mut copies = Copies::new().map_err(failed)?;
        let length = copies.add(&opened).map_err(failed)?;
        copy = Some(Arc::new(copies.into_file()));
        length
    } else {
        data.len()
    };
    let mut running = RunningDigest::new(Algorithm::Sha256);
    running.read_to(copy.as_deref().unwrap_or(&opened), &file, length)?;
    let digest = running.digest();
    let sent = Sent { length, stamp: stamp(&data), copy, file, digest };
    check_unchanged(&sent)?;
    Ok(sent)
}

fn check_unchanged(sent: &Sent) -> Result<(), Error> {
    let now = std::fs::metadata(&sent.file).map_err(|e| Error::file("read", &sent.file, e))?;
    let changed = |why: String| Err(Error::SourceChanged { file: sent.file.clone(), why });
    if now.len() != sent.stamp.length {
        return changed(format!("it had {} bytes and has {}", sent.stamp.length, now.len()));
    }
    // Where a length is only a hint, a date is no more than that.
    if sent.copy.is_none() && stamp(&now) != sent.stamp {
        return changed("its date is another one now".to_owned());
    }
    Ok(())
}
