// SPDX-License-Identifier: GPL-2.0-or-later
//! One experiment at a time has a host.

use super::State;
use crate::message::Reservation;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
};

/// The longest reservation that is read.
const LONGEST: u64 = 64 << 10;

/// A host that is taken. It is free again when this is gone, also with its process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Whether a host could be taken.
#[derive(Debug)]
pub enum Taken {
    /// It is this guard's.
    Own(Lock),
    /// Another experiment has it.
    Others(Reservation),
}

impl Lock {
    /// Takes the host.
    pub fn take(state: &State, reservation: &Reservation) -> io::Result<Taken> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(state.file("reservation.json"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                file.set_len(0)?;
                file.rewind()?;
                file.write_all(&serde_json::to_vec(reservation)?)?;
                Ok(Taken::Own(Self { _file: file }))
            }
            Err(Errno::WOULDBLOCK) => {
                let mut text = Vec::new();
                file.take(LONGEST).read_to_end(&mut text)?;
                let unknown = || Reservation {
                    owner: "another user".to_owned(),
                    title: String::new(),
                    until_s: 0,
                };
                Ok(Taken::Others(serde_json::from_slice(&text).unwrap_or_else(|_| unknown())))
            }
            Err(error) => Err(error.into()),
        }
    }
}
