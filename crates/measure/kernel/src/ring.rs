// SPDX-License-Identifier: GPL-2.0-or-later
//! A ring buffer that kernel programs write to, read here.

use crate::Error;
use libbpf_rs::{ErrorKind, MapCore, RingBuffer, RingBufferBuilder};
use std::time::{Duration, Instant};

/// Ring buffer with the trace of a program.
pub struct Ring<'a>(RingBuffer<'a>);

impl<'a> Ring<'a> {
    /// Has each entry shown to `show`, whenever it is [polled](Self::poll).
    pub fn open(map: &dyn MapCore, mut show: impl FnMut(&[u8]) + 'a) -> Result<Self, Error> {
        let mut builder = RingBufferBuilder::new();
        let show = move |bytes: &[u8]| {
            show(bytes);
            0
        };
        let opened = builder.add(map, show).map(drop).and_then(|()| builder.build());
        Ok(Self(opened.map_err(Error::bpf("open the trace"))?))
    }

    /// Shows the entries since the last time; waits that long for the first. A signal in between, as when
    /// the process is stopped and goes on, does not end the wait.
    pub fn poll(&self, patience: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            match self.0.poll(patience.saturating_sub(start.elapsed())) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                polled => return polled.map_err(Error::bpf("read the trace")),
            }
        }
    }
}
