// SPDX-License-Identifier: GPL-2.0-or-later
//! A defect that shows in one request: it ends that request, is told, and ends nothing else.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

/// What a handler said when it panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked(String);

impl Panicked {
    /// By what a panic carries.
    pub fn of(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self(text.unwrap_or_else(|| "without a text".to_owned()))
    }
}

impl fmt::Display for Panicked {
    /// It may quote what others have sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for Panicked {}

/// Handles a request, or something like it, and catches a panic of that. What the handler has borrowed must be fit for use
/// after any of its steps.
pub fn catch_panic<F: Future>(handler: F) -> Caught<F> {
    Caught(Box::pin(handler))
}

/// A handler whose panic is caught.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        polled.map_or_else(|payload| Poll::Ready(Err(Panicked::of(&*payload))), |poll| poll.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::ready, pin::pin, task::Waker};

    fn outcome<T>(handler: impl Future<Output = T>) -> Result<T, Panicked> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(catch_panic(handler)).poll(&mut context) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => unreachable!("it waits for nothing"),
        }
    }

    #[test]
    fn panic_of_a_handler_is_caught_with_its_text() {
        assert_eq!(outcome(ready(1)), Ok(1));
        let text = |outcome: Result<(), Panicked>| outcome.unwrap_err().to_string();
        assert_eq!(text(outcome(async { panic!("plain") })), "\"plain\"");
        let number = 7;
        assert_eq!(text(outcome(async { panic!("\u{1b}[31m{number}") })), "\"\\u{1b}[31m7\"");
        assert_eq!(text(outcome(async { std::panic::panic_any(number) })), "\"without a text\"");
    }
}
