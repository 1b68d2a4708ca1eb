// SPDX-License-Identifier: GPL-2.0-or-later
//! One step of moving bytes from socket to socket: in the kernel (splice) or through a buffer.
//!
//! Both go in strict alternation: [`fill`](Mover::fill) takes bytes in only when nothing is
//! held, [`drain`](Mover::drain) gives them all out before the next fill. That is what makes
//! EAGAIN from splice unambiguous. It means "the socket has no bytes" *or* "the pipe has no free
//! slot" (a pipe counts slots, one a segment, so that small segments fill it long before its
//! bytes do); into an empty pipe it can only be the socket, and out of a pipe that holds bytes it
//! can only be the other socket. Taking a full pipe for a drained socket would wait for bytes
//! that are there already, or spin.

use crate::config::RelayMode;
use rustix::{
    fd::OwnedFd,
    io::{Errno, retry_on_intr},
    pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice},
};
use std::io;
use tokio::{io::Interest, net::TcpStream};

/// A smaller pipe than this is slower than copying: the kernel gives such to users who hold many.
const LEAST_PIPE: usize = 64 << 10;
/// A larger buffer than this is no faster.
const MOST_BUFFER: usize = 256 << 10;

/// What bytes are held in between the two sockets.
#[derive(Debug)]
pub(crate) enum Mover {
    /// A pipe; the bytes stay in the kernel.
    Splice {
        /// The end bytes are taken from.
        out: OwnedFd,
        /// The end bytes are put in.
        into: OwnedFd,
        /// How much it holds at most, in bytes.
        capacity: usize,
        /// How much it holds.
        held: usize,
    },
    /// A buffer, of which `start..end` is held.
    Copy {
        /// The buffer.
        buffer: Box<[u8]>,
        /// The first byte held.
        start: usize,
        /// Beyond the last byte held.
        end: usize,
    },
}

impl Mover {
    /// A mover that holds at most `size` bytes.
    pub(crate) fn new(mode: RelayMode, size: usize) -> Self {
        match mode {
            RelayMode::Splice => pipe(size).unwrap_or_else(|_| copier(size)),
            RelayMode::Copy => copier(size),
        }
    }

    /// How it moves bytes, for the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Splice { .. } => "splice",
            Self::Copy { .. } => "copy",
        }
    }

    /// How many bytes are held.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Splice { held, .. } => *held,
            Self::Copy { start, end, .. } => end - start,
        }
    }

    /// Takes at most `at_most` bytes in; 0 is the end of the stream, `WouldBlock` an empty socket.
    /// Nothing may be held, and `at_most` not be 0.
    pub(crate) fn fill(&mut self, from: &TcpStream, at_most: usize) -> io::Result<usize> {
        assert!(self.held() == 0 && at_most > 0, "filled out of turn");
        match self {
            Self::Splice { into, capacity, held, .. } => {
                let length = at_most.min(*capacity);
                let moved = from.try_io(Interest::READABLE, || {
                    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                    Ok(retry_on_intr(|| splice(from, None, &*into, None, length, flags))?)
                });
                match moved {
                    Ok(moved) => *held = moved,
                    Err(error) if no_splice(&error) => {
                        *self = copier(*capacity);
                        return self.fill(from, at_most);
                    }
                    Err(error) => return Err(error),
                }
            }
            Self::Copy { buffer, start, end } => {
                let length = at_most.min(buffer.len());
                (*start, *end) = (0, from.try_read(&mut buffer[..length])?);
            }
        }
        Ok(self.held())
    }

    /// Gives out what the other socket takes at once; `WouldBlock` where it takes nothing.
    /// Something must be held.
    pub(crate) fn drain(&mut self, to: &TcpStream) -> io::Result<usize> {
        assert!(self.held() > 0, "drained out of turn");
        match self {
            Self::Splice { out, held, .. } => {
                let moved = to.try_io(Interest::WRITABLE, || {
                    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                    Ok(retry_on_intr(|| splice(&*out, None, to, None, *held, flags))?)
                })?;
                *held -= moved;
                Ok(moved)
            }
            Self::Copy { buffer, start, end } => {
                let moved = to.try_write(&buffer[*start..*end])?;
                *start += moved;
                Ok(moved)
            }
        }
    }
}

/// The kernel, or a sandbox around this process, does not splice these.
fn no_splice(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::NOSYS].map(|e| Some(e.raw_os_error())).contains(&error.raw_os_error())
}

/// A pipe of `size` bytes, or of the largest size below that this user may have.
fn pipe(size: usize) -> io::Result<Mover> {
    let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut wanted = size;
    while wanted > LEAST_PIPE && fcntl_setpipe_size(&into, wanted).is_err() {
        wanted /= 2;
    }
    let capacity = fcntl_getpipe_size(&into)?;
    if capacity < LEAST_PIPE {
        return Err(io::ErrorKind::QuotaExceeded.into());
    }
    Ok(Mover::Splice { out, into, capacity: capacity.min(size), held: 0 })
}

fn copier(size: usize) -> Mover {
    Mover::Copy { buffer: vec![0; size.min(MOST_BUFFER)].into(), start: 0, end: 0 }
}
