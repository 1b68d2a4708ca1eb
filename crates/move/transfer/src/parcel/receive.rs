// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiving end.

use crate::{
    Error, Progress,
    parcel::{
        Code, Kind, Note, ParcelReport, hexadecimal, private, shown_digest, sparse,
        unpack::DirectoryPart,
    },
    part::{Identity, PartFile, appended},
};
use protocol::session::record::EndCode;
use session::{
    Beginning, Incoming, Listener, Options, Outgoing, Route, Session, WholeDigest, Window,
};
use std::{
    fmt, fs,
    future::Future,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    task::block_in_place,
    time::{sleep, timeout},
};
use units::Bytes as Size;

/// How long the sender may take to hear that this end stops.
const GOODBYE: Duration = Duration::from_millis(300);
/// How long to wait for the sender to end a session whose file is in its place.
const END_TIME: Duration = Duration::from_secs(10);
/// What is read of a part at a time to hash it.
const PIECE: usize = 1 << 20;

/// Where a sender comes from.
#[derive(Debug)]
pub enum Origin {
    /// It connects here.
    Listener(Listener),
    /// Both go to a depot with the same code.
    Meeting(Vec<Route>, Code),
}

/// Where to put what comes.
pub enum Output {
    /// Under the sender's name, in this directory.
    Directory(PathBuf),
    /// Into this file or directory.
    Path(PathBuf),
    /// To standard output, or the like.
    Stream(Box<dyn Write + Send>),
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) | Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A transfer.
#[derive(Debug)]
pub struct ReceiveRequest {
    /// From whom.
    pub origin: Origin,
    /// Where to.
    pub output: Output,
    /// Replace a file that is there.
    pub overwrite: bool,
    /// The longest stream that is taken.
    pub max_size: Option<Size>,
    /// How.
    pub options: Options,
}

/// Where one stream goes.
enum Place {
    File { part: Box<PartFile>, identity: Identity, beginning: Box<Beginning> },
    Directory(DirectoryPart),
    Stream,
}

impl ReceiveRequest {
    /// Receives. `waiting` is called when the depot of a meeting has let this end in. When `stop` ends first, what has come is
    /// kept and the error is [`Error::Stopped`].
    pub async fn run(
        mut self,
        progress: &Arc<Progress>,
        waiting: impl Fn(),
        stop: impl Future<Output = ()>,
    ) -> ParcelReport {
        let mut report = ParcelReport::begun();
        let mut stop = pin!(stop);
        let mut next = None;
        loop {
            let incoming = if let Some(incoming) = next.take() {
                Ok(incoming)
            } else {
                tokio::select! {
                    incoming = self.incoming(&waiting) => incoming,
                    () = &mut stop => Err(Error::Stopped),
                }
            };
            let started = Instant::now();
            let result = match incoming {
                Ok(incoming) => {
                    self.take(incoming, progress, &mut stop, &mut next, &mut report).await
                }
                Err(error) => Err(error),
            };
            report.seconds = started.elapsed().as_secs_f64();
            match &result {
                Err(error) if self.goes_on_after(error) => progress.note(error.to_string()),
                _ => {
                    report.result = result;
                    return report;
                }
            }
        }
    }

    /// Whether another session may bring what this one has not.
    fn goes_on_after(&self, error: &Error) -> bool {
        let Error::Session(error) = error else { return false };
        if error.is_other_prefix() {
            // It has another file now, which is received from its beginning.
            return !matches!(self.output, Output::Stream(_));
        }
        match (&**error, &self.origin) {
            // A sender with the wrong code does not keep the right one from coming, and one that was started again
            // comes back.
            (session::Error::Handshake(_), Origin::Listener(..))
            | (session::Error::Replaced, _) => true,
            (session::Error::Ended { code, .. }, Origin::Listener(..)) => {
                *code == EndCode::WrongProof as u16
            }
            _ => false,
        }
    }

    async fn incoming(&mut self, waiting: &impl Fn()) -> Result<Incoming, Error> {
        match &self.origin {
            Origin::Listener(listener) => Ok(listener.accept().await),
            Origin::Meeting(routes, code) => {
                let options = Options { secret: code.secret(), ..self.options.clone() };
                Ok(Incoming::meet(code.session(), routes.clone(), &options, waiting).await?)
            }
        }
    }

    /// Takes one session.
    async fn take(
        &mut self,
        incoming: Incoming,
        progress: &Arc<Progress>,
        stop: &mut (impl Future<Output = ()> + Unpin),
        next: &mut Option<Incoming>,
        report: &mut ParcelReport,
    ) -> Result<(), Error> {
        let (place_of, note) = match self.place(incoming.note(), incoming.digest()).await {
            Ok(found) => found,
            Err(error) => {
                incoming.refuse(&error.to_string()).await;
                return Err(error);
            }
        };
        report.name.clone_from(&note.name);
        let options = Options { confirm_by_hand: true, ..self.options.clone() };
        let beginning = match &place_of {
            Place::File { beginning, .. } => Beginning::clone(beginning),
            Place::Directory(part) => part.beginning().clone(),
            Place::Stream => Beginning::new(incoming.digest()),
        };
        report.resumed_bytes = beginning.length();
        progress.set(beginning.length(), note.bytes);
        let nothing = Outgoing::Window(Window::default());
        let session = match incoming.accept_from(beginning, nothing, options).await {
            Ok(session) => Arc::new(session),
            Err(error) => {
                if let Place::Directory(part) = place_of {
                    part.abandon().await;
                }
                return Err(error.into());
            }
        };
        session.end();
        let Self { origin, output, overwrite, max_size, .. } = self;
        let shown = Shown { progress, total: note.bytes, most: *max_size };
        let place = Placing { output, overwrite: *overwrite, note: &note, shown };
        let received = tokio::select! {
            received = place.receive(place_of, &session, report) => received,
            () = begun_again(origin, &session, &note, next) => unreachable!("the session ends with it"),
            () = stop => {
                drop(session);
                sleep(GOODBYE).await;
                return Err(Error::Stopped);
            }
        };
        let now = session.statistics();
        (report.bytes, report.connections, report.hops) =
            (now.received_bytes, now.connections, now.hops);
        report.is_encrypted = now.is_encrypted;
        report.blake3 = Some(hexadecimal(&session.received_hash()));
        received?;
        report.digest = shown_digest(session.digest(), session.received_digest());
        // The sender has to hear that everything is safe; that it says so too is all that is missing.
        let _ = timeout(END_TIME, session.closed()).await;
        Ok(())
    }

    /// Where to put what a sender describes, and how much of it is there, hashed for this further digest.
    async fn place(
        &mut self,
        note: &[u8],
        digest: Option<WholeDigest>,
    ) -> Result<(Place, Note), Error> {
        let note = Note::parse(note)?;
        if let (Some(bytes), Some(most)) = (note.bytes, self.max_size)
            && bytes > most.get()
        {
            return Err(Error::TooLarge(most));
        }
        let path = match (&self.output, &note.name) {
            (Output::Stream(_), _) if note.kind == Kind::Directory => {
                return Err(Error::Usage("a directory cannot go to standard output".to_owned()));
            }
            (Output::Stream(_), _) => return Ok((Place::Stream, note)),
            (Output::Path(path), _) => path.clone(),
            (Output::Directory(directory), Some(name)) => directory.join(name),
            (Output::Directory(_), None) => {
                let text =
                    "the sent data has no name. Name it here: -o FILE, or at the sender: --name";
                return Err(Error::Usage(text.to_owned()));
            }
        };
        if !self.overwrite && fs::symlink_metadata(&path).is_ok() {
            return Err(Error::Exists { file: path, why: String::new() });
        }
        if note.kind == Kind::Directory {
            let part = DirectoryPart::open(&path, &note, digest).await?;
            return Ok((Place::Directory(part), note));
        }
        let url = String::from_utf8_lossy(&note.to_bytes()).into_owned();
        let identity = Identity { url, total: note.bytes, ..Identity::default() };
        // A pipe's bytes have no name by which they could be known again.
        let may_resume = note.kind == Kind::File;
        // A pipe has no permissions of its own.
        let is_private = note.mode.is_some();
        if is_private {
            private::create(&appended(&path, ".part"))?;
        }
        let (mut part, known) = PartFile::open(&path, may_resume)?;
        if is_private {
            private::restrict(&part.reader().0);
        }
        let beginning = if known.as_ref() == Some(&identity) {
            part.hold_all();
            hash_part(&part, digest).await?
        } else {
            part.reset().await?;
            Beginning::new(digest)
        };
        part.check_space(note.bytes.unwrap_or(0))?;
        part.checkpoint(&identity).await?;
        Ok((Place::File { part: Box::new(part), identity, beginning: Box::new(beginning) }, note))
    }
}

/// Fails a session without a connection when its sender, which was started again, begins another one; that is
/// then the `next`. It is known by what its note says, of which a stranger knows neither the date nor the length. Others
/// are refused meanwhile, and so is a pipe, whose bytes do not come again.
async fn begun_again(origin: &Origin, session: &Session, note: &Note, next: &mut Option<Incoming>) {
    let Origin::Listener(listener) = origin else { return std::future::pending().await };
    loop {
        let incoming = listener.accept().await;
        let is_same = note.kind != Kind::Pipe
            && Note::parse(incoming.note()).is_ok_and(|other| other == *note);
        if next.is_some() || !is_same || session.statistics().is_connected {
            incoming.refuse("another transfer is under way: try later").await;
            continue;
        }
        *next = Some(incoming);
        session.replace();
    }
}

/// What is done with a stream.
struct Placing<'p> {
    output: &'p mut Output,
    overwrite: bool,
    note: &'p Note,
    shown: Shown<'p>,
}

impl Placing<'_> {
    /// Receives a stream and puts it in its place.
    async fn receive(
        mut self,
        place: Place,
        session: &Session,
        report: &mut ParcelReport,
    ) -> Result<(), Error> {
        match place {
            Place::File { mut part, identity, beginning } => {
                let offset = beginning.length();
                let kept = keep(&mut part, &identity, offset, session, &mut self.shown).await;
                if let Err(Error::Session(error)) = &kept
                    && error.is_other_prefix()
                {
                    part.reset().await?;
                }
                kept?;
                let (file, _) = part.reader();
                if let Some(mode) = self.note.mode {
                    let permissions = fs::Permissions::from_mode(mode & 0o777);
                    let _ = file.set_permissions(permissions);
                }
                let length = session.statistics().received_bytes;
                part.finish(length, None, self.overwrite).await?;
                if let Some(date) = self.note.date() {
                    // Not every file system keeps every date.
                    let _ = rustix::fs::futimens(&file, &date.times());
                }
                report.file = Some(part.name().to_owned());
            }
            Place::Directory(part) => {
                let name = part.name().to_owned();
                let passed = |length| self.shown.more(length, session);
                part.receive(session, self.overwrite, passed).await?;
                report.file = Some(name);
            }
            Place::Stream => self.pass_on(session).await?,
        }
        session.confirm()?;
        Ok(())
    }

    async fn pass_on(&mut self, session: &Session) -> Result<(), Error> {
        let Output::Stream(out) = &mut *self.output else { return Ok(()) };
        let failed = |error| Error::file("write", Path::new("standard output"), error);
        while let Some(chunk) = session.chunk().await? {
            block_in_place(|| out.write_all(&chunk)).map_err(failed)?;
            self.shown.more(chunk.len(), session)?;
        }
        block_in_place(|| out.flush()).map_err(failed)
    }
}

/// Progress, and the bound of what comes.
struct Shown<'p> {
    progress: &'p Progress,
    total: Option<u64>,
    most: Option<Size>,
}

impl Shown<'_> {
    fn more(&mut self, bytes: usize, session: &Session) -> Result<(), Error> {
        let held = self.progress.held() + bytes as u64;
        self.progress.set(held, self.total);
        self.progress.set_hops(session.statistics().hops.len() as u32);
        match self.most.filter(|most| held > most.get()) {
            Some(most) => Err(Error::TooLarge(most)),
            None => Ok(()),
        }
    }
}

/// Hashes what is there of a file. It was verified when it came, and the sender verifies it again.
async fn hash_part(part: &PartFile, digest: Option<WholeDigest>) -> Result<Beginning, Error> {
    let length = part.ranges().end();
    let (file, path) = part.reader();
    let hash = move || {
        use std::os::unix::fs::FileExt;
        let (mut beginning, mut piece) = (Beginning::new(digest), vec![0; PIECE]);
        while beginning.length() < length {
            let now = (length - beginning.length()).min(PIECE as u64) as usize;
            file.read_exact_at(&mut piece[..now], beginning.length())?;
            beginning.extend(&piece[..now]);
        }
        Ok(beginning)
    };
    let hashed = tokio::task::spawn_blocking(hash).await.map_err(io::Error::other);
    hashed.and_then(|hashed| hashed).map_err(|error: io::Error| Error::file("read", &path, error))
}

/// Writes a piece of a stream behind the end of a part, without its blocks of zeros.
fn write(part: &PartFile, offset: u64, chunk: &[u8]) -> Result<(), Error> {
    for (piece, is_zero) in sparse::pieces(offset, chunk) {
        let (from, to) = (offset + piece.start as u64, offset + piece.end as u64);
        if is_zero {
            let (file, path) = part.reader();
            sparse::lengthen(&file, to).map_err(|error| Error::file("write", &path, error))?;
            part.ranges().insert(from, to);
        } else {
            part.writer().write(from, &chunk[piece])?;
        }
    }
    Ok(())
}

/// Writes a stream to a part, behind what is there.
async fn keep(
    part: &mut PartFile,
    identity: &Identity,
    mut offset: u64,
    session: &Session,
    shown: &mut Shown<'_>,
) -> Result<(), Error> {
    let kept = async {
        while let Some(chunk) = session.chunk().await? {
            block_in_place(|| write(part, offset, &chunk))?;
            offset += chunk.len() as u64;
            shown.more(chunk.len(), session)?;
            part.checkpoint_if_due(identity);
        }
        Ok(())
    };
    let kept: Result<(), Error> = kept.await;
    if kept.is_err() {
        // What has come is there for the next session.
        part.checkpoint(identity).await?;
    }
    kept
}
