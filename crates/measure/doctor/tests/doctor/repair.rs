// SPDX-License-Identifier: GPL-2.0-or-later
//! Repairing with a measurement that the test makes up: what helps stays, what does not is taken back.

use crate::site::{facts, set, target, tuned};
use host::{RunDirectory, sysctl};
use longhaul_doctor::{
    diagnosis::diagnose,
    journal::Journal,
    repair::{Attempt, RepairError, repair},
};
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};
use units::Rate;

const RMEM: &str = "net.ipv4.tcp_rmem";
const SACK: &str = "net.ipv4.tcp_sack";
const SMALL: &str = "4096 131072 1048576";

/// A path whose rate follows the receive buffer alone.
fn rate() -> Rate {
    let most: u64 = sysctl::read(RMEM).unwrap().split(' ').nth(2).unwrap().parse().unwrap();
    Rate::bits_per_second(most.min(16 << 20))
}

fn plant() {
    set(RMEM, SMALL);
    set(SACK, "0");
}

fn journal(path: &Path) -> Journal {
    Journal::at(RunDirectory::at(&path.join("run")).unwrap()).unwrap()
}

fn of<'a>(attempts: &'a [Attempt], id: &str) -> &'a Attempt {
    attempts.iter().find(|attempt| attempt.id == id).unwrap_or_else(|| panic!("{id}: {attempts:?}"))
}

#[test]
fn what_helps_stays_and_the_rest_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    tuned(|| {
        plant();
        let facts = facts();
        let diagnosis = diagnose(&facts, &target());
        let mut journal = journal(dir.path());
        let stopped = AtomicBool::new(false);
        let mut told = 0;
        let measure = || Ok(rate());
        let attempts =
            repair(&diagnosis, &facts, &mut journal, measure, &stopped, |_| told += 1).unwrap();
        assert!(
            of(&attempts, "receive-buffer").kept && !of(&attempts, "sack").kept,
            "{attempts:?}"
        );
        assert_eq!((told, journal.entries().len()), (attempts.len(), 1));
        assert_eq!(sysctl::read(SACK).unwrap(), "0", "it did not help");
        assert_ne!(sysctl::read(RMEM).unwrap(), SMALL);
        journal.undo_last().unwrap();
        assert_eq!(sysctl::read(RMEM).unwrap(), SMALL);
    });
}

#[test]
fn user_who_ends_it_finds_the_host_as_before() {
    let dir = tempfile::tempdir().unwrap();
    tuned(|| {
        plant();
        let facts = facts();
        let diagnosis = diagnose(&facts, &target());
        let mut journal = journal(dir.path());
        let stopped = AtomicBool::new(false);
        let tell = |_: &Attempt| stopped.store(true, Ordering::Relaxed);
        let ended = repair(&diagnosis, &facts, &mut journal, || Ok(rate()), &stopped, tell);
        assert!(matches!(ended, Err(RepairError::Stopped)), "{ended:?}");
        assert!(journal.entries().is_empty());
        assert_eq!(
            (sysctl::read(RMEM).unwrap(), sysctl::read(SACK).unwrap()),
            (SMALL.into(), "0".into())
        );
    });
}

#[test]
fn failed_measurement_takes_the_change_back() {
    let dir = tempfile::tempdir().unwrap();
    tuned(|| {
        plant();
        let facts = facts();
        let diagnosis = diagnose(&facts, &target());
        let mut journal = journal(dir.path());
        let stopped = AtomicBool::new(false);
        let mut measured = 0;
        let measure = || {
            measured += 1;
            if measured == 1 { Ok(rate()) } else { Err("no answer".to_owned()) }
        };
        let attempts = repair(&diagnosis, &facts, &mut journal, measure, &stopped, |_| {}).unwrap();
        for id in ["receive-buffer", "sack"] {
            assert_eq!(of(&attempts, id).error.as_deref(), Some("no answer"));
        }
        assert_eq!(sysctl::read(RMEM).unwrap(), SMALL);
    });
}
