// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests share: keys and sessions by number, bytes that tell where they belong, and rounds that run when told to.

use crate::sim_disk::SimDisk;
use longhaul_store::{
    AccessKey, Allowance, Job, Limits, NewSession, Promise, Read, Reader, Report, Store, StoreError,
};
use protocol::session::SessionId;
use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use units::Bytes;

/// When the tests begin, in seconds since 1970.
pub const BEGIN_S: u64 = 1_795_000_000;
pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// A size that no test of something else comes to.
pub const PLENTY: Limits = Limits::of_size(Bytes::new(1 << 40));

/// A time by its seconds after the beginning.
pub fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(BEGIN_S + seconds)
}

pub fn key(number: u8) -> AccessKey {
    AccessKey([number; 32])
}

pub fn id(number: u64) -> SessionId {
    SessionId((u128::from(number) * 0x1_0000_0001_0000_0001).to_be_bytes())
}

/// The byte of a session at an offset.
fn byte(id: SessionId, offset: u64) -> u8 {
    let number = u64::from(id.0[15]) + 1;
    ((offset ^ (offset >> 8) ^ (offset >> 16)).wrapping_mul(number | 1).wrapping_add(number)) as u8
}

/// The bytes of a session from an offset on.
pub fn content(id: SessionId, from: u64, length: u64) -> Vec<u8> {
    (from..from + length).map(|offset| byte(id, offset)).collect()
}

/// A session of the first key, which the second may collect, for a day, charged to the third.
pub fn session(id: SessionId, reserved: u64) -> NewSession<'static> {
    NewSession {
        id,
        owner: key(1),
        collector: key(2),
        account: key(3),
        reserved: Bytes::new(reserved),
        life: DAY,
        note: b"note",
        allowance: None,
    }
}

pub fn allowance(bytes: u64, sessions: usize) -> Allowance {
    Allowance { bytes: Bytes::new(bytes), sessions }
}

/// A store whose rounds run in the thread that asks.
pub fn open(disk: &SimDisk) -> (Store, Report) {
    open_with(disk, PLENTY)
}

pub fn open_with(disk: &SimDisk, limits: Limits) -> (Store, Report) {
    Store::open(Arc::new(disk.clone()), limits, |job: Job| job(), at(0)).unwrap()
}

/// Stores a session as a whole.
pub fn store_whole(store: &Store, new: &NewSession<'_>, length: u64) {
    let mut writer = store.create(new, at(0)).unwrap();
    writer.append(&content(new.id, 0, length)).unwrap();
    assert_eq!(writer.complete().wait().unwrap(), length);
}

/// Reads all that can be read now, and whether that is all there will be.
pub fn read_all(reader: &mut Reader) -> Result<(Vec<u8>, bool), StoreError> {
    let mut bytes = Vec::new();
    loop {
        match reader.read(bytes.len() as u64)? {
            Read::Bytes(more) => bytes.extend_from_slice(more),
            Read::NotYet => return Ok((bytes, false)),
            Read::End => return Ok((bytes, true)),
        }
    }
}

/// Rounds that wait until they are told to run.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<VecDeque<Job>>>);

impl Held {
    /// Takes a job.
    pub fn runner(&self) -> impl Fn(Job) + Send + Sync + 'static {
        let held = self.clone();
        move |job| held.0.lock().unwrap().push_back(job)
    }

    /// Runs all that wait. Returns how many there were.
    pub fn run(&self) -> usize {
        let mut ran = 0;
        loop {
            let job = self.0.lock().unwrap().pop_front();
            let Some(job) = job else { return ran };
            job();
            ran += 1;
        }
    }
}

/// The outcome of a promise if it is ready.
pub fn poll<T>(promise: &mut Promise<T>) -> Option<Result<T, StoreError>> {
    match Pin::new(promise).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}
