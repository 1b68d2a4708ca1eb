// SPDX-License-Identifier: GPL-2.0-or-later
//! Operations of the application on its session.

use super::{Core, Figures, Phase, State};
use crate::error::Error;
use ::route::SendOptions;
use bytes::Bytes;
use protocol::session::{GROUP, Position, Prefix, Value, handshake::EARLY_LIMIT};
use std::{
    future::poll_fn,
    task::{Context, Poll},
};

/// The least that is kept of what was written: the whole of a group is kept until the next one begins, so with less
/// the writer would wait forever.
const LEAST_WINDOW: u64 = 2 * GROUP;

impl Core {
    /// Waits until `ready` finds something, or the session has failed.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        ready: impl FnOnce(&mut State) -> Option<T>,
    ) -> Poll<Result<T, Error>> {
        let mut state = self.state();
        if let Some(found) = ready(&mut state) {
            return Poll::Ready(Ok(found));
        }
        if let Some(failure) = &state.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Takes what the application writes; says how much.
    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Error>> {
        let most = self.options.send_window.get().max(LEAST_WINDOW);
        let written = self.poll(context, |state| {
            if state.failure.is_some() {
                return None;
            }
            let taken = state.outgoing.write(bytes, most);
            (taken > 0 || bytes.is_empty()).then_some(taken)
        });
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.wake_writers();
        }
        written
    }

    /// The application writes no more.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.progress.is_ended = true;
        if let Some(duplex) = state.phase.duplex() {
            duplex.finish();
        }
        drop(state);
        self.wake_writers();
    }

    /// The next verified bytes; `None` at the end of the stream.
    pub(crate) fn poll_chunk(
        &self,
        context: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        let chunk = self.poll(context, |state| {
            let Some(mut first) = state.incoming.pop_front() else {
                return state.progress.is_whole.then_some(None);
            };
            if first.len() > most {
                let rest = first.split_off(most);
                state.incoming.push_front(rest);
            }
            Some(Some(first))
        });
        match &chunk {
            Poll::Ready(Ok(Some(bytes))) => self.taken(bytes.len() as u64),
            Poll::Ready(Ok(None)) if !self.options.confirm_by_hand => {
                if let Err(error) = self.confirm() {
                    return Poll::Ready(Err(error));
                }
            }
            _ => {}
        }
        chunk
    }

    /// So many bytes have gone to the application.
    fn taken(&self, bytes: u64) {
        let mut state = self.state();
        state.taken += bytes;
        // The window grows with what the application takes, as a congestion window does.
        let most = self.options.receive_window.get().max(EARLY_LIMIT);
        let window = state.taken.clamp(EARLY_LIMIT, most);
        let is_drained = state.incoming.is_empty();
        let duplex = state.phase.duplex().expect("what arrives has been verified");
        duplex.set_window(window);
        duplex.delivered(bytes, is_drained);
        drop(state);
        self.wake_writers();
    }

    /// The application has everything, in safety: the other end is told.
    pub(crate) fn confirm(&self) -> Result<(), Error> {
        let mut state = self.state();
        if !state.progress.is_confirmed {
            state.progress.is_confirmed = true;
            if state.progress.is_whole {
                self.confirm_now(&mut state)?;
            }
        }
        drop(state);
        self.wake_writers();
        Ok(())
    }

    /// The latest position that was passed with `written` bytes, to be kept.
    pub(crate) fn mark(&self, written: u64) -> Option<Position> {
        let mut state = self.state();
        if state.incoming.is_empty()
            && let Some(duplex) = state.phase.duplex()
            && duplex.receiving().received() == written
        {
            return Some(duplex.receiving().position());
        }
        let mut latest = None;
        while state.marks.front().is_some_and(|mark| mark.offset <= written) {
            latest = state.marks.pop_front();
        }
        latest
    }

    /// Waits until the other end has everything that was sent, and says so.
    pub(crate) async fn sent(&self) -> Result<(), Error> {
        let is_done = |state: &mut State| {
            state.phase.duplex().is_some_and(|duplex| duplex.sending().is_done()).then_some(())
        };
        poll_fn(|context| self.poll(context, is_done)).await
    }

    /// Waits until both ends have said and heard everything.
    pub(crate) async fn closed(&self) -> Result<(), Error> {
        let is_closed =
            |state: &mut State| (state.progress.is_closed && state.failure.is_none()).then_some(());
        poll_fn(|context| self.poll(context, is_closed)).await
    }

    /// Waits until the two ends have greeted each other.
    pub(crate) async fn greeted(&self) -> Result<Vec<u8>, Error> {
        // Not once there is a key: an initiator has that before it has checked what the acceptor says.
        let note = |state: &mut State| state.phase.duplex().map(|_| state.note.clone());
        poll_fn(|context| self.poll(context, note)).await
    }

    /// Waits until the other end has proved that it has the session's key.
    pub(crate) async fn await_proof(&self) -> Result<(), Error> {
        let proved = |state: &mut State| state.progress.is_proved.then_some(());
        poll_fn(|context| self.poll(context, proved)).await
    }

    /// The session's handle has gone.
    pub(crate) fn abandon(&self) {
        self.state().progress.is_abandoned = true;
        self.wake_writers();
    }

    /// How far both streams are: sent and acknowledged, received; connections so far; depots.
    pub(crate) fn figures(&self) -> Figures {
        let mut state = self.state();
        let (hops, connections, opened) = (state.hops.clone(), state.connections, state.opened);
        let (sending, received) = match &mut state.phase {
            Phase::Early(sending) => (&*sending, 0),
            Phase::Open(duplex) | Phase::Paused(duplex) => {
                (duplex.sending(), duplex.receiving().received())
            }
        };
        let (sent, limit, acknowledged) = (sending.sent(), sending.limit(), sending.acknowledged());
        let is_connected = matches!(state.phase, Phase::Open(_));
        let routes = state.route_figures();
        let (resumed, is_sealed) = (state.resumed, state.is_sealed);
        // Without an agreement on several connections there is one.
        let connections_at_once = state.send_options.connections.filter(|_| !routes.is_empty());
        let send_options =
            SendOptions { connections: connections_at_once, ..state.send_options.clone() };
        Figures {
            sent,
            limit,
            acknowledged,
            received,
            hops,
            connections,
            opened,
            resumed,
            is_connected,
            is_sealed,
            routes,
            send_options,
        }
    }

    /// The further digest of what was sent, once it is the whole.
    pub(crate) fn sent_digest(&self) -> Option<Vec<u8>> {
        let (covered, digest) = self.digests.as_ref()?.sent();
        let state = self.state();
        let is_all = state.progress.is_ended && state.outgoing.available() == covered;
        is_all.then_some(digest)
    }

    /// The further digest of what was received, once it is the whole and compared.
    pub(crate) fn received_digest(&self) -> Option<Vec<u8>> {
        let digest = self.digests.as_ref()?.received();
        self.state().progress.is_whole.then_some(digest)
    }

    /// The BLAKE3 hashes of what was sent and received so far.
    pub(crate) fn hashes(&self) -> [Value; 2] {
        match &self.state().phase {
            Phase::Early(sending) => [sending.hash(), Prefix::default().root()],
            Phase::Open(duplex) | Phase::Paused(duplex) => {
                [duplex.sending().hash(), duplex.receiving().hash()]
            }
        }
    }
}
