// SPDX-License-Identifier: GPL-2.0-or-later
//! Unix sockets for this user and root alone.

use rustix::{net::sockopt::socket_peercred, process::Uid};
use std::{
    fs::{self, Permissions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};
use tokio::net::{UnixListener, UnixStream};

/// A socket that listens. It is removed when this is dropped, unless it is another's by then.
#[derive(Debug)]
pub(crate) struct PrivateSocket {
    socket: UnixListener,
    /// Where it is.
    path: PathBuf,
    /// Where it is to be.
    published: PathBuf,
    inode: u64,
}

impl PrivateSocket {
    /// Listens at a path, and replaces an existing socket atomically.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let mut socket = Self::unpublished(path)?;
        socket.publish()?;
        Ok(socket)
    }

    /// Listens at a path next to this one, so that a depot listens at the path itself at any time.
    pub(crate) fn unpublished(path: &Path) -> io::Result<Self> {
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(new);
        let _ = fs::remove_file(&new);
        let socket = UnixListener::bind(&new)?;
        fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        let inode = fs::metadata(&new)?.ino();
        Ok(Self { socket, path: new, published: path.to_owned(), inode })
    }

    /// Moves it to its path, in place of an existing socket.
    pub(crate) fn publish(&mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.published)?;
        self.path.clone_from(&self.published);
        Ok(())
    }

    /// Accepts the next connection, of any user.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.socket.accept().await?.0)
    }
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Checks that a client runs as this user or root. File permissions are not enough: they do not apply to a
/// connection from before they were set, nor to a socket that another user created.
pub(crate) fn check_peer(stream: &impl AsFd) -> io::Result<()> {
    check(stream, |uid| uid == rustix::process::geteuid())
}

/// Checks that the depot at this path runs as this user, as root, or as the user whom the directory belongs to: root
/// asks depots of other users, and nobody else can have made a socket there.
pub(crate) fn check_depot(stream: &impl AsFd, path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let data = fs::metadata(directory.unwrap_or(Path::new(".")))?;
    let is_private = data.mode() & 0o022 == 0;
    check(stream, |uid| {
        uid == rustix::process::geteuid() || is_private && uid.as_raw() == data.uid()
    })
}

fn check(stream: &impl AsFd, is_trusted: impl Fn(Uid) -> bool) -> io::Result<()> {
    let who = socket_peercred(stream)?.uid;
    if who.is_root() || is_trusted(who) {
        return Ok(());
    }
    let text = format!("the user {} is at the other end", who.as_raw());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}
