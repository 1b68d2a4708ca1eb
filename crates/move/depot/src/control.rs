// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands of operators to a depot that runs: list transfers, end and slow them, and shut clients and tickets out.
//!
//! ```text
//! longhaul depot end --ticket 5f0c... ──▶ ask ── one line of JSON ──▶ serve ──▶ carried out ──▶ one line of JSON
//! ```
//! Only root and the depot's own user can connect, and both could also end the depot. Commands are bounded in
//! length and time all the same, so that a faulty program cannot do more harm. Transfers never wait for
//! commands.

mod carry_out;
pub(crate) mod draining;
pub(crate) mod kept;
mod message;
pub(crate) mod processes;
pub(crate) mod sharing;

pub use crate::admission::denied::{Denial, Shunned};
pub(crate) use carry_out::{decide, decided};
pub use message::{
    Answer, Command, Elsewhere, Limit, Limited, OpenConnections, Policy, Share, Which,
};
pub(crate) use processes::Sharing;

use crate::{
    observe::OWN_DEFECT,
    private_socket::{PrivateSocket, check_depot, check_peer},
    state::Shared,
};
use ::protocol::Panicked;
use carry_out::carry_out;
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream as StdStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::{Semaphore, mpsc::WeakSender},
    time::timeout,
};

/// Connections at a time; further ones wait.
const CONNECTIONS: usize = 64;
/// The longest command of an operator, in bytes, without its line feed.
const LONGEST: usize = 16 << 10;
/// The longest command of a successor: it names clients.
const LONGEST_OF_SUCCESSOR: usize = 16 << 20;
/// How much is read of a longer one, so that its sender gets the answer, and no reset.
const LONGEST_REFUSED: usize = 1 << 20;
/// How long a command may take to come: who says nothing is not to hold the next one up.
const HEARING: Duration = Duration::from_secs(2);
/// Maximum duration of a connection.
const LIFE: Duration = Duration::from_secs(10);
/// How long a command waits for the depot.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: u64 = 64 << 20;

/// Where commands come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `control.socket`.
    Operator,
    /// The socket of a depot that drains.
    Successor,
}

impl Origin {
    const fn longest(self) -> usize {
        match self {
            Self::Operator => LONGEST,
            Self::Successor => LONGEST_OF_SUCCESSOR,
        }
    }
}

/// Carries commands out for as long as the depot runs, also while it drains. It does not end before it has answered the
/// command that has ended its last transfer: `alive` is held meanwhile.
pub(crate) async fn serve(
    socket: PrivateSocket,
    origin: Origin,
    shared: Arc<Shared>,
    alive: WeakSender<()>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match socket.accept().await {
            Ok(stream) => {
                let (shared, alive) = (Arc::clone(&shared), alive.clone());
                tokio::spawn(async move {
                    if let Ok(Err(error)) =
                        timeout(LIFE, serve_one(stream, origin, shared, alive)).await
                    {
                        tracing::debug!(%error, "a command was not carried out, or not answered");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection with commands");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One command, and its answer.
async fn serve_one(
    mut stream: UnixStream,
    origin: Origin,
    shared: Arc<Shared>,
    alive: WeakSender<()>,
) -> io::Result<()> {
    check_peer(&stream)?;
    let longest = origin.longest();
    let line = timeout(HEARING, read_line(&mut stream, longest)).await??;
    let _until_answered = alive.upgrade();
    let answer = match line.as_deref().map(serde_json::from_slice::<Command>) {
        Some(Ok(command)) => {
            // It may write a file, and asks the kernel about many sockets.
            let by = Arc::clone(&shared);
            match tokio::task::spawn_blocking(move || carry_out(command, origin, &by)).await {
                Ok(answer) => answer,
                Err(error) => {
                    let panicked = Panicked::of(&*error.try_into_panic()?);
                    shared.observer.counts.panicked("a command", &panicked);
                    Answer::Error(OWN_DEFECT.to_owned())
                }
            }
        }
        Some(Err(error)) => Answer::Error(format!("no command: {error}")),
        None => Answer::Error(too_long(longest)),
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    stream.write_all(&text).await?;
    if matches!(&answer, Answer::Share(share) if share.is_over) {
        shared.lifecycle.sharing.has_said_so();
    }
    stream.shutdown().await
}

/// The bytes before the first line feed, or all. `None` if there are too many, of which [`LONGEST_REFUSED`] are read.
async fn read_line(stream: &mut UnixStream, longest: usize) -> io::Result<Option<Vec<u8>>> {
    let (mut line, mut part, mut dropped) = (Vec::new(), [0; 4 << 10], 0);
    loop {
        let read = stream.read(&mut part).await?;
        let end = part[..read].iter().position(|byte| *byte == b'\n');
        let more = end.unwrap_or(read);
        if dropped == 0 && line.len() + more <= longest {
            line.extend_from_slice(&part[..more]);
        } else {
            dropped += more;
        }
        if end.is_some() || read == 0 || dropped > LONGEST_REFUSED {
            return Ok((dropped == 0).then_some(line));
        }
    }
}

fn too_long(longest: usize) -> String {
    format!("the command is longer than {longest} bytes: shorten it, for example its --why")
}

/// Why a depot has not carried out a command.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is no way to it.
    #[error("{}: {error}{}", path.display(), hint(error))]
    Unreachable {
        /// Its socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// It has answered something else.
    #[error("{} does not answer as a depot: {reason}", path.display())]
    Answer {
        /// Its socket.
        path: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// Its own reason.
    #[error("{0}")]
    Refused(String),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (commands are for root and the depot's own user)",
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            " (does the depot run, with this `control.socket`?)"
        }
        _ => "",
    }
}

/// Has the depot at this socket carry a command out.
///
/// # Errors
/// There is no depot, or it refuses.
pub fn ask(path: &Path, command: &Command) -> Result<Answer, ControlError> {
    ask_within(path, command, PATIENCE)
}

fn ask_within(path: &Path, command: &Command, patience: Duration) -> Result<Answer, ControlError> {
    let unreachable = |error| ControlError::Unreachable { path: path.to_owned(), error };
    let mut line = serde_json::to_vec(command).map_err(|error| unreachable(error.into()))?;
    let to =
        if matches!(command, Command::Share(_)) { Origin::Successor } else { Origin::Operator };
    if line.len() > to.longest() {
        return Err(ControlError::Refused(too_long(to.longest())));
    }
    line.push(b'\n');
    let exchange = || {
        let mut stream = StdStream::connect(path)?;
        check_depot(&stream, path)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(&line)?;
        let mut answer = Vec::new();
        stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
        io::Result::Ok(answer)
    };
    let text = exchange().map_err(unreachable)?;
    let answer = serde_json::from_slice(&text);
    match answer {
        Ok(Answer::Error(text)) => Err(ControlError::Refused(text)),
        Ok(answer) => Ok(answer),
        Err(error) => {
            let reason = error.to_string();
            Err(ControlError::Answer { path: path.to_owned(), reason })
        }
    }
}
