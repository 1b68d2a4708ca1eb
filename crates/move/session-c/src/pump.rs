// SPDX-License-Identifier: GPL-2.0-or-later
//! A task for each descriptor: it moves bytes between the socket pair and the session.
//!
//! | here | there |
//! |---|---|
//! | program shuts writing, or closes | session's stream ends when all before has been written |
//! | session's stream ends | the program reads the end; once it has, the other end is told that all has arrived |
//! | session fails | the program reads ECONNRESET behind what came before |
//! | program closes before it has read everything | session fails as soon as what the program wrote has arrived |

use crate::{
    end::{Inner, READ},
    failure::Failure,
    registry::{Accepted, Descriptor, Waiting},
    settings::Settings,
};
use protocol::session::SessionId;
use session::{Error, Route, Session};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};

/// How long a session of a closed descriptor waits for the end of the other direction, as TCP does (FIN-WAIT-2).
const ORPHANED: Duration = Duration::from_secs(60);
/// The longest wait between two looks at a session whose streams are done.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// The purpose of a descriptor.
#[derive(Debug)]
pub(crate) enum Work {
    /// A session, the listener that it came by, and when the other end is told that all has arrived.
    Session(Arc<Session>, Option<Arc<session::Listener>>, Confirmation),
    /// A listener, and a session of an earlier process that continues there.
    Listen(Listen, Option<Session>),
    /// A meeting by this name and these routes.
    Meet(SessionId, Vec<Route>, Box<Settings>, mpsc::Sender<Waiting>),
}

/// A listener and who waits there.
#[derive(Debug)]
pub(crate) struct Listen {
    pub listener: Arc<session::Listener>,
    pub settings: Box<Settings>,
    pub queue: mpsc::Sender<Waiting>,
}

/// When the other end is told that all has arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Confirmation {
    /// When the program has read it.
    Read,
    /// When the program says so, for which it has this long after it has read it.
    Said(Duration),
}

/// Serves a descriptor until the program closes it, or its session is over.
pub(crate) async fn serve(
    inner: Inner,
    descriptor: Arc<Descriptor>,
    begin: oneshot::Receiver<Work>,
) {
    let work = tokio::select! {
        biased;
        work = begin => work,
        () = inner.closed() => return descriptor.forget(),
    };
    match work {
        Ok(Work::Session(session, listener, confirmation)) => {
            pump(inner, &descriptor, (&session, confirmation)).await;
            drop(listener);
        }
        Ok(Work::Listen(work, restored)) => {
            listen(inner, &work, restored).await;
            work.listener.close().await;
            descriptor.forget();
        }
        Ok(Work::Meet(name, routes, settings, queue)) => {
            meet(&inner, (name, routes), &settings, queue).await;
            descriptor.forget();
        }
        Err(_) => descriptor.forget(),
    }
}

/// Queues sessions. Each is a byte for the program to read.
async fn listen(inner: Inner, work: &Listen, restored: Option<Session>) {
    let Listen { listener, settings, queue } = work;
    let inner = Arc::new(inner);
    if let Some(session) = restored {
        // What the other program said at first, the earlier process has read.
        let accepted = Accepted { session, note: Vec::new(), listener: Some(Arc::clone(listener)) };
        let _ = queue.send(Ok(accepted)).await;
        let _ = inner.write_all(&[0]).await;
    }
    let take = async {
        while let Ok(place) = queue.clone().reserve_owned().await {
            let incoming = listener.accept().await;
            let (settings, listener) = (settings.clone(), Arc::clone(listener));
            let inner = Arc::clone(&inner);
            // One that has not the secret takes a while to be told so.
            tokio::spawn(async move {
                let note = incoming.note().to_vec();
                if let Ok(session) = settings.accept(incoming).await {
                    place.send(Ok(Accepted { session, note, listener: Some(listener) }));
                    let _ = inner.write_all(&[0]).await;
                }
            });
        }
    };
    tokio::select! {
        () = take => {}
        () = inner.closed() => {}
    }
}

/// Queues the one session of a meeting, or why there is none. Then there is the end for the program to read.
async fn meet(
    inner: &Inner,
    meeting: (SessionId, Vec<Route>),
    settings: &Settings,
    queue: mpsc::Sender<Waiting>,
) {
    let take = async {
        let met = settings.meet(meeting).await;
        let _ =
            queue.send(met.map(|(session, note)| Accepted { session, note, listener: None })).await;
        let _ = inner.write_all(&[0]).await;
        inner.end_writing();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = take => {}
        () = inner.closed() => {}
    }
}

async fn pump(
    inner: Inner,
    descriptor: &Descriptor,
    (session, confirmation): (&Arc<Session>, Confirmation),
) {
    let inner = Arc::new(inner);
    let upward = tokio::spawn(upward(Arc::clone(&inner), Arc::clone(session)));
    let is_holding = AtomicBool::new(false);
    let delivered = tokio::select! {
        biased;
        delivered = downward(&inner, (session, confirmation), &is_holding) => delivered.map(Some),
        () = inner.closed() => Ok(None),
    };
    let mut result = match delivered {
        Ok(Some(true)) => session.sent().await,
        Ok(Some(false)) => linger(&inner, (session, confirmation), true).await,
        Ok(None) => linger(&inner, (session, confirmation), is_holding.load(Relaxed)).await,
        Err(error) => Err(error),
    };
    if result.is_ok() {
        // The other end may have to hear the last of this one. A program that has not said that all is safe may be gone.
        let late = match confirmation {
            Confirmation::Read => None,
            Confirmation::Said(time) => Instant::now().checked_add(time),
        };
        let mut wait = Duration::from_millis(1);
        while !session.is_over() {
            if late.is_some_and(|late| Instant::now() >= late) {
                result = Err(Error::Abandoned);
                break;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
    // A socket pair is closed only when no task holds it any more.
    upward.abort();
    let _ = upward.await;
    if result.is_ok() {
        inner.settle();
    }
    descriptor.end(session, result.map_err(Failure::from)).await;
}

/// Copies the program's bytes to the session.
async fn upward(inner: Arc<Inner>, session: Arc<Session>) {
    let mut buffer = vec![0; READ];
    while let Ok(length @ 1..) = inner.read(&mut buffer).await {
        if session.write(&buffer[1..=length]).await.is_err() {
            return;
        }
    }
    session.end();
}

/// Copies received bytes to the program. Returns whether the program has read all of them.
async fn downward(
    inner: &Inner,
    (session, confirmation): (&Session, Confirmation),
    is_holding: &AtomicBool,
) -> Result<bool, Error> {
    while let Some(chunk) = session.chunk().await? {
        is_holding.store(true, Relaxed);
        if inner.write_all(&chunk).await.is_err() {
            return Ok(false);
        }
        is_holding.store(false, Relaxed);
    }
    confirm(inner, session, confirmation).await
}

/// Tells the other end that all has arrived, if the program has read it and does not say so itself.
async fn confirm(
    inner: &Inner,
    session: &Session,
    confirmation: Confirmation,
) -> Result<bool, Error> {
    inner.end_writing();
    let is_read = inner.drained().await;
    if is_read && matches!(confirmation, Confirmation::Read) {
        session.confirm()?;
    }
    Ok(is_read)
}

/// The program reads no more. What it has written still goes to the other end.
async fn linger(
    inner: &Inner,
    (session, confirmation): (&Session, Confirmation),
    mut is_lost: bool,
) -> Result<(), Error> {
    let mut sent = std::pin::pin!(session.sent());
    let mut orphaned = None;
    loop {
        let deadline = orphaned.unwrap_or_else(Instant::now);
        tokio::select! {
            result = &mut sent, if orphaned.is_none() => {
                result?;
                orphaned = Some(Instant::now() + ORPHANED);
            }
            chunk = session.chunk() => {
                if chunk?.is_none() {
                    let is_whole = !is_lost && confirm(inner, session, confirmation).await?;
                    if orphaned.is_none() {
                        sent.await?;
                    }
                    return if is_whole { Ok(()) } else { Err(Error::Abandoned) };
                }
                is_lost = true;
            }
            () = sleep_until(deadline), if orphaned.is_some() => return Err(Error::Abandoned),
        }
        if is_lost && orphaned.is_some() {
            return Err(Error::Abandoned);
        }
    }
}
