// SPDX-License-Identifier: GPL-2.0-or-later
//! What `longhaul intercept status` shows, over a socket of this network namespace that goes with its process.

use super::Interceptor;
use crate::connections::Status;
use rustix::{net::sockopt::socket_peercred, process::geteuid};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Read, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    sync::Arc,
    time::Duration,
};

/// Abstract name: it is not in the file system, and each network namespace has its own.
const NAME: &[u8] = b"longhaul-intercept";
/// Time limit for each read and write.
const TIME: Duration = Duration::from_secs(5);
/// Size limit of a report in bytes: `MOST_OPEN` connections with 16 depots each.
const LONGEST: u64 = 64 << 20;

/// Settings and connections of a running interceptor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Networks whose forwarded connections are intercepted.
    pub clients: Vec<String>,
    /// Whether connections of the host itself are.
    pub this_host: bool,
    /// Connections that wait for their session.
    pub held: usize,
    /// Connections and totals.
    #[serde(flatten)]
    pub status: Status,
}

/// Answers root and this process's user.
pub(super) async fn serve(interceptor: Arc<Interceptor>) {
    let listener = SocketAddr::from_abstract_name(NAME).and_then(|name| {
        let listener = UnixListener::bind_addr(&name)?;
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    });
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "there is no `longhaul intercept status`"),
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(stream) = stream.into_std() else { continue };
        if !is_trusted(&stream) {
            continue;
        }
        let Ok(report) = serde_json::to_vec(&interceptor.report()) else { continue };
        // One at a time, and not in the thread that moves packets.
        let _ = tokio::task::spawn_blocking(move || send(stream, &report)).await;
    }
}

fn send(mut stream: UnixStream, report: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TIME))?;
    stream.write_all(report)
}

/// Whether root or this user is at the other end. Any user can take an abstract name, and connect to one.
fn is_trusted(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid())
}

/// Asks the interceptor of this network namespace.
///
/// # Errors
/// None runs here, or it is another user's.
pub fn status() -> io::Result<Report> {
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(NAME)?)?;
    stream.set_read_timeout(Some(TIME))?;
    if !is_trusted(&stream) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is run by another user"));
    }
    let mut text = Vec::new();
    (&mut stream).take(LONGEST).read_to_end(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it answers root alone: run this with sudo",
        ));
    }
    serde_json::from_slice(&text).map_err(io::Error::other)
}

impl Interceptor {
    fn report(&self) -> Report {
        let config = self.config();
        Report {
            clients: config.clients.iter().map(ToString::to_string).collect(),
            this_host: config.this_host,
            held: self.held.count(),
            status: self.live.status(),
        }
    }
}
