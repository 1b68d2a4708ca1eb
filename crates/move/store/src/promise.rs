// SPDX-License-Identifier: GPL-2.0-or-later
//! Answers that come later: a future that knows no runtime, and a blocking wait.

use crate::{error::StoreError, record::State};
use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

type Outcome = Result<State, StoreError>;

#[derive(Default)]
struct Slot(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl Slot {
    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is on disk when this is ready. Dropping it changes nothing of what is done.
#[must_use = "nothing holds before it is ready"]
pub struct Promise<T> {
    slot: Arc<Slot>,
    read: fn(State) -> T,
}

impl<T> Promise<T> {
    /// Blocks until it is ready.
    ///
    /// # Errors
    /// Nothing is promised; what may be true all the same is said by the operation.
    pub fn wait(self) -> Result<T, StoreError> {
        block_on(self, None).unwrap_or(Err(StoreError::Closed))
    }
}

impl<T> Future for Promise<T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = self.slot.locked();
        if let Some(outcome) = waiting.outcome.take() {
            return Poll::Ready(outcome.map(self.read));
        }
        waiting.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}

/// The side that keeps a promise. Dropped, it says that the store is closed.
pub(crate) struct Answer(Option<Arc<Slot>>);

impl Answer {
    /// Says how it has ended.
    pub(crate) fn give(mut self, outcome: Outcome) {
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Outcome) {
        let Some(slot) = self.0.take() else { return };
        let waker = {
            let mut waiting = slot.locked();
            waiting.outcome = Some(outcome);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.settle(Err(StoreError::Closed));
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// Both sides. `read` makes what is waited for of a session's state.
pub(crate) fn promise<T>(read: fn(State) -> T) -> (Promise<T>, Answer) {
    let slot = Arc::new(Slot::default());
    (Promise { slot: Arc::clone(&slot), read }, Answer(Some(slot)))
}

/// A promise that is broken already.
pub(crate) fn refused<T>(error: StoreError, read: fn(State) -> T) -> Promise<T> {
    let (promise, answer) = promise(read);
    answer.give(Err(error));
    promise
}

/// Wakes a thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks until a future is ready, or until a time. `None`: it was not.
pub(crate) fn block_on<F: Future + Unpin>(
    mut future: F,
    until: Option<Instant>,
) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut cx) {
            return Some(output);
        }
        match until.map(|until| until.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(left) if left.is_zero() => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_is_ready_when_answered_from_another_thread() {
        let (waiting, answer) = promise(|state| state.length);
        let other = thread::spawn(move || waiting.wait());
        answer.give(Ok(State { length: 5, ..State::default() }));
        assert_eq!(other.join().unwrap().unwrap(), 5);
    }

    #[test]
    fn promise_whose_answer_is_dropped_says_closed() {
        let (waiting, answer) = promise(drop);
        drop(answer);
        assert!(matches!(waiting.wait(), Err(StoreError::Closed)));
    }
}
