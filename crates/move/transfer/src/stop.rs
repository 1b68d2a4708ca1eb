// SPDX-License-Identifier: GPL-2.0-or-later
//! Running transfers until a signal asks for their end.

use crate::Error;
use std::{future::Future, io, process};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// A signal that asks for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl StopSignal {
    /// The exit status that shells report for a command that the signal ended.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Tells whether a signal has come.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<Option<StopSignal>>);

impl Stop {
    /// The first signal that came.
    pub fn signal(&self) -> Option<StopSignal> {
        *self.0.borrow()
    }

    /// Ends when a signal comes.
    pub async fn wait(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(Option::is_some).await.is_err() {
            // The signal handler is gone, so no signal will come.
            std::future::pending::<()>().await;
        }
    }

    /// Does this until it is done or a signal comes.
    ///
    /// # Errors
    /// Those of the work, and [`Error::Stopped`].
    pub async fn during<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            done = work => done,
            () = self.wait() => Err(Error::Stopped),
        }
    }
}

/// Runs `work`, which should end soon after a signal. A second signal ends the process at once.
///
/// # Errors
/// The system refuses threads or signal handlers.
pub fn run_until_signal<F: Future>(work: impl FnOnce(Stop) -> F) -> io::Result<F::Output> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let output = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            loop {
                let signal = tokio::select! {
                    _ = interrupt.recv() => StopSignal::Interrupt,
                    _ = terminate.recv() => StopSignal::Terminate,
                };
                if sender.borrow().is_some() {
                    process::exit(signal.exit_code().into());
                }
                // The receiver lives as long as the work.
                let _ = sender.send(Some(signal));
            }
        });
        io::Result::Ok(work(Stop(receiver)).await)
    });
    // A name lookup, or a write to a pipe without a reader, cannot be cancelled.
    runtime.shutdown_background();
    output
}
