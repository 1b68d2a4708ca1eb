// SPDX-License-Identifier: GPL-2.0-or-later
//! Which session writes which stored one: the latest whose initiator has proved itself, after the one before has let go.

use protocol::session::SessionId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, OwnedMutexGuard};

/// The sessions that write.
#[derive(Debug, Default)]
pub(super) struct Leaving(Mutex<HashMap<SessionId, Arc<Writing>>>);

#[derive(Debug, Default)]
struct Writing {
    stop: Notify,
    /// Locked for as long as it may write.
    lasts: Arc<tokio::sync::Mutex<()>>,
}

/// The right to write a stored session, until it is dropped or asked to be.
#[derive(Debug)]
pub(super) struct Turn {
    leaving: Arc<Leaving>,
    session: SessionId,
    own: Arc<Writing>,
    _lasts: OwnedMutexGuard<()>,
}

impl Leaving {
    /// The right to write this session, once the one that has it was asked for it and has dropped it.
    pub(super) async fn take(self: &Arc<Self>, session: SessionId) -> Turn {
        let own = Arc::new(Writing::default());
        let lasts = Arc::clone(&own.lasts).lock_owned().await;
        let earlier = self.table().insert(session, Arc::clone(&own));
        let turn = Turn { leaving: Arc::clone(self), session, own, _lasts: lasts };
        if let Some(earlier) = earlier {
            earlier.stop.notify_one();
            drop(earlier.lasts.lock().await);
        }
        turn
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Writing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Resolves once another session is to write.
    pub(super) async fn over(&self) {
        self.own.stop.notified().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut table = self.leaving.table();
        if table.get(&self.session).is_some_and(|latest| Arc::ptr_eq(latest, &self.own)) {
            table.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Future, poll_fn};
    use std::{pin::pin, task::Poll};

    #[tokio::test]
    async fn a_later_one_waits_until_the_earlier_one_has_let_go() {
        let (leaving, id) = (Arc::new(Leaving::default()), SessionId([1; 16]));
        let first = leaving.take(id).await;
        let mut second = pin!(leaving.take(id));
        let waits = poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
        assert!(waits);
        first.over().await;
        drop(first);
        let second = second.await;
        assert_eq!(leaving.table().len(), 1);
        drop(second);
        assert!(leaving.table().is_empty());
    }
}
