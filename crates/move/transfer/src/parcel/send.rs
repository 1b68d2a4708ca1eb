// SPDX-License-Identifier: GPL-2.0-or-later
//! The sending end.

use crate::{
    Error, Progress,
    http::Http,
    own_limits::{OwnLimits, Spent},
    parcel::{
        Kept, ParcelReport,
        code::Code,
        content::{Content, Opened, Parcel, open},
        follow::{Followed, keep_up},
        hexadecimal,
        note::{Kind, Note},
        shown_digest,
        source_clock::{SourceClock, TimedPipe, TimedStored},
        store::{Leaving, PipeSealer, Sealing, StoreClient, refused},
        threads::on_a_thread,
    },
};
use limits::{Cause, DepotReceipt, Flow};
use protocol::{
    DepotAddress,
    http::receipt::RECEIPTS,
    session::{SessionId, record::EndCode, request},
};
use session::{Options, Outgoing, Route, Session, Stored, Window};
use std::{
    future::Future,
    io::{self, Read},
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the receiver may take to hear that this end stops.
const GOODBYE: Duration = Duration::from_millis(300);
/// How long to wait for the receiver to close a session that is over.
const END_TIME: Duration = Duration::from_secs(5);
/// How long a depot may take to remove what is not to be collected.
const TAKE_BACK_TIME: Duration = Duration::from_secs(3);
/// How often a sender begins again with a receiver that does not know the session any more.
const BEGINNINGS: u32 = 20;
/// What is read from a pipe at a time.
const PIECE: usize = 256 << 10;

/// Where it is sent.
#[derive(Debug, Clone)]
pub enum Goal {
    /// To a receiver that listens, by the first of these routes that works; with a code, if it wants one.
    Listener(Vec<Route>, Option<Code>),
    /// To a depot where the receiver comes with the same code.
    Meeting(Vec<Route>, Code),
    /// To a depot that keeps it until receivers come.
    Store(Vec<Route>, Leaving),
}

/// A transfer.
#[derive(Debug)]
pub struct SendRequest {
    /// The content.
    pub parcel: Parcel,
    /// Name for the receiver, instead of the content's own name.
    pub name: Option<String>,
    /// The folder that it goes into, below the receiver's.
    pub folder: Option<String>,
    /// Where to.
    pub goal: Goal,
    /// How.
    pub options: Options,
    /// Ask depots for receipts of what limited the transfer.
    pub receipts: bool,
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
        let Opened { mut content, mut note, watched, followed } = opened;
        note.folder = self.folder;
        report.name = note.whole_name();
        if followed.is_some() && matches!(self.goal, Goal::Store(..)) {
            let text = "a depot keeps only what is whole: a file that grows cannot be left there";
            return Err(Error::Usage(text.to_owned()));
        }
        let sealing = match &self.goal {
            Goal::Store(_, leaving) => Some(Sealing::new(leaving, &note, self.options.encrypt)?),
            Goal::Listener(..) | Goal::Meeting(..) => None,
        };
        let clock = Arc::new(SourceClock::default());
        if let Content::Stored(stored) = &mut content {
            let timed = TimedStored { inner: Arc::clone(stored), clock: Arc::clone(&clock) };
            *stored = match &sealing {
                Some(sealing) => Arc::new(sealing.source(Arc::new(timed))),
                None => Arc::new(timed),
            };
        }
        let (sealing, followed) = (sealing.as_ref(), followed.as_ref());
        let sent = Sent { note: &note, clock: &clock, sealing, followed };
        let mut last = SessionId([0; 16]);
        for beginning in 1.. {
            let session = begin(&mut content, &sent, &self.goal, &self.options)?;
            last = session.id();
            let mut watching = Watching { spent: &mut *spent, clock: &clock, read: clock.spent() };
            let ended = tokio::select! {
                ended = arrived(&session, &sent, progress, (&mut *report, &mut watching)) => ended,
                error = keep_up(followed, &session) => {
                    session.fail(io::Error::other(told(&error)));
                    sleep(GOODBYE).await;
                    return Err(error);
                }
                () = &mut stop => {
                    drop(session);
                    sleep(GOODBYE).await;
                    take_back(&self.goal, &self.options).await;
                    return Err(Error::Stopped);
                }
            };
            let is_stored = matches!(content, Content::Stored(_));
            match ended {
                Ok(()) => {
                    let _ = timeout(GOODBYE, session.settled()).await;
                    break;
                }
                Err(error) if is_stored && beginning < BEGINNINGS && sent.goes_on_after(&error) => {
                    progress.note("the receiver begins again".to_owned());
                    sleep(LOOK).await;
                }
                Err(error) if sealing.is_some() => return Err(refused(error)),
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(Err(error)) = watched.map(|watched| watched.unchanged()) {
            take_back(&self.goal, &self.options).await;
            return Err(error);
        }
        Ok(last)
    }
}

/// What the receiver hears of a file that cannot be followed any more: not its path.
fn told(error: &Error) -> String {
    match error {
        Error::SourceChanged { why, .. } => why.clone(),
        _ => "the file is not there any more, or must not be read".to_owned(),
    }
}

/// Removes from a depot's store what is not to be collected, as far as that is possible now: otherwise it expires.
async fn take_back(goal: &Goal, options: &Options) {
    let Goal::Store(routes, leaving) = goal else { return };
    let options = Options { patience: TAKE_BACK_TIME, ..options.clone() };
    let client = StoreClient { routes: routes.clone(), options };
    let dropped = client.drop_session(leaving.code.keys().session, &leaving.owner);
    let _ = timeout(TAKE_BACK_TIME, dropped).await;
}

impl Goal {
    /// The depots nearest this end, of all routes.
    fn first_depots(&self) -> Vec<DepotAddress> {
        let (Self::Listener(routes, _) | Self::Meeting(routes, _) | Self::Store(routes, _)) = self;
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
    /// All has been sent, and the program that writes the file has to write more.
    fn wait(&mut self) {
        self.read = self.clock.spent();
        self.spent.mark(Spent::Here, Cause::SendingProgram);
    }

    fn look(&mut self, is_connected: bool, cause: Cause) {
        let read = self.clock.spent();
        let of_source = read.saturating_sub(std::mem::replace(&mut self.read, read));
        let network = if is_connected { Cause::OtherHop } else { Cause::Connecting };
        self.spent.split((of_source, cause), network);
    }
}

/// What is the same for each session that a transfer takes.
struct Sent<'s> {
    note: &'s Note,
    clock: &'s Arc<SourceClock>,
    /// If a depot is to keep it.
    sealing: Option<&'s Sealing>,
    /// If it grows.
    followed: Option<&'s Arc<Followed>>,
}

impl Sent<'_> {
    /// Whether the receiver does not know the session, or has another file under that name: then the transfer starts from the
    /// beginning. What a depot keeps does not become another one.
    fn goes_on_after(&self, error: &session::Error) -> bool {
        let is_unknown = matches!(error, session::Error::Ended { code, .. }
            if *code == EndCode::UnknownSession as u16);
        is_unknown || (self.sealing.is_none() && error.is_other_prefix())
    }

    /// How much of the content these bytes of the stream have.
    fn content_within(&self, stream: u64) -> u64 {
        let within = self.sealing.map_or(stream, |sealing| sealing.content_within(stream));
        self.note.bytes.map_or(within, |bytes| within.min(bytes))
    }
}

/// Begins a session.
fn begin(
    content: &mut Content,
    sent: &Sent<'_>,
    goal: &Goal,
    options: &Options,
) -> Result<Arc<Session>, Error> {
    let mut options = Options { note: sent.note.to_bytes(), ..options.clone() };
    let outgoing = match content {
        Content::Stored(stored) => {
            options.expected = Some(units::Bytes::new(stored.length()));
            Outgoing::Stored(Arc::clone(stored))
        }
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
        Goal::Store(routes, leaving) => {
            let bytes = match content {
                Content::Stored(stored) => Some(stored.length()),
                Content::Pipe(_) => None,
            };
            let options = leaving.ask(options, bytes);
            Session::begin(leaving.code.keys().session, routes.clone(), outgoing, options)
        }
    });
    if let Content::Pipe(pipe) = content {
        let pipe = std::mem::replace(pipe, Box::new(std::io::empty()));
        let sealer = sent.sealing.map(Sealing::pipe).transpose()?;
        let timed = TimedPipe { inner: pipe, clock: Arc::clone(sent.clock) };
        feed(Box::new(timed), sealer, &session);
    }
    Ok(session)
}

/// Writes what comes from a pipe to a session, on a thread that may wait for it.
fn feed(mut pipe: Box<dyn Read + Send>, mut sealer: Option<PipeSealer>, session: &Arc<Session>) {
    let (session, runtime) = (Arc::downgrade(session), tokio::runtime::Handle::current());
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        loop {
            let read = pipe.read(&mut piece);
            let Some(session) = session.upgrade() else { return };
            let length = match read {
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return session.fail(error),
            };
            let is_end = length == 0;
            let bytes = match &mut sealer {
                Some(sealer) if is_end => sealer.finish(),
                Some(sealer) => sealer.push(&piece[..length]),
                None => &piece[..length],
            };
            if runtime.block_on(session.write(bytes)).is_err() {
                return;
            }
            if is_end {
                return session.end();
            }
        }
    });
}

/// Waits until the receiver has everything.
async fn arrived(
    session: &Session,
    sent: &Sent<'_>,
    progress: &Progress,
    (report, watching): (&mut ParcelReport, &mut Watching<'_>),
) -> Result<(), session::Error> {
    // A program writes into a pipe; all else is read from a disk.
    let cause = if sent.note.kind == Kind::Pipe { Cause::SendingProgram } else { Cause::Disk };
    let look = async {
        let mut resumed = None;
        loop {
            let now = session.statistics();
            let acknowledged = sent.content_within(now.acknowledged_bytes);
            progress.set(acknowledged, sent.note.bytes);
            progress.set_hops(now.hops.len() as u32);
            if resumed.is_none() && now.is_connected {
                resumed = Some(now.resumed_bytes);
            }
            report.resumed_bytes = sent.content_within(now.resumed_bytes);
            let has_all = |file: &Arc<Followed>| now.sent_bytes >= file.length();
            if now.is_connected && sent.followed.is_some_and(has_all) {
                watching.wait();
            } else {
                watching.look(now.is_connected, cause);
            }
            watching.spent.moved_to(acknowledged);
            sleep(LOOK).await;
        }
    };
    let ended = tokio::select! {
        ended = whole(session) => ended,
        () = look => unreachable!("it goes on for ever"),
    };
    let now = session.statistics();
    let acknowledged = sent.content_within(now.acknowledged_bytes);
    progress.set(acknowledged, sent.note.bytes);
    (report.bytes, report.connections, report.hops) = (acknowledged, now.connections, now.hops);
    report.send_options = now.send_options;
    report.routes = now.routes;
    report.resumed_bytes = sent.content_within(now.resumed_bytes);
    let Some(sealing) = sent.sealing else {
        report.is_encrypted = now.is_encrypted;
        report.blake3 = Some(hexadecimal(&session.sent_hash()));
        if ended.is_ok() {
            report.digest = shown_digest(session.digest(), session.sent_digest());
        }
        return ended;
    };
    report.is_encrypted = sealing.is_encrypted();
    if let Some((bytes, hash)) = sealing.whole().filter(|_| ended.is_ok()) {
        (report.bytes, report.blake3) = (bytes, Some(hexadecimal(&hash)));
        let kept = request::Kept::parse(&session.greeted().await?);
        let named = |kept: request::Kept| Kept { session: session.id(), expires_s: kept.expires_s };
        report.kept = kept.map(named);
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
