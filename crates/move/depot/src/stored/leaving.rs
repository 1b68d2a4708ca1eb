// SPDX-License-Identifier: GPL-2.0-or-later
//! Which session writes which stored one: the latest whose initiator has proved itself, after the one before has let go.

use protocol::session::SessionId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::AccessKey;
use tokio::sync::{Notify, OwnedMutexGuard};

/// The sessions that write.
#[derive(Debug, Default)]
pub(super) struct Leaving(Mutex<HashMap<Name, Arc<Writing>>>);

/// A session's name and its owner's key. Who has another key does not even interrupt it.
type Name = (SessionId, AccessKey);

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
    name: Name,
    own: Arc<Writing>,
    _lasts: OwnedMutexGuard<()>,
}

impl Leaving {
    /// The right to write this owner's session, once the one that has it was asked for it and has dropped it.
    pub(super) async fn take(self: &Arc<Self>, name: Name) -> Turn {
        let own = Arc::new(Writing::default());
        let lasts = Arc::clone(&own.lasts).lock_owned().await;
        let earlier = self.table().insert(name, Arc::clone(&own));
        let turn = Turn { leaving: Arc::clone(self), name, own, _lasts: lasts };
        if let Some(earlier) = earlier {
            earlier.stop.notify_one();
            drop(earlier.lasts.lock().await);
        }
        turn
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Name, Arc<Writing>>> {
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
        if table.get(&self.name).is_some_and(|latest| Arc::ptr_eq(latest, &self.own)) {
            table.remove(&self.name);
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
        let leaving = Arc::new(Leaving::default());
        let id = (SessionId([1; 16]), AccessKey([2; 32]));
        let _other = leaving.take((id.0, AccessKey([3; 32]))).await;
        let first = leaving.take(id).await;
        let mut second = pin!(leaving.take(id));
        let waits = poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
        assert!(waits);
        first.over().await;
        drop(first);
        let second = second.await;
        assert_eq!(leaving.table().len(), 2);
        drop(second);
        assert_eq!(leaving.table().len(), 1);
    }
}
