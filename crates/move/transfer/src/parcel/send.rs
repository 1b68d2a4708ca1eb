// SPDX-License-Identifier: GPL-2.0-or-later
//! The sending end.

use crate::{
    Error, Progress,
    http::Http,
    own_limits::OwnLimits,
    parcel::{
        Code, Kind, Note, ParcelReport,
        date::Date,
        hexadecimal, shown_digest,
        source_clock::{SourceClock, TimedPipe, TimedStored},
        tree::StoredTree,
    },
    source::{Copies, ends_elsewhere},
};
use limits::{Cause, DepotReceipt, Flow};
use protocol::{
    DepotAddress,
    http::receipt::RECEIPTS,
    session::{SessionId, record::EndCode},
};
use session::{Options, Outgoing, Route, Session, Stored, StoredFile, Window};
use std::{
    fmt,
    fs::{File, Metadata},
    future::Future,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the receiver may take to hear that this end stops.
const GOODBYE: Duration = Duration::from_millis(300);
/// How long to wait for the receiver to close a session that is over.
const END_TIME: Duration = Duration::from_secs(5);
/// How often a sender begins again with a receiver that does not know the session any more.
const BEGINNINGS: u32 = 20;
/// What is read from a pipe at a time.
const PIECE: usize = 256 << 10;

/// What is sent.
pub enum Parcel {
    /// A file or directory.
    Path(PathBuf),
    /// The bytes of a pipe.
    Pipe(Box<dyn Read + Send>),
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Pipe(_) => f.write_str("Pipe"),
        }
    }
}

/// Where it is sent.
#[derive(Debug, Clone)]
pub enum Goal {
    /// To a receiver that listens, by the first of these routes that works; with a code, if it wants one.
    Listener(Vec<Route>, Option<Code>),
    /// To a depot where the receiver comes with the same code.
    Meeting(Vec<Route>, Code),
}

/// A transfer.
#[derive(Debug)]
pub struct SendRequest {
    /// The content.
    pub parcel: Parcel,
    /// Name for the receiver, instead of the content's own name.
    pub name: Option<String>,
    /// Where to.
    pub goal: Goal,
    /// How.
    pub options: Options,
    /// Ask depots for receipts of what limited the transfer.
    pub receipts: bool,
}

/// The opened content.
enum Content {
    Stored(Arc<dyn Stored>),
    Pipe(Box<dyn Read + Send>),
}

impl SendRequest {
    /// Sends. When `stop` ends first, the error is [`Error::Stopped`], and the receiver keeps what it has.
    pub async fn run(
        self,
        progress: &Arc<Progress>,
        stop: impl Future<Output = ()>,
    ) -> ParcelReport {
        let mut report = ParcelReport::begun();
        let started = Instant::now();
        let mut spent = OwnLimits::new(started);
        let asked = self.receipts.then(|| (self.goal.first_depots(), self.options.ca.clone()));
        let result = self.send(progress, stop, (&mut report, &mut spent)).await;
        report.seconds = started.elapsed().as_secs_f64();
        if let Ok(session) = &result {
            let depots = match asked {
                Some((depots, ca)) => receipts(&depots, ca, *session).await,
                None => Vec::new(),
            };
            report.limits = spent.end(depots, Flow::Up);
        }
        report.result = result.map(|_| ());
        report
    }

    async fn send(
        self,
        progress: &Arc<Progress>,
        stop: impl Future<Output = ()>,
        (report, spent): (&mut ParcelReport, &mut OwnLimits),
    ) -> Result<SessionId, Error> {
        let mut stop = pin!(stop);
        let opened = tokio::select! {
            opened = on_a_thread(move || open(self.parcel, self.name)) => opened?,
            () = &mut stop => return Err(Error::Stopped),
        };
        let Opened { mut content, note, watched } = opened;
        report.name.clone_from(&note.name);
        let clock = Arc::new(SourceClock::default());
        let mut last = SessionId([0; 16]);
        for beginning in 1.. {
            let session = begin(&mut content, (&note, &clock), &self.goal, &self.options);
            last = session.id();
            let mut watching = Watching { spent: &mut *spent, clock: &clock, read: clock.spent() };
            let ended = tokio::select! {
                ended = follow(&session, &note, progress, (&mut *report, &mut watching)) => ended,
                () = &mut stop => {
                    drop(session);
                    sleep(GOODBYE).await;
                    return Err(Error::Stopped);
                }
            };
            let is_stored = matches!(content, Content::Stored(_));
            match ended {
                Ok(()) => break,
                Err(error) if is_stored && beginning < BEGINNINGS && is_forgotten(&error) => {
                    progress.note("the receiver begins again".to_owned());
                    sleep(LOOK).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        watched.map_or(Ok(()), |watched| watched.unchanged()).map(|()| last)
    }
}

impl Goal {
    /// The depots nearest this end, of all routes.
    fn first_depots(&self) -> Vec<DepotAddress> {
        let (Self::Listener(routes, _) | Self::Meeting(routes, _)) = self;
        routes.iter().filter_map(Route::first_depot).cloned().collect()
    }
}

/// What the depots of a session tell, by the first route whose depots know it.
async fn receipts(
    depots: &[DepotAddress],
    ca: Option<PathBuf>,
    session: SessionId,
) -> Vec<DepotReceipt> {
    let options = crate::Options { ca, receipts: true, ..crate::Options::default() };
    let Ok(http) = Http::new(&options) else { return Vec::new() };
    for depot in depots {
        let Ok(url) = depot.url(&format!("{RECEIPTS}{session}")).parse() else { continue };
        let found = http.receipts(&url).await;
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Where this end's time goes, as it is looked at.
struct Watching<'w> {
    spent: &'w mut OwnLimits,
    clock: &'w SourceClock,
    /// The time of reads at the last look.
    read: Duration,
}

impl Watching<'_> {
    fn look(&mut self, is_connected: bool, cause: Cause) {
        let read = self.clock.spent();
        let of_source = read.saturating_sub(std::mem::replace(&mut self.read, read));
        let network = if is_connected { Cause::OtherHop } else { Cause::Connecting };
        self.spent.split((of_source, cause), network);
    }
}

/// The receiver does not know the session, or has another file under that name: then the transfer starts from the
/// beginning.
fn is_forgotten(error: &session::Error) -> bool {
    let session::Error::Ended { code, .. } = error else { return error.is_other_prefix() };
    *code == EndCode::UnknownSession as u16 || error.is_other_prefix()
}

fn looked_at(path: &Path) -> Result<Metadata, Error> {
    std::fs::metadata(path).map_err(|error| Error::file("read", path, error))
}

/// Runs what may take long, or never end, on a thread that no one waits for at the end.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.await.map_err(|_| Error::Usage("what is sent was not read".to_owned()))?
}

/// A file that must not change while it is sent.
struct Watched {
    path: PathBuf,
    before: Metadata,
    /// What is sent is a copy: the file system may say any date.
    is_copy: bool,
}

impl Watched {
    fn unchanged(&self) -> Result<(), Error> {
        let Self { path, before, is_copy } = self;
        let date = |data: &Metadata| (data.mtime(), data.mtime_nsec());
        let now = looked_at(path)?;
        if now.len() == before.len() && (*is_copy || date(&now) == date(before)) {
            return Ok(());
        }
        let why = "its date or length is another one now".to_owned();
        Err(Error::SourceChanged { file: path.clone(), why })
    }
}

/// What is sent, and its description.
struct Opened {
    content: Content,
    note: Note,
    watched: Option<Watched>,
}

/// Opens and describes the content.
fn open(parcel: Parcel, name: Option<String>) -> Result<Opened, Error> {
    let path = match parcel {
        Parcel::Pipe(pipe) => {
            let note = Note { name, ..Note::of(Kind::Pipe) };
            return Ok(Opened { content: Content::Pipe(pipe), note, watched: None });
        }
        Parcel::Path(path) => path,
    };
    let failed = |error| Error::file("read", &path, error);
    let data = looked_at(&path)?;
    let whole = path.canonicalize().map_err(failed)?;
    let own = whole.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let name = name.or(own).ok_or_else(|| {
        Error::Usage(format!("{}: its name is not UTF-8. Name it: --name", path.display()))
    })?;
    let (kind, stored, watched): (_, Arc<dyn Stored>, _) = if data.is_dir() {
        (Kind::Directory, Arc::new(StoredTree::list(&path)?), None)
    } else if data.is_file() {
        let (file, is_copy) = open_file(&path, data.len()).map_err(failed)?;
        let stored = StoredFile::new(file).map_err(failed)?;
        let watched = Watched { path: path.clone(), before: data.clone(), is_copy };
        (Kind::File, Arc::new(stored), Some(watched))
    } else {
        let text =
            "it is not a file or directory. To send what comes from it: longhaul send - < FILE";
        return Err(Error::file("send", &path, std::io::Error::other(text)));
    };
    let (name, bytes, mode) = (Some(name), Some(stored.length()), Some(data.mode() & 0o777));
    let note = Note { name, bytes, mode, ..Note::of(kind) }.dated(Date::of(&data));
    Ok(Opened { content: Content::Stored(stored), note, watched })
}

/// Opens a file, or a copy of one whose length is only a hint.
fn open_file(path: &Path, length: u64) -> std::io::Result<(File, bool)> {
    let file = File::open(path)?;
    if !ends_elsewhere(&file, length)? {
        return Ok((file, false));
    }
    let mut copies = Copies::new()?;
    copies.add(&file)?;
    Ok((copies.into_file(), true))
}

/// Begins a session.
fn begin(
    content: &mut Content,
    (note, clock): (&Note, &Arc<SourceClock>),
    goal: &Goal,
    options: &Options,
) -> Arc<Session> {
    let mut options = Options { note: note.to_bytes(), ..options.clone() };
    let outgoing = match content {
        Content::Stored(stored) => Outgoing::Stored(Arc::new(TimedStored {
            inner: Arc::clone(stored),
            clock: Arc::clone(clock),
        })),
        Content::Pipe(_) => Outgoing::Window(Window::default()),
    };
    let session = Arc::new(match goal {
        Goal::Listener(routes, code) => {
            options.secret = code.as_ref().map(Code::secret).unwrap_or_default();
            Session::send(routes.clone(), outgoing, options)
        }
        Goal::Meeting(routes, code) => {
            options.secret = code.secret();
            Session::begin(code.session(), routes.clone(), outgoing, options)
        }
    });
    if let Content::Pipe(pipe) = content {
        let pipe = std::mem::replace(pipe, Box::new(std::io::empty()));
        feed(Box::new(TimedPipe { inner: pipe, clock: Arc::clone(clock) }), &session);
    }
    session
}

/// Writes what comes from a pipe to a session, on a thread that may wait for it.
fn feed(mut pipe: Box<dyn Read + Send>, session: &Arc<Session>) {
    let (session, runtime) = (Arc::downgrade(session), tokio::runtime::Handle::current());
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        loop {
            let read = pipe.read(&mut piece);
            let Some(session) = session.upgrade() else { return };
            match read {
                Ok(0) => return session.end(),
                Ok(length) => {
                    if runtime.block_on(session.write(&piece[..length])).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return session.fail(error),
            }
        }
    });
}

/// Waits until the receiver has everything.
async fn follow(
    session: &Session,
    note: &Note,
    progress: &Progress,
    (report, watching): (&mut ParcelReport, &mut Watching<'_>),
) -> Result<(), session::Error> {
    // A program writes into a pipe; all else is read from a disk.
    let cause = if note.kind == Kind::Pipe { Cause::SendingProgram } else { Cause::Disk };
    let look = async {
        let mut resumed = None;
        loop {
            let now = session.statistics();
            progress.set(now.acknowledged_bytes, note.bytes);
            progress.set_hops(now.hops.len() as u32);
            if resumed.is_none() && now.is_connected {
                resumed = Some(now.resumed_bytes);
            }
            report.resumed_bytes = now.resumed_bytes;
            watching.look(now.is_connected, cause);
            watching.spent.moved_to(now.acknowledged_bytes);
            sleep(LOOK).await;
        }
    };
    let ended = tokio::select! {
        ended = whole(session) => ended,
        () = look => unreachable!("it goes on for ever"),
    };
    let now = session.statistics();
    progress.set(now.acknowledged_bytes, note.bytes);
    (report.bytes, report.connections, report.hops) =
        (now.acknowledged_bytes, now.connections, now.hops);
    (report.resumed_bytes, report.is_encrypted) = (now.resumed_bytes, now.is_encrypted);
    report.blake3 = Some(hexadecimal(&session.sent_hash()));
    if ended.is_ok() {
        report.digest = shown_digest(session.digest(), session.sent_digest());
    }
    ended
}

/// Both streams to their ends: the receiver sends nothing but that.
async fn whole(session: &Session) -> Result<(), session::Error> {
    while session.chunk().await?.is_some() {}
    session.sent().await?;
    // All is there. The receiver has to hear that this end knows.
    let _ = timeout(END_TIME, session.closed()).await;
    Ok(())
}
