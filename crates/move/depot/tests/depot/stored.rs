// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions that a depot keeps (`docs/lsl.md`, section 13), left and collected by the library's own ends.

mod arriving;
mod moved;
mod requests;
mod space;
mod strangers;
mod tickets;

use crate::common::process::Daemon;
use ::session::{Error, Options, Outgoing, Route, Session, Stored, Window};
use protocol::{
    Authority, DepotAddress,
    session::{
        SessionId,
        record::EndCode,
        request::{Kept, PublicKey, Request, SigningKey, StoredSession},
    },
};
use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

const DAY_S: u64 = 24 * 3600;

/// A directory for a store, which the depot makes below it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("store")
    }

    /// A depot with a store here, with further lines of its section.
    fn depot(&self, more: &str) -> Daemon {
        Daemon::depot(&settings(&self.path(), more))
    }
}

fn settings(path: &Path, more: &str) -> String {
    let has_size = more.lines().any(|line| line.starts_with("size ="));
    let size = if has_size { "" } else { "size = \"1GB\"\n" };
    let free = if more.contains("kept_free") { "" } else { "kept_free = \"1MB\"\n" };
    format!(
        "admin.listen = \"127.0.0.1:0\"\n[store]\npath = \"{}\"\n{size}{free}{more}\n",
        path.display()
    )
}

/// A key by its number.
fn key(number: u8) -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed(&[number; 32]))
}

fn public(number: u8) -> PublicKey {
    key(number).public()
}

fn id(number: u8) -> SessionId {
    SessionId([number; 16])
}

/// A name that no other session has.
fn fresh() -> SessionId {
    SessionId(host::random().unwrap())
}

fn route(depot: SocketAddr) -> Vec<Route> {
    vec![Route::store(&[DepotAddress::from(Authority::from(depot))]).unwrap()]
}

fn options(request: Request, signer: u8) -> Options {
    Options {
        request: Some((request, key(signer))),
        patience: Duration::from_secs(20),
        longest_wait: Duration::from_millis(100),
        ..Options::default()
    }
}

/// A session of a signer by its number, under this name.
fn begin(depot: SocketAddr, name: SessionId, signer: u8, request: Request) -> Session {
    let nothing = Outgoing::Window(Window::default());
    Session::begin(name, route(depot), nothing, options(request, signer))
}

/// A request of the first key, which the second may collect.
fn to_leave(bytes: Option<u64>) -> Request {
    Request::Leave { collector: public(2), bytes, life_s: DAY_S }
}

/// What is left, which can be read again.
#[derive(Debug)]
struct Content(Vec<u8>);

impl Stored for Content {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.copy_from_slice(&self.0[offset as usize..][..buffer.len()]);
        Ok(())
    }
}

/// Leaves bytes of the first key.
async fn leave(depot: &Daemon, name: SessionId, content: &[u8]) -> Result<(), Error> {
    leave_as(depot.address, name, to_leave(Some(content.len() as u64)), content).await
}

async fn leave_as(
    depot: SocketAddr,
    name: SessionId,
    request: Request,
    content: &[u8],
) -> Result<(), Error> {
    let content = Outgoing::Stored(Arc::new(Content(content.to_vec())));
    Session::send_as(depot, name, request, content).sent().await
}

/// Sessions with stored content.
trait SendAs {
    fn send_as(depot: SocketAddr, name: SessionId, request: Request, content: Outgoing) -> Session;
}

impl SendAs for Session {
    fn send_as(depot: SocketAddr, name: SessionId, request: Request, content: Outgoing) -> Session {
        Session::begin(name, route(depot), content, options(request, 1))
    }
}

/// Collects what a signer may.
async fn collect(
    depot: &Daemon,
    session: SessionId,
    signer: u8,
    from: u64,
) -> Result<(Kept, Vec<u8>), Error> {
    let collecting = begin(depot.address, fresh(), signer, Request::Collect { session, from });
    collecting.end();
    let kept = Kept::parse(&collecting.greeted().await?).expect("a note");
    Ok((kept, read_all(&collecting).await?))
}

async fn read_all(session: &Session) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    while let Some(chunk) = session.chunk().await? {
        all.extend_from_slice(&chunk);
    }
    session.closed().await?;
    Ok(all)
}

/// The lines with which the depot answers.
async fn ask(depot: &Daemon, signer: u8, request: Request) -> Result<Vec<StoredSession>, Error> {
    let asking = begin(depot.address, fresh(), signer, request);
    asking.end();
    let text = read_all(&asking).await?;
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    Ok(lines.map(|line| StoredSession::parse(line).unwrap()).collect())
}

async fn list(depot: &Daemon, signer: u8) -> Vec<StoredSession> {
    ask(depot, signer, Request::List { after: None }).await.unwrap()
}

/// Waits until an owner's only session is as wanted.
async fn until_stored(depot: &Daemon, wanted: impl Fn(&StoredSession) -> bool) -> StoredSession {
    for _ in 0..400 {
        if let [session] = &list(depot, 1).await[..]
            && wanted(session)
        {
            return session.clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not come: {:?}", list(depot, 1).await)
}

/// The code and text with which the depot has ended a session.
#[track_caller]
fn ended<T: std::fmt::Debug>(outcome: Result<T, Error>) -> (EndCode, String) {
    match outcome {
        Err(Error::Ended { code, text }) => (EndCode::of(code).unwrap(), text),
        other => panic!("not ended: {other:?}"),
    }
}

/// What the status page says of the store.
fn state(depot: &Daemon) -> longhaul_depot::status::StoreState {
    tokio::task::block_in_place(|| depot.status()).store.unwrap()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
