// SPDX-License-Identifier: GPL-2.0-or-later
//! The acceptor's side of one session: takes it, and takes each further connection of it.

use crate::{
    connection::{SessionDialer, open, read_answer},
    core::Core,
    digest::Beginning,
    drive::{Opening, PROOF_TIME, drive},
    error::{Error, Loss},
    options::Options,
    outgoing::{Outgoing, Window},
    random::random,
    registry::Registration,
    route::Route,
    session::Session,
    state::State,
    wire::{GRACE, Wire, only_record},
};
use ::route::SendOptions;
use bytes::Bytes;
use protocol::session::{
    Direction, MAX_LANES, Position, SessionId,
    handshake::{Attach, AttachPurpose, HandshakeError, Hello, Terms, Welcoming, WholeDigest},
    record::{End, EndCode, RecordKind, record},
    request::{RequestError, Signed},
    sealed::{PreSharedKey, SealedCall, SealedStart},
};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};

/// How long a session that is over is remembered, so that an initiator that has not heard so is told.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How long to wait before going to a meeting again.
const BETWEEN_MEETINGS: Duration = Duration::from_secs(1);

/// A further connection of a session.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// The initiator has proved that it continues the session.
    Continued { wire: Wire, attached: AttachedTerms },
    /// The same, for a connection to be used at the same time as others.
    Joined { wire: Wire },
    /// It begins again, before it has proved anything.
    Again { hello: Hello, wire: Wire, most: u8 },
}

/// How a session continues.
#[derive(Debug)]
pub(crate) struct AttachedTerms {
    /// How far the initiator takes data.
    limit: u64,
    /// What it has received.
    position: Position,
    /// How many connections it may use at once.
    connections: u8,
}

/// Where further connections of a session come from.
#[derive(Debug)]
pub(crate) enum Arrivals {
    /// A listener hands them over.
    Listener(mpsc::Receiver<Arrival>, Registration),
    /// The two ends meet at a depot again.
    Meeting(Box<SessionDialer>, Vec<Route>),
}

/// A session that an initiator asks for.
#[derive(Debug)]
pub struct Incoming {
    pub(crate) hello: Hello,
    pub(crate) wire: Wire,
    pub(crate) arrivals: Arrivals,
    /// The secret that initiators need.
    pub(crate) secret: Vec<u8>,
}

impl Incoming {
    /// The session's name.
    pub fn session(&self) -> SessionId {
        self.hello.session
    }

    /// The initiator's note for the application.
    pub fn note(&self) -> &[u8] {
        &self.hello.terms.note
    }

    /// Whether initiators need a secret.
    pub fn needs_secret(&self) -> bool {
        !self.secret.is_empty()
    }

    /// The digest of each whole stream that both ends also compare. [`Beginning`] has to be made for it.
    pub fn digest(&self) -> Option<WholeDigest> {
        self.hello.digest
    }

    /// Address of the connection's other end: the initiator, or the last depot.
    pub fn peer(&self) -> SocketAddr {
        self.wire.peer()
    }

    /// Waits for an initiator at the last depot of a route. `waiting` is told when the depot has let this end in.
    ///
    /// # Errors
    /// There is no way to the depot, or it does not let this end in.
    pub async fn meet(
        session: SessionId,
        routes: Vec<Route>,
        options: &Options,
        mut waiting: impl FnMut(),
    ) -> Result<Self, Error> {
        let caller = Box::new(SessionDialer::new(options));
        let begun = Instant::now();
        loop {
            let mut last = None;
            for route in &routes {
                match greet(&caller, route, session, &options.secret, &mut waiting).await {
                    Ok((hello, wire)) => {
                        let arrivals = Arrivals::Meeting(caller, routes);
                        let secret = options.secret.clone();
                        return Ok(Self { hello, wire, arrivals, secret });
                    }
                    Err(loss) => last = Some(loss.reason()?),
                }
            }
            let time = begun.elapsed();
            if time >= options.patience {
                let (last, class) = last.expect("there is a route");
                return Err(Error::NoConnection { time, last, class });
            }
            sleep(BETWEEN_MEETINGS).await;
        }
    }

    /// Takes the session; what is written to it goes to the initiator. [`Options::secret`] is by default that of the listener or
    /// of [`meet`](Self::meet).
    ///
    /// # Errors
    /// The initiator does not have the secret.
    pub async fn accept(self, options: Options) -> Result<Session, Error> {
        let nothing = Outgoing::Window(Window::default());
        self.accept_from(Beginning::default(), nothing, options).await
    }

    /// Takes a session of whose stream `received` is there already: a [`Beginning`], or a `Prefix` if the session has no
    /// further [`digest`](Self::digest).
    ///
    /// # Errors
    /// The initiator does not have the secret, or what is there was not hashed for the further digest.
    pub async fn accept_from(
        mut self,
        received: impl Into<Beginning>,
        outgoing: Outgoing,
        mut options: Options,
    ) -> Result<Session, Error> {
        if options.secret.is_empty() {
            options.secret = std::mem::take(&mut self.secret);
        }
        let own = Direction::FromAcceptor;
        let received = received.into();
        self.hello = self.hello.granting(self.arrivals.most_at_once());
        let receiving = Core::first_receiving(own, received.prefix().clone());
        let (limit, note) = (receiving.limit(), options.note.clone());
        let terms = Terms { limit, note };
        let welcome = self.hello.welcome(random(), &options.secret, &terms, &receiving.position());
        let welcoming: Welcoming = match welcome {
            Ok(welcoming) => welcoming,
            Err(error) => {
                refuse(&mut self.wire, error.code(), &error.to_string()).await;
                return Err(error.into());
            }
        };
        let known = State {
            session: self.hello.session,
            key: welcoming.key().clone(),
            digest: self.hello.digest,
            received: Position::default(),
        };
        let takes_early = options.secret.is_empty();
        let limit = self.hello.terms.limit;
        let core = match Core::with_key(&known, own, limit, received, outgoing, options) {
            Ok(core) => core,
            Err(error) => {
                refuse(&mut self.wire, EndCode::Application, &error.to_string()).await;
                return Err(error);
            }
        };
        let first = record(RecordKind::Welcome, &welcoming.payload);
        let opening = Opening::Welcome { welcoming: Box::new(welcoming), takes_early };
        if let Arrivals::Listener(_, registration) = &self.arrivals {
            registration.knows(&core);
        }
        let begun = Begun { wire: self.wire, first, opening };
        tokio::spawn(keep(Arc::clone(&core), Some(begun), self.arrivals));
        Ok(Session::new(core))
    }

    /// What is asked of a store, if the note is a request that is signed for this session and this HELLO (rule 13.2). Until the
    /// initiator has [proved itself](Session::proved), somebody else may have recorded it.
    ///
    /// # Errors
    /// The note is something else, or the signature is wrong.
    pub fn request(&self) -> Result<Signed, RequestError> {
        Signed::verify(self.note(), self.hello.session, self.hello.key())
    }

    /// Does not take the session, and says why.
    pub async fn refuse(self, text: &str) {
        self.refuse_with(EndCode::Application, text).await;
    }

    /// The same, with this code.
    pub async fn refuse_with(mut self, code: EndCode, text: &str) {
        refuse(&mut self.wire, code, text).await;
    }
}

/// A session of an earlier process, for which no initiator has asked yet.
pub(crate) fn restored(
    state: &State,
    received: Beginning,
    outgoing: Outgoing,
    arrivals: Arrivals,
    options: Options,
) -> Result<Session, Error> {
    let own = Direction::FromAcceptor;
    let core = Core::with_key(state, own, 0, received, outgoing, options)?;
    core.proved();
    if let Arrivals::Listener(_, registration) = &arrivals {
        registration.knows(&core);
    }
    tokio::spawn(keep(Arc::clone(&core), None, arrivals));
    Ok(Session::new(core))
}

/// A connection that has begun.
struct Begun {
    wire: Wire,
    first: Vec<u8>,
    opening: Opening,
}

/// Keeps a session going.
async fn keep(core: Arc<Core>, mut begun: Option<Begun>, mut arrivals: Arrivals) {
    let mut last = String::new();
    let mut drives = JoinSet::new();
    loop {
        if let Some(begun) = begun.take() {
            drives.spawn(drive_begun(Arc::clone(&core), begun));
        }
        if !drives.is_empty() {
            let ended = tokio::select! {
                Some(ended) = drives.join_next() => ended,
                next = arrivals.replaced() => {
                    if !matches!(next, Arrival::Joined { .. }) {
                        drives.shutdown().await;
                    }
                    begun = resume(&core, next).await;
                    continue;
                }
            };
            let broken = |error: JoinError| Err(Loss::Connection(error.to_string()));
            match ended.unwrap_or_else(broken).map_err(Loss::reason) {
                Err(Err(error)) => {
                    core.fail(error);
                    return farewell(drives).await;
                }
                Err(Ok((reason, _))) => last = reason,
                Ok(()) => {}
            }
            if !drives.is_empty() {
                continue;
            }
        }
        if core.is_abandoned() && !core.is_over() {
            return core.fail(Error::Abandoned);
        }
        let patience = match (core.is_over(), core.is_proved()) {
            (true, _) => REMEMBERED,
            (false, true) => core.options().patience,
            (false, false) => PROOF_TIME,
        };
        match timeout(patience, arrivals.next(&core)).await {
            Ok(Ok(next)) => begun = resume(&core, next).await,
            Ok(Err(error)) => return core.fail(error),
            Err(_) if core.is_over() => return,
            Err(_) => return core.fail(Error::NoConnection { time: patience, last, class: None }),
        }
    }
}

async fn drive_begun(core: Arc<Core>, begun: Begun) -> Result<(), Loss> {
    let Begun { mut wire, first, opening } = begun;
    drive(&core, &mut wire, first, opening, 0).await
}

/// Other connections of a session that has failed say so too.
async fn farewell(mut drives: JoinSet<Result<(), Loss>>) {
    let _ = timeout(GRACE, async { while drives.join_next().await.is_some() {} }).await;
}

/// Goes on with what has arrived; `None` if the session cannot.
async fn resume(core: &Core, next: Arrival) -> Option<Begun> {
    match next {
        Arrival::Joined { wire } => {
            let (first, opening) = (Vec::new(), Opening::Joined);
            Some(Begun { wire, first, opening })
        }
        Arrival::Continued { mut wire, attached } => {
            let AttachedTerms { limit, position, connections } = attached;
            core.proved();
            match core.reattached(limit, position, None).await {
                Ok(()) => {
                    let (first, opening) = (Vec::new(), Opening::Attached { connections });
                    Some(Begun { wire, first, opening })
                }
                Err(Loss::Fatal(error)) => {
                    if let Some(words) = core.fail_with_words(error) {
                        let _ = timeout(PROOF_TIME, wire.say(&words)).await;
                    }
                    None
                }
                Err(_) => None,
            }
        }
        Arrival::Again { hello, mut wire, most } => match welcome(core, &hello.granting(most)) {
            Ok((first, opening)) => Some(Begun { wire, first, opening }),
            Err(error) => {
                refuse(&mut wire, error.code(), &error.to_string()).await;
                None
            }
        },
    }
}

/// Answers HELLO of a session that was begun before.
fn welcome(core: &Core, hello: &Hello) -> Result<(Vec<u8>, Opening), HandshakeError> {
    if hello.digest != core.digest() {
        return Err(HandshakeError::OtherDigest);
    }
    let Options { secret, note, .. } = core.options();
    let (_, limit, position) = core.terms().expect("an acceptor has a key");
    let terms = Terms { limit, note: note.clone() };
    let welcoming = Box::new(hello.welcome(random(), secret, &terms, &position)?);
    core.begun_again(welcoming.key().clone(), hello.terms.limit);
    let first = record(RecordKind::Welcome, &welcoming.payload);
    Ok((first, Opening::Welcome { welcoming, takes_early: secret.is_empty() }))
}

impl Arrivals {
    /// How many connections a session may have at once. In a meeting each of them would have to meet another.
    fn most_at_once(&self) -> u8 {
        match self {
            Self::Listener(..) => MAX_LANES as u8,
            Self::Meeting(..) => 1,
        }
    }

    /// The next connection while there is one.
    async fn replaced(&mut self) -> Arrival {
        if let Self::Listener(arrivals, _) = self
            && let Some(next) = arrivals.recv().await
        {
            return next;
        }
        std::future::pending().await
    }

    /// The next connection.
    async fn next(&mut self, core: &Core) -> Result<Arrival, Error> {
        match self {
            Self::Listener(arrivals, _) => arrivals.recv().await.ok_or(Error::Replaced),
            Self::Meeting(caller, routes) => loop {
                for route in routes.iter() {
                    match meet_again(caller, route, core).await {
                        Ok(next) => return Ok(next),
                        Err(loss) => {
                            let (reason, _) = loss.reason()?;
                            tracing::debug!(session = %core.session, reason, "no meeting");
                        }
                    }
                    sleep(BETWEEN_MEETINGS).await;
                }
            },
        }
    }
}

/// Goes to a depot and waits for the initiator there; with the connection, and the first record of the initiator.
async fn meeting(
    caller: &SessionDialer,
    route: &Route,
    session: SessionId,
    key: impl FnOnce(SealedStart) -> Option<PreSharedKey>,
    waiting: &mut impl FnMut(),
) -> Result<(Wire, (Option<RecordKind>, Bytes)), Loss> {
    let mut wire = Wire::new(caller.connect(route, &SendOptions::default(), 1).await?);
    wire.say(&open(route, session)).await?;
    read_answer(&mut wire.split().0, |_| waiting()).await?;
    let silent = |_| Err(Loss::Connection("the initiator says nothing".to_owned()));
    let first = timeout(PROOF_TIME, wire.next_record()).await.unwrap_or_else(silent)?;
    let first = opened(&mut wire, session, first, key).await?;
    Ok((wire, first))
}

/// Opens the first record of an initiator, if it is sealed. `key` says what it has to have.
pub(crate) async fn opened(
    wire: &mut Wire,
    session: SessionId,
    first: (Option<RecordKind>, Bytes),
    key: impl FnOnce(SealedStart) -> Option<PreSharedKey>,
) -> Result<(Option<RecordKind>, Bytes), Loss> {
    let (Some(RecordKind::Sealed), payload) = first else { return Ok(first) };
    let start = SealedCall::start(&payload)?;
    let Some(key) = key(start) else {
        let (code, text) = match start {
            SealedStart::Hello => (EndCode::WrongProof, "no code is required here"),
            SealedStart::Attach => (EndCode::UnknownSession, ""),
        };
        refuse(wire, code, text).await;
        return Err(Loss::Connection("there is no key for a sealed record".to_owned()));
    };
    let expected = match start {
        SealedStart::Hello => RecordKind::Hello,
        SealedStart::Attach => RecordKind::Attach,
    };
    let first = match wire.open_call(session, &key, &payload) {
        Ok(first) => only_record(&first)?,
        Err(error) => {
            // For a session that continues, the record was changed on the path or is from a stranger: stay silent.
            if start == SealedStart::Hello {
                refuse(wire, EndCode::WrongProof, "").await;
            }
            return Err(error.into());
        }
    };
    if first.0 == Some(expected) {
        Ok(first)
    } else {
        Err(Loss::Connection("a sealed connection begins with another record".to_owned()))
    }
}

/// The key that an initiator needs to begin a session, if there is a secret.
pub(crate) fn key_of_secret(secret: &[u8]) -> Option<PreSharedKey> {
    (!secret.is_empty()).then(|| PreSharedKey::of_secret(secret))
}

async fn greet(
    caller: &SessionDialer,
    route: &Route,
    session: SessionId,
    secret: &[u8],
    waiting: &mut impl FnMut(),
) -> Result<(Hello, Wire), Loss> {
    let key = |start| match start {
        SealedStart::Hello => key_of_secret(secret),
        // It continues a session of an acceptor before this one.
        SealedStart::Attach => None,
    };
    let (mut wire, first) = meeting(caller, route, session, key, waiting).await?;
    let (Some(RecordKind::Hello), payload) = first else {
        refuse(&mut wire, EndCode::UnknownSession, "").await;
        return Err(Loss::Connection("the initiator does not begin with HELLO".to_owned()));
    };
    let hello = Hello::parse(&payload).map_err(Error::from)?;
    Ok((hello, wire))
}

async fn meet_again(caller: &SessionDialer, route: &Route, core: &Core) -> Result<Arrival, Loss> {
    let key = |start| match start {
        SealedStart::Hello => key_of_secret(&core.options().secret),
        SealedStart::Attach => core.terms().map(|(key, _, _)| PreSharedKey::of_key(&key)),
    };
    let (mut wire, first) = meeting(caller, route, core.session, key, &mut || ()).await?;
    match first {
        (Some(RecordKind::Attach), payload) => attach(core, wire, &payload, 1).await,
        (Some(RecordKind::Hello), payload) if !core.is_proved() => {
            let hello = Hello::parse(&payload).map_err(Error::from)?;
            Ok(Arrival::Again { hello, wire, most: 1 })
        }
        // The initiator was started again, and retries when it gets no answer.
        (Some(RecordKind::Hello), _) => Err(Error::Replaced.into()),
        _ => {
            refuse(&mut wire, EndCode::NoRoom, "this session has begun").await;
            Err(Loss::Connection("the initiator does not continue the session".to_owned()))
        }
    }
}

/// Answers ATTACH, and reads the initiator's proof. Grants at most `most` connections at once.
pub(crate) async fn attach(
    core: &Core,
    mut wire: Wire,
    payload: &[u8],
    most: u8,
) -> Result<Arrival, Loss> {
    let malformed = |error| Loss::Connection(format!("a session cannot be continued: {error}"));
    let attach = Attach::parse(payload).map_err(malformed)?.granting(most);
    let (key, limit, mut position) = core.terms().expect("an acceptor has the key");
    let joins = attach.purpose == AttachPurpose::Join;
    if joins {
        position = Position::default();
        // A stranger is told no more than that.
        if !attach.is_by(&key) || most <= 1 || !core.takes_another().await {
            refuse(&mut wire, EndCode::NoRoom, "").await;
            let reason = "the session takes no further connection at once".to_owned();
            return Err(Loss::Connection(reason));
        }
    }
    let welcoming = match attach.attached(&key, random(), limit, &position) {
        Ok(welcoming) => welcoming,
        Err(error) => {
            refuse(&mut wire, error.code(), &error.to_string()).await;
            return Err(malformed(error));
        }
    };
    wire.say(&record(RecordKind::Attached, &welcoming.payload)).await?;
    loop {
        let late = |_| Err(Loss::Connection("there was no proof in time".to_owned()));
        match timeout(PROOF_TIME, wire.next_record()).await.unwrap_or_else(late)? {
            (Some(RecordKind::Confirm), payload) => {
                welcoming.confirmed(&payload).map_err(malformed)?;
                if joins {
                    return Ok(Arrival::Joined { wire });
                }
                let connections = welcoming.connections;
                let (limit, position) = (attach.limit, attach.position);
                let attached = AttachedTerms { limit, position, connections };
                return Ok(Arrival::Continued { wire, attached });
            }
            (None, _) => {}
            _ => return Err(Loss::Connection("a record came before CONFIRM".to_owned())),
        }
    }
}

/// Ends a connection that belongs to no session here.
pub(crate) async fn refuse(wire: &mut Wire, code: EndCode, text: &str) {
    let words = End::to_record(code, text, Direction::FromAcceptor, None);
    let goodbye = async {
        if wire.say(&words).await.is_ok() {
            wire.close().await;
        }
    };
    let _ = timeout(Duration::from_secs(2), goodbye).await;
}
