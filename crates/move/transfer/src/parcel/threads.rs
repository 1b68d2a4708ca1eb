// SPDX-License-Identifier: GPL-2.0-or-later
//! Work that may block for long, such as reading from a file system that does not answer.

use crate::Error;
use tokio::sync::oneshot;

/// Runs what may take long, or never end, on a thread that no one waits for at the end.
pub(super) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.await.map_err(|_| Error::Usage("what is sent was not read".to_owned()))?
}
