// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading of many files by all processors, in their order.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    panic::resume_unwind,
    sync::Arc,
    thread::{self, JoinHandle},
};

/// The most files at a time: more processors are not needed to keep a disk busy, and each may take tens of MB.
const MOST: usize = 8;

/// What becomes of each item, in their order. As many as there are processors are worked on before they are asked for.
pub fn ahead<T, R>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> R + Send + Sync + 'static,
) -> impl Iterator<Item = R> + Send
where
    T: Send + 'static,
    R: Send + 'static,
{
    let most = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST);
    Ahead { items: items.into_iter(), work: Arc::new(work), begun: VecDeque::new(), most }
}

struct Ahead<I, F, R> {
    items: I,
    work: Arc<F>,
    begun: VecDeque<JoinHandle<R>>,
    most: usize,
}

impl<T, R, I, F> Iterator for Ahead<I, F, R>
where
    T: Send + 'static,
    R: Send + 'static,
    I: Iterator<Item = T>,
    F: Fn(T) -> R + Send + Sync + 'static,
{
    type Item = R;

    fn next(&mut self) -> Option<R> {
        while self.begun.len() < self.most {
            let Some(item) = self.items.next() else { break };
            let work = Arc::clone(&self.work);
            self.begun.push_back(thread::spawn(move || work(item)));
        }
        let first = self.begun.pop_front()?;
        Some(first.join().unwrap_or_else(|panic| resume_unwind(panic)))
    }
}
