// SPDX-License-Identifier: GPL-2.0-or-later
//! Implementation of each function, after its arguments were checked.

use crate::{
    end::Inner,
    failure::Failure,
    pump::{Confirmation, Listen, Work, serve},
    registry::{
        Bound, Connected, Descriptor, Fresh, Listening, Over, Stage, digests, find, runtime,
    },
    settings::{MEETING, Settings, option, unknown},
};
use libc::c_int;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use session::Statistics;
use std::{
    net::TcpListener,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Flags of `lsl_socket` and `lsl_accept`.
pub(crate) const CLOEXEC: c_int = 1;
pub(crate) const NONBLOCK: c_int = 2;
/// Events of `lsl_wait`.
pub(crate) const GREETED: c_int = 1;
pub(crate) const SENT: c_int = 2;
pub(crate) const OVER: c_int = 3;
/// The most sessions that wait to be accepted.
const MOST_WAITING: usize = 4096;

/// Result of `lsl_getinfo`: `struct lsl_info` of the header. New fields are added at the end.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct lsl_info {
    /// How far the descriptor is.
    pub state: u32,
    /// Connections so far.
    pub connections: u32,
    /// Depots on the route of the latest connection.
    pub depots: u32,
    /// The errno with which the session failed, or 0.
    pub error: u32,
    /// Bytes sent, without those that were sent again.
    pub sent_bytes: u64,
    /// Of those, bytes that the other end has.
    pub acknowledged_bytes: u64,
    /// Bytes received and verified.
    pub received_bytes: u64,
}

const _: () = assert!(size_of::<lsl_info>() == 40, "no padding between the fields");

/// Values of `lsl_info.state`.
mod state {
    pub(super) const NEW: u32 = 0;
    pub(super) const LISTENING: u32 = 1;
    pub(super) const CONNECTING: u32 = 2;
    pub(super) const CONNECTED: u32 = 3;
    pub(super) const OVER: u32 = 4;
    pub(super) const FAILED: u32 = 5;
}

pub(crate) fn socket(flags: c_int) -> Result<OwnedFd, Failure> {
    let (fd, begin, inner) = fresh(flags)?;
    let (sender, receiver) = begin;
    let stage = Fresh { settings: Settings::default(), bound: None, begin: sender };
    let descriptor = Descriptor::register(fd.as_fd(), Stage::Fresh(Box::new(stage)))?;
    runtime()?.spawn(serve(inner, descriptor, receiver));
    Ok(fd)
}

type Begin = (oneshot::Sender<Work>, oneshot::Receiver<Work>);

fn fresh(flags: c_int) -> Result<(OwnedFd, Begin, Inner), Failure> {
    if flags & !(CLOEXEC | NONBLOCK) != 0 {
        return Err(Failure::invalid("there are other flags than LSL_CLOEXEC and LSL_NONBLOCK"));
    }
    let _entered = runtime()?.enter();
    let (fd, inner) = Inner::pair(flags & CLOEXEC != 0, flags & NONBLOCK != 0)?;
    Ok((fd, oneshot::channel(), inner))
}

pub(crate) fn set(fd: BorrowedFd<'_>, name: c_int, value: &[u8]) -> Result<(), Failure> {
    match &mut *find(fd)?.stage() {
        Stage::Fresh(fresh) => fresh.settings.set(name, value),
        _ => Err(Failure::new(libc::EISCONN, "options are set before lsl_connect or lsl_listen")),
    }
}

/// Replaces a fresh stage by what `next` makes of it, and gives the descriptor's task its work.
fn begin<T>(
    descriptor: &Descriptor,
    next: impl FnOnce(&mut Fresh) -> Result<(Stage, Work, T), Failure>,
) -> Result<T, Failure> {
    let mut stage = descriptor.stage();
    let Stage::Fresh(fresh) = &mut *stage else {
        return Err(Failure::new(libc::EISCONN, "the descriptor is connected or listens already"));
    };
    let (begun, work, result) = next(fresh)?;
    if let Stage::Fresh(fresh) = std::mem::replace(&mut *stage, begun) {
        // If its task has gone, the program has closed the descriptor in another thread.
        let _ = fresh.begin.send(work);
    }
    Ok(result)
}

pub(crate) fn connect(fd: BorrowedFd<'_>, destination: &str) -> Result<(), Failure> {
    let descriptor = find(fd)?;
    let runtime = runtime()?;
    let waiting = begin(&descriptor, |fresh| {
        if fresh.bound.is_some() {
            return Err(Failure::new(libc::EOPNOTSUPP, "the descriptor is bound to listen"));
        }
        let _entered = runtime.enter();
        let session = Arc::new(fresh.settings.connect(destination)?);
        no_writing(fd, &fresh.settings)?;
        let connected = Connected { session: Arc::clone(&session), note: None };
        let waiting = fresh.settings.waits.then(|| Arc::clone(&session));
        let work = Work::Session(session, None, confirmation(&fresh.settings));
        Ok((Stage::Connected(connected), work, waiting))
    })?;
    if let Some(session) = waiting {
        runtime.block_on(session.greeted())?;
    }
    Ok(())
}

/// A program that sends a file writes nothing: it gets EPIPE.
fn no_writing(fd: BorrowedFd<'_>, settings: &Settings) -> Result<(), Failure> {
    if settings.sends_file() {
        shutdown(fd, Shutdown::Write)?;
    }
    Ok(())
}

fn confirmation(settings: &Settings) -> Confirmation {
    if settings.confirms {
        Confirmation::Said(settings.options().patience)
    } else {
        Confirmation::Read
    }
}

pub(crate) fn bind(fd: BorrowedFd<'_>, address: &str) -> Result<(), Failure> {
    let descriptor = find(fd)?;
    let mut stage = descriptor.stage();
    match &mut *stage {
        Stage::Fresh(fresh) if fresh.bound.is_none() && address == MEETING => {
            fresh.bound = Some(Bound::Meeting);
            Ok(())
        }
        Stage::Fresh(fresh) if fresh.bound.is_none() => {
            fresh.bound = Some(Bound::Address(TcpListener::bind(address).map_err(|error| {
                let Failure { errno, text } = error.into();
                Failure::new(errno, format!("{address}: {text}"))
            })?));
            Ok(())
        }
        _ => Err(Failure::invalid("the descriptor is bound or connected already")),
    }
}

pub(crate) fn listen(fd: BorrowedFd<'_>, backlog: c_int) -> Result<(), Failure> {
    let descriptor = find(fd)?;
    let runtime = runtime()?;
    let backlog = usize::try_from(backlog).unwrap_or(0).clamp(1, MOST_WAITING);
    begin(&descriptor, |fresh| {
        let unbound = || Failure::new(libc::EDESTADDRREQ, "lsl_bind comes before lsl_listen");
        let _entered = runtime.enter();
        let (sender, queue) = mpsc::channel(backlog);
        let settings = fresh.settings.clone();
        let own = Box::new(settings.clone());
        let (work, local) = match fresh.bound.as_ref().ok_or_else(unbound)? {
            Bound::Address(bound) => {
                // Initiators may be there already. One whose session were not known yet would end it.
                let acceptor = session::Acceptor::new(settings.listen_options(backlog));
                let restored = settings.restore(&acceptor)?;
                let listener = session::Listener::serving(bound.try_clone()?, acceptor)?;
                let listener = Arc::new(listener);
                let local = Some(listener.local_addr());
                (Work::Listen(Listen { listener, settings: own, queue: sender }, restored), local)
            }
            Bound::Meeting => {
                let (name, routes) = settings.meeting()?;
                (Work::Meet(name, routes, own, sender), None)
            }
        };
        let queue = Mutex::new(queue);
        let listening = Listening { local, settings, queue };
        Ok((Stage::Listening(Arc::new(listening)), work, ()))
    })
}

pub(crate) fn accept(fd: BorrowedFd<'_>, flags: c_int) -> Result<OwnedFd, Failure> {
    let listening = match &*find(fd)?.stage() {
        Stage::Listening(listening) => Arc::clone(listening),
        _ => return Err(Failure::invalid("lsl_listen comes before lsl_accept")),
    };
    let (accepting, begin, inner) = fresh(flags)?;
    // As `accept` does, this waits unless the descriptor has O_NONBLOCK, and signals interrupt it.
    let (_, length) = recv(fd, &mut [0; 1][..], RecvFlags::empty())?;
    let queue = listening.queue.lock();
    let next = queue.unwrap_or_else(PoisonError::into_inner).try_recv();
    let (1, Ok(accepted)) = (length, next) else {
        return Err(Failure::new(
            libc::ECONNABORTED,
            "the listener has gone, or the meeting is over",
        ));
    };
    let accepted = accepted?;
    no_writing(accepting.as_fd(), &listening.settings)?;
    let session = Arc::new(accepted.session);
    let connected = Connected { session: Arc::clone(&session), note: Some(accepted.note) };
    let descriptor = Descriptor::register(accepting.as_fd(), Stage::Connected(connected))?;
    let (sender, receiver) = begin;
    let confirmation = confirmation(&listening.settings);
    let _ = sender.send(Work::Session(session, accepted.listener, confirmation));
    runtime()?.spawn(serve(inner, descriptor, receiver));
    Ok(accepting)
}

/// A session, or the remains of a closed one.
enum Found {
    Session(Connected),
    Over(Box<Over>),
}

fn session(descriptor: &Descriptor) -> Result<Found, Failure> {
    match &*descriptor.stage() {
        Stage::Connected(connected) => Ok(Found::Session(connected.clone())),
        Stage::Over(over) => Ok(Found::Over(over.clone())),
        _ => Err(Failure::new(libc::ENOTCONN, "lsl_connect or lsl_accept comes first")),
    }
}

pub(crate) fn confirm(fd: BorrowedFd<'_>) -> Result<(), Failure> {
    let descriptor = find(fd)?;
    match session(&descriptor)? {
        Found::Session(Connected { session, .. }) => Ok(session.confirm()?),
        Found::Over(over) => over.result,
    }
}

pub(crate) fn wait(fd: BorrowedFd<'_>, event: c_int, time_ms: c_int) -> Result<(), Failure> {
    if !(GREETED..=OVER).contains(&event) {
        return Err(Failure::invalid("the event is LSL_GREETED, LSL_SENT or LSL_OVER"));
    }
    let descriptor = find(fd)?;
    let session = match session(&descriptor)? {
        Found::Session(Connected { session, .. }) => session,
        Found::Over(over) => return over.result,
    };
    let happens = async {
        match event {
            GREETED => session.greeted().await.map(|_| ()).map_err(Failure::from),
            SENT => session.sent().await.map_err(Failure::from),
            _ => {
                descriptor.over().await;
                failure_of(&descriptor).map_or(Ok(()), Err)
            }
        }
    };
    let runtime = runtime()?;
    let Ok(time_ms) = u64::try_from(time_ms) else { return runtime.block_on(happens) };
    let late = || Failure::new(libc::ETIMEDOUT, "it has not happened in this time");
    let limited = async { tokio::time::timeout(Duration::from_millis(time_ms), happens).await };
    runtime.block_on(limited).map_err(|_| late())?
}

/// The value of an option.
pub(crate) fn get(fd: BorrowedFd<'_>, name: c_int) -> Result<Vec<u8>, Failure> {
    let descriptor = find(fd)?;
    let text = |text: &str| [text.as_bytes(), &[0]].concat();
    match name {
        option::ERROR | option::ERROR_TEXT => {
            let failure = failure_of(&descriptor);
            Ok(match (name, failure) {
                (option::ERROR, failure) => {
                    let errno = failure.map_or(0, |failure| failure.errno);
                    u64::from(errno.unsigned_abs()).to_ne_bytes().to_vec()
                }
                (_, failure) => text(&failure.map_or_else(String::new, |failure| failure.text)),
            })
        }
        option::PEER_NOTE => match session(&descriptor)? {
            Found::Session(Connected { note: Some(note), .. }) => Ok(note),
            Found::Session(Connected { session, .. }) => {
                Ok(runtime()?.block_on(session.greeted())?)
            }
            Found::Over(over) => Ok(over.note),
        },
        option::SESSION => Ok(match session(&descriptor)? {
            Found::Session(Connected { session, .. }) => session.id().0.to_vec(),
            Found::Over(over) => over.id.0.to_vec(),
        }),
        option::STATE => match session(&descriptor)? {
            Found::Session(Connected { session, .. }) => {
                runtime()?.block_on(session.greeted())?;
                let state = session.state();
                let none = || Failure::new(libc::ENOTCONN, "the session has no key yet");
                Ok(state.ok_or_else(none)?.to_bytes())
            }
            Found::Over(over) => {
                over.result?;
                Err(Failure::invalid("the session is over: nothing of it is left to continue"))
            }
        },
        option::ENCRYPTED => {
            let statistics = match session(&descriptor)? {
                Found::Session(Connected { session, .. }) => {
                    runtime()?.block_on(session.greeted())?;
                    session.statistics()
                }
                Found::Over(over) => over.statistics,
            };
            Ok(u64::from(statistics.is_encrypted).to_ne_bytes().to_vec())
        }
        option::SENT_DIGEST | option::RECEIVED_DIGEST => {
            let [sent, received] = match session(&descriptor)? {
                Found::Session(Connected { session, .. }) => digests(&session),
                Found::Over(over) => over.digests,
            };
            Ok(if name == option::SENT_DIGEST { sent } else { received })
        }
        option::LOCAL => match &*descriptor.stage() {
            Stage::Listening(listening) => match listening.local {
                Some(local) => Ok(text(&local.to_string())),
                None => Err(Failure::invalid("a meeting has no address here")),
            },
            Stage::Fresh(fresh) => match &fresh.bound {
                Some(Bound::Address(bound)) => Ok(text(&bound.local_addr()?.to_string())),
                Some(Bound::Meeting) => Err(Failure::invalid("a meeting has no address here")),
                None => Err(Failure::invalid("lsl_bind comes before LSL_LOCAL")),
            },
            _ => Err(Failure::invalid("only a listening descriptor has LSL_LOCAL")),
        },
        _ => match &*descriptor.stage() {
            Stage::Fresh(fresh) => Ok(fresh.settings.get(name)?.to_ne_bytes().to_vec()),
            Stage::Listening(listening) => Ok(listening.settings.get(name)?.to_ne_bytes().to_vec()),
            _ => Err(unknown(name)),
        },
    }
}

fn failure_of(descriptor: &Descriptor) -> Option<Failure> {
    match &*descriptor.stage() {
        Stage::Over(over) => over.result.clone().err(),
        _ => None,
    }
}

pub(crate) fn info(fd: BorrowedFd<'_>) -> Result<lsl_info, Failure> {
    let descriptor = find(fd)?;
    let filled = |state, statistics: Statistics, errno: c_int| lsl_info {
        state,
        connections: statistics.connections,
        depots: statistics.hops.len() as u32,
        error: errno.unsigned_abs(),
        sent_bytes: statistics.sent_bytes,
        acknowledged_bytes: statistics.acknowledged_bytes,
        received_bytes: statistics.received_bytes,
    };
    let stage = descriptor.stage();
    Ok(match &*stage {
        Stage::Fresh(_) => lsl_info { state: state::NEW, ..lsl_info::default() },
        Stage::Listening(_) => lsl_info { state: state::LISTENING, ..lsl_info::default() },
        Stage::Connected(Connected { session, .. }) => {
            let statistics = session.statistics();
            let is_connected = statistics.is_connected;
            filled(if is_connected { state::CONNECTED } else { state::CONNECTING }, statistics, 0)
        }
        Stage::Over(over) => match &over.result {
            Ok(()) => filled(state::OVER, over.statistics.clone(), 0),
            Err(failure) => filled(state::FAILED, over.statistics.clone(), failure.errno),
        },
    })
}
