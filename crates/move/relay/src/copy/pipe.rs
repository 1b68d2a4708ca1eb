// SPDX-License-Identifier: GPL-2.0-or-later
//! Moving bytes from socket to socket in the kernel: splice(2) through a pipe.
//!
//! In strict alternation: [`fill`](Pipe::fill) takes bytes in only when nothing is held,
//! [`drain`](Pipe::drain) gives them all out before the next fill. That is what makes EAGAIN from
//! splice unambiguous. It means "the socket has no bytes" *or* "the pipe has no free slot" (a pipe
//! counts slots, one a segment, so that small segments fill it long before its bytes do); into an
//! empty pipe it can only be the socket, and out of a pipe that holds bytes it can only be the other
//! socket. Taking a full pipe for a drained socket would wait for bytes that are there already, or
//! spin.
//!
//! Pipes are kept for the next transfer: making one takes several system calls. Their total capacity is
//! bounded, and pipes that stay unused for a while are closed, so that a burst of transfers gives its memory
//! back.

use crate::tcp::info::is_at_urgent;
use rustix::{
    fd::OwnedFd,
    io::{Errno, retry_on_intr},
    pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice},
};
use std::{
    io, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{io::Interest, net::TcpStream, time::Instant};

/// A smaller pipe than this is slower than copying: the kernel gives such to users who hold many.
const LEAST: usize = 64 << 10;
/// How often pipes unused since the last sweep are closed.
const SWEEP: Duration = Duration::from_secs(3);

/// A pipe, given back when dropped.
#[derive(Debug)]
pub struct Pipe {
    ends: Option<Ends>,
    held: usize,
    pool: Arc<Pipes>,
}

#[derive(Debug)]
struct Ends {
    out: OwnedFd,
    into: OwnedFd,
    capacity: usize,
    /// Whether it was to have the size of all pipes; the system may have granted less.
    is_full_sized: bool,
}

/// All pipes of a depot.
#[derive(Debug)]
pub struct Pipes {
    /// The size of each, in bytes.
    size: usize,
    /// The most they may hold together.
    ceiling: usize,
    state: Mutex<State>,
    /// What is in all of them.
    held: AtomicUsize,
}

#[derive(Debug)]
struct State {
    /// What all pipes may hold, in use or not.
    reserved: usize,
    /// What others have of the same ceiling.
    shared: usize,
    /// Unused ones; those that were used last stand last.
    idle: Vec<Ends>,
    /// The minimum number of spare pipes since the last sweep: this many were unused. Short bodies take a pipe
    /// too often to read the clock each time.
    spare: usize,
    swept: Instant,
}

impl Pipes {
    /// None yet, of `size` bytes each, `ceiling` bytes together.
    pub fn new(size: usize, ceiling: usize) -> Arc<Self> {
        let state =
            State { reserved: 0, shared: 0, idle: Vec::new(), spare: 0, swept: Instant::now() };
        Arc::new(Self { size, ceiling, state: Mutex::new(state), held: AtomicUsize::new(0) })
    }

    /// An empty pipe. `None` if the ceiling, a system limit or missing splice support prevents it.
    pub fn take(self: &Arc<Self>) -> Option<Pipe> {
        let ends = {
            let mut state = self.state();
            if let Some(ends) = state.idle.pop() {
                state.spare = state.spare.min(state.idle.len());
                ends
            } else {
                let room = self.ceiling.saturating_sub(state.reserved + state.shared);
                if room < LEAST {
                    return None;
                }
                let is_full_sized = self.has_room_for_full_size(&state);
                let size = if is_full_sized { self.size } else { LEAST };
                let ends = Ends { is_full_sized, ..Ends::new(size).ok()? };
                state.reserved += ends.capacity;
                ends
            }
        };
        Some(Pipe { ends: Some(ends), held: 0, pool: Arc::clone(self) })
    }

    /// Whether another pipe may have its full size: a quarter of the ceiling is for these, and the rest for small ones,
    /// so that a crowd of slow readers leaves everybody a pipe.
    fn has_room_for_full_size(&self, state: &State) -> bool {
        // The kernel rounds up to a power of two.
        state.reserved + state.shared + self.size.next_power_of_two() <= self.ceiling / 4
    }

    /// Closes the pipes that have lain unused for long. To be called every second or so.
    pub fn tidy(&self) {
        let mut state = self.state();
        if state.swept.elapsed() < SWEEP {
            return;
        }
        let spare = state.spare;
        let closed: Vec<_> = state.idle.drain(..spare).collect();
        state.reserved -= closed.iter().map(|ends| ends.capacity).sum::<usize>();
        (state.spare, state.swept) = (state.idle.len(), Instant::now());
        // They are closed without the lock, so no transfer waits.
        drop(state);
    }

    /// Unused bytes of the ceiling.
    pub fn room(&self) -> usize {
        let state = self.state();
        self.ceiling.saturating_sub(state.reserved + state.shared)
    }

    /// What a client may have of them that has `left` bytes of its share: these, or more while less than half of the
    /// ceiling is used.
    pub fn room_for(&self, left: usize) -> usize {
        let room = self.room();
        room.min(left.max(room.saturating_sub(self.ceiling / 2)))
    }

    /// What others than pipes have of the ceiling, in bytes.
    pub fn shared(&self) -> usize {
        self.state().shared
    }

    /// What is in all pipes now, in bytes.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// What all pipes may hold now, in bytes.
    pub fn reserved(&self) -> usize {
        self.state().reserved
    }

    /// No change is left half made, so a panic elsewhere does not spoil the numbers.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of the ceiling that something else than a pipe has; given back when dropped.
#[derive(Debug)]
pub struct Share {
    bytes: usize,
    pool: Arc<Pipes>,
}

impl Share {
    /// None yet.
    pub fn of(pool: &Arc<Pipes>) -> Self {
        Self { bytes: 0, pool: Arc::clone(pool) }
    }

    /// How many bytes it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the capacity in bytes. Returns whether the ceiling allows it. Shrinking always succeeds.
    pub fn resize(&mut self, bytes: usize) -> bool {
        let mut state = self.pool.state();
        let others = state.shared - self.bytes;
        let fits = bytes <= self.bytes || state.reserved + others + bytes <= self.pool.ceiling;
        if fits {
            state.shared = others + bytes;
            self.bytes = bytes;
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl Pipe {
    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// How many bytes it holds at most.
    pub fn capacity(&self) -> usize {
        self.ends().capacity
    }

    /// Takes at most `at_most` bytes in; 0 is the end of the stream, `WouldBlock` an empty socket, and `None` one whose next
    /// byte is urgent, which only a read takes. Nothing may be held, and `at_most` not be 0.
    ///
    /// # Errors
    /// What the system says of the splice; [`io::ErrorKind::WouldBlock`] where there is nothing to move.
    pub fn fill(&mut self, from: &TcpStream, at_most: usize) -> io::Result<Option<usize>> {
        assert!(self.held == 0 && at_most > 0, "filled out of turn");
        let Ends { into, capacity, .. } = self.ends();
        let length = at_most.min(*capacity);
        let filled = from.try_io(Interest::READABLE, || {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            match retry_on_intr(|| splice(from, None, into, None, length, flags)) {
                Ok(0) | Err(Errno::AGAIN) if is_at_urgent(from) => Ok(None),
                filled => Ok(Some(filled?)),
            }
        })?;
        self.held = filled.unwrap_or(0);
        self.pool.held.fetch_add(self.held, Relaxed);
        Ok(filled)
    }

    /// Gives out what the other socket takes at once; `WouldBlock` where it takes nothing.
    /// Something must be held.
    ///
    /// Without `SPLICE_F_MORE`: the kernel would hold a last short segment back for up to 200 ms,
    /// and whether more comes soon is known to the source alone.
    ///
    /// # Errors
    /// What the system says of the splice; [`io::ErrorKind::WouldBlock`] where there is nothing to move.
    pub fn drain(&mut self, to: &TcpStream) -> io::Result<usize> {
        assert!(self.held > 0, "drained out of turn");
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = to.try_io(Interest::WRITABLE, || {
            Ok(retry_on_intr(|| splice(&self.ends().out, None, to, None, self.held, flags))?)
        })?;
        self.held -= moved;
        self.pool.held.fetch_sub(moved, Relaxed);
        Ok(moved)
    }

    fn ends(&self) -> &Ends {
        self.ends.as_ref().expect("only a drop takes them")
    }
}

/// The kernel, or a sandbox around this process, does not splice these.
pub fn no_splice(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::NOSYS].map(|e| Some(e.raw_os_error())).contains(&error.raw_os_error())
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let Some(ends) = self.ends.take() else { return };
        self.pool.held.fetch_sub(self.held, Relaxed);
        let mut state = self.pool.state();
        let is_outgrown = !ends.is_full_sized && self.pool.has_room_for_full_size(&state);
        if self.held == 0 && !is_outgrown {
            state.idle.push(ends);
        } else {
            // What is held belongs to a transfer that broke off.
            state.reserved -= ends.capacity;
        }
        mem::drop(state);
    }
}

impl Ends {
    /// A pipe of `size` bytes, or of the largest size below that this user may have.
    fn new(size: usize) -> io::Result<Self> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let mut wanted = size;
        while wanted > LEAST && fcntl_setpipe_size(&into, wanted).is_err() {
            wanted /= 2;
        }
        let capacity = fcntl_getpipe_size(&into)?;
        if capacity < LEAST {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(Self { out, into, capacity, is_full_sized: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_reused_and_bounded() {
        let pipes = Pipes::new(128 << 10, 600 << 10);
        let (a, b) = (pipes.take().unwrap(), pipes.take().unwrap());
        assert_eq!(
            [a.capacity(), b.capacity()],
            [128 << 10, 64 << 10],
            "a quarter is for large ones"
        );
        let others: Vec<_> = std::iter::from_fn(|| pipes.take()).collect();
        assert_eq!((others.len(), pipes.reserved()), (6, 576 << 10), "24 KB are left");
        drop(others);
        let ends = a.ends().out.try_clone().unwrap();
        drop(a);
        let again = pipes.take().unwrap();
        let same = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        assert_eq!(same(&again.ends().out), same(&ends));
        drop((again, b));
        assert_eq!(pipes.reserved(), 576 << 10);
    }

    #[test]
    fn small_pipes_are_closed_once_large_ones_fit() {
        let pipes = Pipes::new(128 << 10, 1 << 20);
        let [one, other, small] = [(); 3].map(|()| pipes.take().unwrap());
        assert_eq!([&one, &small].map(Pipe::capacity), [128 << 10, 64 << 10]);
        drop(small);
        assert_eq!(pipes.reserved(), 320 << 10, "there is no room for a large one yet");
        let small = pipes.take().unwrap();
        // Those of transfers that broke off are closed.
        let mut broken_off = [one, other];
        for pipe in &mut broken_off {
            pipe.held = 1;
            pipes.held.fetch_add(1, Relaxed);
        }
        drop(broken_off);
        drop(small);
        assert_eq!((pipes.reserved(), pipes.held()), (0, 0));
    }

    #[test]
    fn other_buffers_share_the_pipe_ceiling() {
        let pipes = Pipes::new(128 << 10, 300 << 10);
        let mut share = Share::of(&pipes);
        assert!(share.resize(200 << 10));
        assert!(!share.resize(301 << 10), "more than the ceiling");
        assert_eq!(
            (share.bytes(), pipes.shared(), pipes.room()),
            (200 << 10, 200 << 10, 100 << 10)
        );
        let pipe = pipes.take().expect("a small one fits");
        assert_eq!(pipe.capacity(), 64 << 10);
        assert!(!share.resize(240 << 10), "the pipe has it");
        assert!(share.resize(100 << 10));
        drop(share);
        assert_eq!(pipes.shared(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_pipes_are_closed_after_a_while() {
        let pipes = Pipes::new(64 << 10, 1 << 20);
        drop((pipes.take(), pipes.take()));
        let sweep = async || {
            tokio::time::advance(SWEEP).await;
            pipes.tidy();
            pipes.reserved()
        };
        assert_eq!(sweep().await, 128 << 10, "both were needed");
        drop(pipes.take());
        pipes.tidy();
        assert_eq!(pipes.reserved(), 128 << 10, "too soon");
        assert_eq!(sweep().await, 64 << 10, "one of them was needed again");
        assert_eq!(sweep().await, 0);
    }
}
