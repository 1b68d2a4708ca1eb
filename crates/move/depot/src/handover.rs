// SPDX-License-Identifier: GPL-2.0-or-later
//! One depot takes over from another without refusing a connection.
//!
//! ```text
//! successor                              predecessor
//!   checks its configuration
//!   connects to `handover` ────────────▶
//!   ◀─ VERSION, copies of all listeners (SCM_RIGHTS)
//!   opens its own sockets
//!   TELL ──────────────────────────────▶ accepts no connection for now
//!   ◀──────────────────── length, [`Inheritance`] as JSON
//!   counts what it has been told
//!   SERVES ────────────────────────────▶ finishes what is under way, ends
//! ```
//! Connections wait in the listeners' queues between TELL and SERVES, so that no limit is exceeded while neither knows
//! what the other has accepted. If SERVES does not come (the successor has failed), the predecessor goes on as if nothing
//! had happened. Depots of earlier versions know no TELL: a successor then says SERVES at once, and knows less.

use crate::{
    inheritance::Inheritance,
    private_socket::{PrivateSocket, check_peer},
};
use rustix::{
    cmsg_space,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use std::{
    io,
    io::{IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::Duration,
};

/// How long either waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);
/// This version of the protocol. The first one, 0, has no [`TELL`].
const VERSION: u8 = 1;
/// The successor serves.
const SERVES: u8 = 1;
/// The predecessor is to accept nothing more, and to say what it knows.
const TELL: u8 = 2;
/// Maximum length of what is inherited, in bytes: all uses of tickets are most of it.
const LONGEST: u32 = 256 << 20;
/// Maximum number of listeners that are handed over.
const MOST: usize = 64;
const SPACE: usize = cmsg_space!(ScmRights(MOST));

/// What a successor has been given, and still owes.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The listeners.
    pub listeners: Vec<OwnedFd>,
    /// The predecessor, which waits to hear that it can go.
    predecessor: Option<Predecessor>,
}

#[derive(Debug)]
struct Predecessor {
    stream: UnixStream,
    version: u8,
}

/// Asks the depot that listens at `path` for its listeners. Empty if there is none.
pub(crate) fn take(path: &Path) -> io::Result<Taken> {
    let stream = match UnixStream::connect(path) {
        Err(error) if is_absent(&error) => return Ok(Taken::default()),
        connected => connected?,
    };
    // Listeners of another user would let that user choose the clients' destination.
    check_peer(&stream)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut version = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = recvmsg(&stream, &mut [IoSliceMut::new(&mut version)], &mut control, flags)?;
    if message.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let predecessor = Some(Predecessor { stream, version: version[0] });
    Ok(Taken { listeners: files.flatten().collect(), predecessor })
}

/// No depot listens: the socket does not exist, or a depot has left it behind.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

impl Taken {
    /// Has the predecessor stop accepting, and say what it knows. `None` if there is none, if it is of an earlier version,
    /// or if it ends in this moment.
    pub(crate) fn inherit(&mut self) -> io::Result<Option<Inheritance>> {
        let Some(Predecessor { stream, version: 1.. }) = &mut self.predecessor else {
            return Ok(None);
        };
        match told(stream) {
            Ok(inheritance) => Ok(Some(inheritance)),
            Err(error) if is_end(&error) => {
                tracing::warn!(%error, "the depot before this one has ended while it handed over");
                self.predecessor = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is a predecessor that does not say what it knows.
    pub(crate) fn is_of_earlier_version(&self) -> bool {
        self.predecessor.as_ref().is_some_and(|predecessor| predecessor.version == 0)
    }

    /// Lets the predecessor go.
    pub(crate) fn confirm(self) {
        if let Some(Predecessor { mut stream, .. }) = self.predecessor
            && let Err(error) = stream.write_all(&[SERVES])
        {
            tracing::warn!(%error, "the depot before this one does not hear that it can go");
        }
    }
}

/// What the predecessor says.
fn told(stream: &mut UnixStream) -> io::Result<Inheritance> {
    stream.write_all(&[TELL])?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > LONGEST {
        let text = format!("the depot before this one announces {length} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut text = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut text)?;
    if text.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&text)?)
}

/// The other process has ended.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Where a successor asks.
#[derive(Debug)]
pub(crate) struct Offer(PrivateSocket);

/// A successor that has the listeners.
#[derive(Debug)]
pub(crate) enum Successor {
    /// It serves.
    Serves,
    /// It waits for what this depot knows.
    Asks(UnixStream),
}

impl Offer {
    /// Listens at `path`, for this user only, once it is published.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        PrivateSocket::unpublished(path).map(Self)
    }

    /// Replaces the socket of an earlier depot.
    pub(crate) fn publish(&mut self) -> io::Result<()> {
        self.0.publish()
    }

    /// Hands copies of the listeners to each successor that asks. Resolves once one has them and goes on.
    pub(crate) async fn successor(&self, listeners: &[OwnedFd]) -> Successor {
        loop {
            let served = match self.0.accept().await {
                Ok(stream) => serve(stream, listeners).await,
                Err(error) => Err(error),
            };
            match served {
                Ok(Some(successor)) => return successor,
                Ok(None) => warn_of_failed_successor(),
                Err(error) => {
                    tracing::warn!(%error, "cannot hand the listeners over");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Logs that a successor has failed.
pub(crate) fn warn_of_failed_successor() {
    tracing::warn!("a successor has taken the listeners and does not serve");
}

/// Hands the listeners over. Returns what the successor says, if it does.
async fn serve(
    stream: tokio::net::UnixStream,
    listeners: &[OwnedFd],
) -> io::Result<Option<Successor>> {
    let stream = stream.into_std()?;
    check_peer(&stream)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    send(&stream, listeners)?;
    let (stream, said) = said(stream).await?;
    Ok(match said {
        Some(SERVES) => Some(Successor::Serves),
        Some(TELL) => Some(Successor::Asks(stream)),
        _ => None,
    })
}

/// Tells a successor what this depot knows. Returns whether the successor serves.
pub(crate) async fn tell(mut stream: UnixStream, text: Vec<u8>) -> io::Result<bool> {
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or(io::ErrorKind::FileTooLarge)?;
    let written = tokio::task::spawn_blocking(move || {
        stream.write_all(&length.to_be_bytes())?;
        stream.write_all(&text)?;
        io::Result::Ok(stream)
    });
    let (_, said) = said(written.await??).await?;
    Ok(said == Some(SERVES))
}

/// The next byte that a successor sends, if it does in time.
async fn said(stream: UnixStream) -> io::Result<(UnixStream, Option<u8>)> {
    let read = tokio::task::spawn_blocking(move || {
        let mut byte = [0];
        let read = (&stream).read(&mut byte);
        (stream, matches!(read, Ok(1)).then_some(byte[0]))
    });
    Ok(read.await?)
}

fn send(stream: &UnixStream, listeners: &[OwnedFd]) -> io::Result<()> {
    let files: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other(format!("more than {MOST} listeners")));
    }
    sendmsg(stream, &[IoSlice::new(&[VERSION])], &mut control, SendFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, path::PathBuf};

    #[tokio::test(flavor = "multi_thread")]
    async fn listeners_and_knowledge_pass_to_successor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(take(&path).unwrap().listeners.is_empty(), "no depot listens");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut offer = Offer::new(&path).unwrap();
        assert!(take(&path).unwrap().listeners.is_empty(), "it is not published yet");
        offer.publish().unwrap();
        let given = [OwnedFd::from(listener)];
        let ask = |path: PathBuf| tokio::task::spawn_blocking(move || take(&path).unwrap());

        let mut successor = Box::pin(offer.successor(&given));
        // One that fails after it has them.
        tokio::select! {
            _ = &mut successor => panic!("no successor has asked"),
            got = ask(path.clone()) => drop(got.unwrap()),
        }
        // And one that serves.
        let serving = tokio::task::spawn_blocking({
            let path = path.clone();
            move || {
                let mut got = take(&path).unwrap();
                assert!(!got.is_of_earlier_version());
                let inherited = got.inherit().unwrap().expect("it knows something");
                let listener = got.listeners[0].try_clone().unwrap();
                got.confirm();
                (TcpListener::from(listener), inherited)
            }
        });
        let Successor::Asks(stream) = successor.await else { panic!("it asks nothing") };
        let known = Inheritance { last_number: 17, ..Inheritance::default() };
        let served = tell(stream, serde_json::to_vec(&known).unwrap()).await;
        assert!(served.unwrap());
        let (got, inherited) = serving.await.unwrap();
        assert_eq!((got.local_addr().unwrap(), inherited.last_number), (address, 17));
        let mut successor = Offer::new(&path).unwrap();
        successor.publish().unwrap();
        drop(offer);
        assert!(path.exists(), "it is the successor's");
        drop(successor);
        assert!(!path.exists());
    }

    #[test]
    fn malformed_inheritance_is_refused() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut taken = Taken {
            listeners: Vec::new(),
            predecessor: Some(Predecessor { stream: theirs, version: 200 }),
        };
        ours.write_all(&[0, 0, 0, 2, b'[', b'x']).unwrap();
        assert!(taken.inherit().is_err());
        ours.write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(taken.inherit().unwrap_err().to_string().contains("announces"));
        // One that ends half way is no more than a crash.
        ours.write_all(&[0, 0, 0, 9, b'{']).unwrap();
        drop(ours);
        assert!(taken.inherit().unwrap().is_none());
    }
}
