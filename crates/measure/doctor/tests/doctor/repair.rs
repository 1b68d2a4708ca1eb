// SPDX-License-Identifier: GPL-2.0-or-later
//! Repairing with a measurement that the test makes up: what helps stays, what does not is taken back.

use crate::site::{facts, set, target, tuned};
use host::{RunDirectory, sysctl};
use longhaul_doctor::{
    diagnosis::diagnose,
    journal::Journal,
    repair::{Attempt, RepairError, repair},
};
use std::sync::atomic::{AtomicBool, Ordering};
use units::Rate;

const RMEM: &str = "net.ipv4.tcp_rmem";
const SACK: &str = "net.ipv4.tcp_sack";
const SMALL: &str = "4096 131072 1048576";

/// A path whose rate follows the receive buffer alone.
fn rate() -> Rate {
    let most: u64 = sysctl::read(RMEM).unwrap().split(' ').nth(2).unwrap().parse().unwrap();
    Rate::bits_per_second(most.min(16 << 20))
}

fn of<'a>(attempts: &'a [Attempt], id: &str) -> &'a Attempt {
    attempts.iter().find(|attempt| attempt.id == id).unwrap_or_else(|| panic!("{id}: {attempts:?}"))
}

/// Repairs a tuned host on which both causes are planted, and then looks at what came of it.
fn repaired(
    measure: impl FnMut() -> Result<Rate, String> + Send,
    tell: impl FnMut(&Attempt, &AtomicBool) + Send,
    look: impl FnOnce(Result<Vec<Attempt>, RepairError>, &mut Journal) + Send,
) {
    let dir = tempfile::tempdir().unwrap();
    let (mut tell, mut measure) = (tell, measure);
    tuned(|| {
        set(RMEM, SMALL);
        set(SACK, "0");
        let facts = facts();
        let diagnosis = diagnose(&facts, &target());
        let mut journal = Journal::at(RunDirectory::at(&dir.path().join("run")).unwrap()).unwrap();
        let stopped = AtomicBool::new(false);
        let tell = |attempt: &Attempt| tell(attempt, &stopped);
        let done = repair(&diagnosis, &facts, &mut journal, &mut measure, &stopped, tell);
        look(done, &mut journal);
    });
}

#[test]
fn what_helps_stays_and_the_rest_is_taken_back() {
    let mut told = 0;
    repaired(
        || Ok(rate()),
        |_, _| told += 1,
        |done, journal| {
            let attempts = done.unwrap();
            assert!(
                of(&attempts, "receive-buffer").kept && !of(&attempts, "sack").kept,
                "{attempts:?}"
            );
            assert_eq!(journal.entries().len(), 1);
            assert_eq!(sysctl::read(SACK).unwrap(), "0", "it did not help");
            assert_ne!(sysctl::read(RMEM).unwrap(), SMALL);
            journal.undo_last().unwrap();
            assert_eq!(sysctl::read(RMEM).unwrap(), SMALL);
        },
    );
    assert!(told >= 2, "{told} attempts were told");
}

#[test]
fn user_who_ends_it_finds_the_host_as_before() {
    repaired(
        || Ok(rate()),
        |_, stopped| stopped.store(true, Ordering::Relaxed),
        |done, journal| {
            assert!(matches!(done, Err(RepairError::Stopped)), "{done:?}");
            assert!(journal.entries().is_empty());
            let now = (sysctl::read(RMEM).unwrap(), sysctl::read(SACK).unwrap());
            assert_eq!(now, (SMALL.into(), "0".into()));
        },
    );
}

#[test]
fn failed_measurement_takes_the_change_back() {
    let mut measured = 0;
    let measure = || {
        measured += 1;
        if measured == 1 { Ok(rate()) } else { Err("no answer".to_owned()) }
    };
    repaired(
        measure,
        |_, _| {},
        |done, _| {
            let attempts = done.unwrap();
            for id in ["receive-buffer", "sack"] {
                assert_eq!(of(&attempts, id).error.as_deref(), Some("no answer"));
            }
            assert_eq!(sysctl::read(RMEM).unwrap(), SMALL);
        },
    );
}
