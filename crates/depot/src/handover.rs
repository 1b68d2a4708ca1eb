// SPDX-License-Identifier: GPL-2.0-or-later
//! One depot takes over from another without refusing a connection.
//!
//! ```text
//! successor                              predecessor
//!   checks its configuration
//!   connects to `handover` ────────────▶
//!   ◀─────────── copies of all listeners (SCM_RIGHTS)
//!   listens on `handover` itself, serves
//!   one byte ──────────────────────────▶ stops accepting, finishes what is under way, ends
//! ```
//! Where the byte does not come (the successor has failed), the predecessor goes on as if nothing had
//! happened. Both accept meanwhile, and neither loses anything by that.

use crate::private_socket::{PrivateSocket, check_peer};
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
/// Maximum number of listeners that are handed over.
const MOST: usize = 64;
const SPACE: usize = cmsg_space!(ScmRights(MOST));

/// What a successor has been given, and still owes.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The listeners.
    pub listeners: Vec<OwnedFd>,
    /// The predecessor, which waits to hear that it can go.
    predecessor: Option<UnixStream>,
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
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = recvmsg(&stream, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    if message.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok(Taken { listeners: files.flatten().collect(), predecessor: Some(stream) })
}

/// No depot listens: the socket does not exist, or a depot has left it behind.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

impl Taken {
    /// Lets the predecessor go.
    pub(crate) fn confirm(self) {
        if let Some(mut predecessor) = self.predecessor
            && let Err(error) = predecessor.write_all(&[1])
        {
            tracing::warn!(%error, "the depot before this one does not hear that it can go");
        }
    }
}

/// Where a successor asks.
#[derive(Debug)]
pub(crate) struct Offer(PrivateSocket);

impl Offer {
    /// Listens at `path`, for this user only, and replaces the socket of an earlier depot.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        PrivateSocket::new(path).map(Self)
    }

    /// Hands copies of the listeners to each successor that asks. Resolves once one has them and serves.
    pub(crate) async fn taken(&self, listeners: &[OwnedFd]) {
        loop {
            let served = match self.0.accept().await {
                Ok(stream) => serve(stream, listeners).await,
                Err(error) => Err(error),
            };
            match served {
                Ok(true) => return,
                Ok(false) => {
                    tracing::warn!("a successor has taken the listeners and does not serve");
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot hand the listeners over");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Hands the listeners over. Returns whether the successor serves.
async fn serve(stream: tokio::net::UnixStream, listeners: &[OwnedFd]) -> io::Result<bool> {
    let stream = stream.into_std()?;
    check_peer(&stream)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    send(&stream, listeners)?;
    let mut answer = [0];
    let read = tokio::task::spawn_blocking(move || (&stream).read(&mut answer)).await?;
    Ok(matches!(read, Ok(1)))
}

fn send(stream: &UnixStream, listeners: &[OwnedFd]) -> io::Result<()> {
    let files: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other(format!("more than {MOST} listeners")));
    }
    sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, path::PathBuf};

    #[tokio::test(flavor = "multi_thread")]
    async fn listeners_pass_to_successor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(take(&path).unwrap().listeners.is_empty(), "no depot listens");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let offer = Offer::new(&path).unwrap();
        let given = [OwnedFd::from(listener)];
        let ask = |path: PathBuf| tokio::task::spawn_blocking(move || take(&path).unwrap());

        let mut taken = Box::pin(offer.taken(&given));
        // One that fails after it has them.
        tokio::select! {
            () = &mut taken => panic!("no successor has confirmed"),
            got = ask(path.clone()) => drop(got.unwrap()),
        }
        // And one that serves.
        let asked = ask(path.clone());
        let (got, ()) = tokio::join!(
            async {
                let got = asked.await.unwrap();
                let listener = got.listeners[0].try_clone().unwrap();
                got.confirm();
                TcpListener::from(listener)
            },
            taken
        );
        assert_eq!(got.local_addr().unwrap(), address);
        let successor = Offer::new(&path).unwrap();
        drop(offer);
        assert!(path.exists(), "it is the successor's");
        drop(successor);
        assert!(!path.exists());
    }
}
