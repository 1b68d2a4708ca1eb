// SPDX-License-Identifier: GPL-2.0-or-later
//! A session, as programs use it.

use crate::{
    core::{Core, RouteFigures},
    digest::Beginning,
    error::Error,
    initiator,
    options::Options,
    outgoing::Outgoing,
    route::Route,
    state::State,
};
use ::route::SendOptions;
use bytes::Bytes;
use protocol::session::{
    Direction, HopReport, Position, SessionId, Value, handshake::WholeDigest, record::EndCode,
};
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A two-way stream of bytes that outlives its connections. Dropped, it ends as soon as everything that was
/// [ended](Session::end) has arrived.
#[derive(Debug)]
pub struct Session {
    pub(crate) core: Arc<Core>,
}

/// How far a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes sent, without those that were sent again.
    pub sent_bytes: u64,
    /// Of those, bytes that the other end has delivered.
    pub acknowledged_bytes: u64,
    /// Bytes that the other end had when the session began.
    pub resumed_bytes: u64,
    /// Bytes received and verified.
    pub received_bytes: u64,
    /// Connections so far.
    pub connections: u32,
    /// Whether there is one now.
    pub is_connected: bool,
    /// Whether the latest connection is encrypted from end to end.
    pub is_encrypted: bool,
    /// The depots' reports about their connections when the latest was opened, the nearest depot first.
    pub hops: Vec<HopReport>,
    /// What each route carried, as the initiator was given them, if it uses several connections at once. Otherwise empty.
    pub routes: Vec<RouteStatistics>,
    /// How an initiator sends on the first hop, as its [chooser](Options::chooser) wants it.
    pub send_options: SendOptions,
}

/// What a route carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteStatistics {
    /// Connections so far on which both ends have proved themselves.
    pub connections: u32,
    /// Bytes of the stream that have arrived at the other end. What another route had brought already is included.
    pub sent_bytes: u64,
    /// Bytes of the other stream that have come, likewise.
    pub received_bytes: u64,
}

impl From<RouteFigures> for RouteStatistics {
    fn from(figures: RouteFigures) -> Self {
        let RouteFigures { connections, sent, received } = figures;
        Self { connections, sent_bytes: sent, received_bytes: received }
    }
}

impl Session {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Opens a session, by the first of these routes that works. It continues by the next when one fails, or uses several at
    /// once ([`Options::connections`]). Needs a runtime of tokio; connects while the session is written to already.
    ///
    /// # Panics
    /// There is no route.
    pub fn connect(routes: Vec<Route>, options: Options) -> Self {
        Self::send(routes, Outgoing::Window(crate::outgoing::Window::default()), options)
    }

    /// The same, with what is stored in place of what is written: nothing can be written.
    ///
    /// # Panics
    /// There is no route.
    pub fn send(routes: Vec<Route>, outgoing: Outgoing, options: Options) -> Self {
        Self::begin(initiator::new_session(), routes, outgoing, options)
    }

    /// The same by a name that both ends know.
    ///
    /// # Panics
    /// There is no route.
    pub fn begin(
        session: SessionId,
        routes: Vec<Route>,
        outgoing: Outgoing,
        options: Options,
    ) -> Self {
        assert!(!routes.is_empty(), "a session needs a route");
        let core = Core::initiator(session, outgoing, options);
        tokio::spawn(initiator::keep(Arc::clone(&core), routes));
        Self { core }
    }

    /// Continues a session of an earlier process. `received` is a [`Beginning`], or a `Prefix` if the session has no further
    /// digest.
    ///
    /// # Errors
    /// The received bytes were not hashed for the further digest ([`State::digest`]).
    ///
    /// # Panics
    /// There is no route.
    pub fn resume(
        state: &State,
        routes: Vec<Route>,
        outgoing: Outgoing,
        received: impl Into<Beginning>,
        options: Options,
    ) -> Result<Self, Error> {
        assert!(!routes.is_empty(), "a session needs a route");
        let (own, received) = (Direction::FromInitiator, received.into());
        let core = Core::with_key(state, own, 0, received, outgoing, options)?;
        tokio::spawn(initiator::keep(Arc::clone(&core), routes));
        Ok(Self { core })
    }

    /// The session's name.
    pub fn id(&self) -> SessionId {
        self.core.session
    }

    /// Waits until both ends have greeted each other; with the acceptor's note.
    ///
    /// # Errors
    /// The session has failed.
    pub async fn greeted(&self) -> Result<Vec<u8>, Error> {
        self.core.greeted().await
    }

    /// Waits until the other end has proved that it has the session's key. Before, an acceptor may talk to somebody who has
    /// recorded a HELLO.
    ///
    /// # Errors
    /// The session has failed.
    pub async fn proved(&self) -> Result<(), Error> {
        self.core.await_proof().await
    }

    /// The next verified bytes, as they came; `None` at the end of the stream.
    ///
    /// # Errors
    /// The session has failed.
    pub async fn chunk(&self) -> Result<Option<Bytes>, Error> {
        poll_fn(|context| self.core.poll_chunk(context, usize::MAX)).await
    }

    /// Writes all of it, once there is room.
    ///
    /// # Errors
    /// The session has failed.
    pub async fn write(&self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| self.core.poll_write(context, bytes)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// What is stored has become longer: the rest is sent.
    pub fn grown(&self) {
        self.core.to_send.notify_one();
    }

    /// Nothing more will be written, or what is stored does not grow any more. The other direction stays open.
    pub fn end(&self) {
        self.core.end();
    }

    /// Waits until the other end has proved that it has everything that was sent. [`end`](Self::end) comes before.
    ///
    /// # Errors
    /// The session has failed.
    pub async fn sent(&self) -> Result<(), Error> {
        self.core.sent().await
    }

    /// Waits until both ends know that both streams have arrived, and the connection is closed. A program that exits before
    /// may leave the other end waiting. [`end`](Self::end), and reading to the end, come before.
    ///
    /// # Errors
    /// The session has failed.
    pub async fn closed(&self) -> Result<(), Error> {
        self.core.closed().await
    }

    /// Waits, after [`closed`](Self::closed), until [`Options::chooser`] knows how the last connection went: a moment. A
    /// program that exits before may lose that.
    pub async fn settled(&self) {
        let mut settled = self.core.settled.subscribe();
        // Its sender lives as long as the session.
        let _ = settled.wait_for(|settled| *settled).await;
    }

    /// Whether nothing is left to be done: both streams have arrived as a whole, both ends have said so, and the last
    /// connection is over. A program that ends now leaves nothing open at the other end.
    pub fn is_over(&self) -> bool {
        self.core.is_over() && !self.core.figures().is_connected
    }

    /// Everything that was received is safe: the other end is told so. Only with [`Options::confirm_by_hand`] is
    /// this not done when the end of the stream is read.
    ///
    /// # Errors
    /// The session has failed.
    pub fn confirm(&self) -> Result<(), Error> {
        self.core.confirm()
    }

    /// Ends the session at both ends because the application cannot read its content.
    pub fn fail(&self, error: io::Error) {
        self.core.fail(Error::Source(Arc::new(error)));
    }

    /// Ends the session at both ends, with this code and text for the user there.
    pub fn end_with(&self, code: EndCode, text: &str) {
        self.core.fail(Error::EndedHere { code, text: text.to_owned() });
    }

    /// Another session takes its place: this one fails with [`Error::Replaced`].
    pub fn replace(&self) {
        self.core.fail(Error::Replaced);
    }

    /// The BLAKE3 hash of what was sent so far.
    pub fn sent_hash(&self) -> Value {
        self.core.hashes()[0]
    }

    /// The BLAKE3 hash of what was received so far.
    pub fn received_hash(&self) -> Value {
        self.core.hashes()[1]
    }

    /// The further digest of each stream that both ends compare: as [`Options::digest`] of the initiator has it.
    pub fn digest(&self) -> Option<WholeDigest> {
        self.core.digest()
    }

    /// The further digest of what was sent; `None` without one, and before the whole was sent.
    pub fn sent_digest(&self) -> Option<Vec<u8>> {
        self.core.sent_digest()
    }

    /// The further digest of what was received, which is the one that the other end has said; `None` without one, and before
    /// the whole was received.
    pub fn received_digest(&self) -> Option<Vec<u8>> {
        self.core.received_digest()
    }

    /// The state with which another process continues, with nothing received: set [`State::received`] to the
    /// latest [`position`](Self::position). `None` before the handshake is complete.
    pub fn state(&self) -> Option<State> {
        let (key, _, _) = self.core.terms()?;
        let (session, digest) = (self.core.session, self.core.digest());
        Some(State { session, key, digest, received: Position::default() })
    }

    /// The latest position that `written` received bytes include, if there is one that was not asked for yet.
    pub fn position(&self, written: u64) -> Option<Position> {
        self.core.mark(written)
    }

    /// How far it is.
    pub fn statistics(&self) -> Statistics {
        let figures = self.core.figures();
        Statistics {
            sent_bytes: figures.sent,
            acknowledged_bytes: figures.acknowledged,
            resumed_bytes: figures.resumed,
            received_bytes: figures.received,
            connections: figures.connections,
            is_connected: figures.is_connected,
            is_encrypted: figures.is_sealed,
            hops: figures.hops,
            routes: figures.routes.into_iter().map(RouteStatistics::from).collect(),
            send_options: figures.send_options,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.core.abandon();
    }
}

impl AsyncRead for Session {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.core.poll_chunk(context, buffer.remaining()).map(|chunk| {
            if let Some(bytes) = chunk.map_err(io::Error::from)? {
                buffer.put_slice(&bytes);
            }
            Ok(())
        })
    }
}

impl AsyncWrite for Session {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.core.poll_write(context, bytes).map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.core.end();
        Poll::Ready(Ok(()))
    }
}
