// SPDX-License-Identifier: GPL-2.0-or-later
//! What the engine does with runs that count, that do not, and that fail; and what its journal says of it.

use super::scripted::{Outcome, Scripted, into, run_into, runs};
use longhaul_experiment::{
    AttemptEnd, OnRecord, Options, RunEvent, Standing, Step, Sweep, failed_records, run_all,
};
use record::Record;
use std::{fs, path::Path};

fn sweep(out: &Path) -> Sweep {
    Sweep::read(&out.join("scripted")).unwrap().expect("an engine was there")
}

fn standings(sweep: &Sweep) -> Vec<Standing> {
    sweep.runs.iter().map(|run| sweep.standing(run)).collect()
}

#[test]
fn runs_that_do_not_count_are_kept_and_repeated_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let runs = runs(1);
    // The first run counts at its second attempt, the other one never.
    let method = Scripted::new(3, |id, call| match (id, call) {
        ("slow,r01", 2..) => Outcome::Valid(9e6),
        _ => Outcome::Invalid,
    });
    let recorded = run_into(&out, &runs, &method).unwrap();
    assert_eq!(recorded.iter().map(|it| it.manifest.valid).collect::<Vec<_>>(), [true, false]);
    assert_eq!(method.taken(), ["slow,r01", "slow,r01", "fast,r01", "fast,r01", "fast,r01"]);
    let records = out.join("scripted");
    let kept = |id: &str| failed_records(&records, id).len();
    assert_eq!((kept("slow,r01"), kept("fast,r01")), (1, 2), "the last one is on record");
    let failed = Record::open(&failed_records(&records, "slow,r01")[0]).unwrap();
    assert_eq!(failed.manifest.invalid_reasons, ["late"]);
    assert!(records.join("slow,r01/logs/server.log").exists());
    let state = sweep(&out);
    assert_eq!(standings(&state), [Standing::Done, Standing::Invalid]);
    let numbers: Vec<u32> = state.runs[1].attempts.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let steps: Vec<Step> = state.runs[0].attempts[1].steps.iter().map(|(step, ..)| *step).collect();
    assert_eq!(steps, [Step::Configuration, Step::Execution, Step::Analysis, Step::Archive]);
    assert!(state.runs[0].attempts[1].steps.iter().all(|(_, _, seconds)| seconds.is_some()));
    // Again: what counts is spared, and numbers go on.
    let method = Scripted::new(3, |_, _| Outcome::Valid(18e6));
    run_into(&out, &runs, &method).unwrap();
    assert_eq!((method.taken(), kept("fast,r01")), (vec!["fast,r01".to_owned()], 3));
    let state = sweep(&out);
    assert_eq!(standings(&state), [Standing::Done, Standing::Done]);
    assert_eq!(state.runs[0].found, Some(OnRecord::Same));
    let last = state.runs[1].attempts.last().unwrap();
    assert_eq!((last.number, &last.end), (4, &Some(AttemptEnd::Valid)));
    assert!(!state.is_running && matches!(state.stopped, Some((_, None))));
}

#[test]
fn failure_ends_all_and_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let method = Scripted::new(3, |id, _| match id {
        "fast,r01" => Outcome::Fails,
        _ => Outcome::Valid(9e6),
    });
    let error = run_into(&out, &runs(2), &method).expect_err("a run failed");
    assert_eq!(error.to_string(), "it broke");
    assert_eq!(method.taken(), ["slow,r01", "fast,r01"]);
    let state = sweep(&out);
    let waiting = Standing::Waiting;
    assert_eq!(standings(&state), [Standing::Done, Standing::Failed, waiting, waiting]);
    assert_eq!(state.runs[1].attempts[0].end, Some(AttemptEnd::Failed("it broke".to_owned())));
    assert!(state.stopped.is_some_and(|(_, error)| error.as_deref() == Some("it broke")));
}

#[test]
fn changed_scenario_is_told_apart_run_by_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let method = Scripted::new(1, |_, _| Outcome::Valid(9e6));
    let mut runs = runs(1);
    run_into(&out, &runs, &method).unwrap();
    let identity = sweep(&out).started.sweep;
    let text = serde_json::to_string(&runs[1]).unwrap().replace("20000000", "30000000");
    runs[1] = serde_json::from_str(&text).unwrap();
    let mut changed = Vec::new();
    run_all(&runs, &method, &into(&out), |event| {
        if let RunEvent::Changed(differences) = event.what {
            changed.push((event.run.id.clone(), differences.to_vec()));
        }
    })
    .unwrap();
    assert_eq!(method.taken(), ["slow,r01", "fast,r01", "fast,r01"]);
    let [(run, differences)] = &changed[..] else { panic!("{changed:?}") };
    assert_eq!(run, "fast,r01");
    assert!(differences.iter().all(|it| it.contains("30000000, was 20000000")), "{differences:?}");
    let state = sweep(&out);
    assert_ne!(state.started.sweep, identity);
    assert_eq!(state.runs[1].found, Some(OnRecord::OtherSettings(differences.clone())));
    // Another one may have been asked for.
    let keep = Options { keep: true, ..into(&out) };
    run_all(&runs, &method, &keep, |_| ()).unwrap();
    runs[0].seed += 1;
    assert!(run_all(&runs, &method, &keep, |_| ()).is_err());
    let stopped = sweep(&out).stopped;
    assert!(stopped.is_some_and(|(_, error)| error.unwrap().contains("--keep")));
}

/// Two values may agree by chance; three that do give an interval. By Student's t the half width of 1, 1.01 and 0.99 is 2.5 %.
#[test]
fn repeats_are_left_out_once_the_interval_is_narrow() {
    let folder = tempfile::tempdir().unwrap();
    let method = Scripted::new(1, |id, _| {
        let repeat: f64 = id.rsplit_once(",r").unwrap().1.parse().unwrap();
        let spread = if id.starts_with("slow") { 0.01 } else { 0.5 };
        Outcome::Valid(1e7 * (1.0 + spread * (repeat - 2.0)))
    });
    let runs = runs(5);
    let recorded = |out: &str, until: f64| {
        let out = folder.path().join(out);
        let options = Options { until: Some(until), ..into(&out) };
        let recorded = run_all(&runs, &method, &options, |_| ()).unwrap();
        let of = |variant: &str| {
            recorded.iter().filter(|it| it.manifest.id.starts_with(variant)).count()
        };
        (of("slow"), of("fast"), standings(&sweep(&out)))
    };
    let (slow, fast, states) = recorded("a", 0.03);
    assert_eq!((slow, fast), (3, 5));
    let left_out = states.iter().filter(|it| **it == Standing::LeftOut).count();
    assert_eq!(left_out, 2);
    assert_eq!(recorded("b", 0.022).0, 4, "three are not narrow enough");
    // What is on record counts, too.
    let before = method.taken().len();
    assert_eq!(recorded("a", 0.03).0, 3);
    assert_eq!(method.taken().len(), before);
}

#[test]
fn one_engine_at_a_time_runs_into_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let runs = runs(1);
    let inner = Scripted::new(1, |_, _| Outcome::Valid(1.0));
    let method = Scripted::new(1, |id, _| {
        if id == "slow,r01" {
            let state = sweep(&out);
            assert!(state.is_running);
            assert_eq!(standings(&state)[1], Standing::Waiting);
            let refused = run_into(&out, &runs, &inner).unwrap_err().to_string();
            assert!(refused.contains("another longhaul runs into"), "{refused}");
        }
        Outcome::Valid(1.0)
    });
    run_into(&out, &runs, &method).unwrap();
    assert_eq!((method.taken().len(), inner.taken().len()), (2, 0));
    // A journal that is gone or nonsense costs nothing but what it said.
    fs::write(out.join("scripted/.sweep.jsonl"), "nonsense\n{\"what\":\"step\"}\n\u{0}").unwrap();
    let method = Scripted::new(1, |_, _| Outcome::Valid(1.0));
    run_into(&out, &runs, &method).unwrap();
    assert_eq!(method.taken(), [""; 0]);
    assert_eq!(standings(&sweep(&out)), [Standing::Done; 2]);
}
