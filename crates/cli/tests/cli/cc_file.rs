// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls of users' C files: `longhaul sim --cc` and `longhaul cc check`. Takes no rights.

use crate::common::{longhaul, text};
use record::Record;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Output,
};

/// Two flows that lose by chance and by their queue, one of them over a depot.
const SCENARIO: &str = r#"
title = "own"
duration = "20s"
[[node]]
name = "source"
[[node]]
name = "depot"
[[node]]
name = "sink"
[[link]]
between = ["source", "depot"]
rate = "40mbit"
delay = "20ms"
loss = "0.02%"
queue = "100KB"
[[link]]
between = ["depot", "sink"]
rate = "30mbit"
delay = "5ms"
[[flow]]
name = "long"
from = "source"
to = "sink"
cc = "CC"
[[flow]]
name = "chain"
from = "source"
to = "sink"
via = ["depot"]
start = "3s"
cc = "CC"
"#;

/// AIMD(2, 0.8): two segments a round trip, 819/1024 kept on a loss.
const AIMD: &str = r#"
#include "cc.h"
#define cc_aimd_title "AIMD(2, 0.8)"
#define cc_aimd_rule "cwnd += 2 a round trip; on a loss cwnd x 0.8"
#define cc_aimd_source "a test"
#define cc_aimd_param_list(P) P(kept, "1/1024", "share of cwnd kept on a loss")
#define cc_aimd_set_list(S) S(first, "a test", .kept = 819)
CC_PARAMS(aimd);
struct cc_aimd { u32 pad; u64 earned; };
#define cc_aimd_uses_rtt 0
#define cc_aimd_uses_event 0
CC_NO_INIT(aimd)
CC_NO_RTT(aimd)
CC_INLINE void cc_aimd_ack(struct cc_aimd *s, const struct cc_aimd_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	u32 acked = ack->acked;

	if (!(ack->flags & CC_CWND_LIMITED))
		return;
	if (d->cwnd < d->ssthresh) {
		u32 room = d->ssthresh - d->cwnd, step = acked < room ? acked : room;

		d->cwnd += step;
		acked -= step;
	}
	if (s->earned >= d->cwnd) {
		s->earned = 0;
		d->cwnd++;
	}
	s->earned += 2 * acked;
	while (s->earned >= d->cwnd) {
		u64 whole = s->earned / d->cwnd;

		s->earned -= whole * d->cwnd;
		d->cwnd += whole;
		break;
	}
}
CC_INLINE void cc_aimd_loss(struct cc_aimd *s, const struct cc_aimd_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	u32 kept = (u64)d->cwnd * p->kept / 1024;

	s->earned = 0;
	d->ssthresh = kept > 2 ? kept : 2;
}
CC_NO_EVENT(aimd)
CC_ALGORITHM(aimd);
"#;

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new(cc: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scenario = format!("{}{more}", SCENARIO.replace("CC", cc));
        fs::write(folder.path().join("own.toml"), scenario).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    /// Calls it in the folder, so that files are named as a person names them.
    fn call(&self, words: &[&str]) -> Output {
        longhaul().current_dir(self.path()).args(words).output().unwrap()
    }

    fn sim(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.call(&[&["sim", "own.toml", "--out", "out"], words].concat());
        (output.status.code(), text(&output.stderr))
    }

    fn record(&self) -> PathBuf {
        record::find_records(&self.path().join("out/sim")).unwrap().remove(0)
    }

    /// The record's files except the manifest, as if its algorithm had the name of Reno.
    fn results(&self) -> BTreeMap<String, Vec<u8>> {
        let named = |bytes: Vec<u8>| match String::from_utf8(bytes) {
            Ok(text) => text.replace("\"lh_aimd\"", "\"lh_reno\"").into_bytes(),
            Err(other) => other.into_bytes(),
        };
        let entries = fs::read_dir(self.record()).unwrap().flatten();
        let files = entries.filter(|entry| entry.file_name() != "manifest.json");
        files
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, named(fs::read(entry.path()).unwrap()))
            })
            .collect()
    }
}

/// AIMD with a statement at the beginning of its `_ack`, and the line of that.
fn with_statement(statement: &str) -> (String, usize) {
    let before = "\tu32 acked = ack->acked;\n";
    let (first, rest) = AIMD.split_once(before).unwrap();
    (format!("{first}{before}{statement}\n{rest}"), first.lines().count() + 2)
}

#[test]
fn aimd_from_a_file_gives_the_run_of_reno_with_its_parameters() {
    let parameters =
        "[[congestion]]\nname = \"lh_reno\"\nparameters = { increase = 2048, beta = 819 }\n";
    let by_parameters = Lab::new("lh_reno", parameters);
    assert_eq!(by_parameters.sim(&[]).0, Some(0));
    let by_file = Lab::new("lh_aimd", "");
    by_file.file("my.h", AIMD);
    let (code, said) = by_file.sim(&["--cc", "my.h"]);
    assert_eq!(code, Some(0), "{said}");
    let (file, expected) = (by_file.results(), by_parameters.results());
    assert_eq!(file.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(file.len() > 2, "{:?}", file.keys());
    for (name, bytes) in &expected {
        assert!(file[name] == *bytes, "{name} differs");
    }
    // Reno itself is another run, so the comparison can fail.
    let reno = Lab::new("lh_reno", "");
    assert_eq!(reno.sim(&[]).0, Some(0));
    assert_ne!(reno.results(), expected);

    // The scenario's parameters reach it, and change what it does.
    let changed =
        Lab::new("lh_aimd", "[[congestion]]\nname = \"lh_aimd\"\nparameters = { kept = 512 }\n");
    changed.file("my.h", AIMD);
    assert_eq!(changed.sim(&["--cc", "my.h"]).0, Some(0));
    let control = &Record::open(&changed.record()).unwrap().manifest.congestion_controls["lh_aimd"];
    assert_eq!(control.parameters["kept"], 512);
    assert_ne!(changed.results(), expected);
}

#[test]
fn record_names_the_file_and_another_version_of_it_runs_again() {
    let lab = Lab::new("lh_aimd", "");
    lab.file("my.h", AIMD);
    assert_eq!(lab.sim(&["--cc", "my.h"]).0, Some(0));
    let file = || {
        let manifest = Record::open(&lab.record()).unwrap().manifest;
        manifest.congestion_controls["lh_aimd"].file.clone().expect("a file")
    };
    let first = file();
    assert_eq!(first.name, "my.h");
    let summed = std::process::Command::new("sha256sum").arg(lab.path().join("my.h")).output();
    assert!(text(&summed.unwrap().stdout).starts_with(&first.sha256), "{first:?}");
    let (_, said) = lab.sim(&["--cc", "my.h"]);
    assert!(said.contains("on record already"), "{said}");
    let before = lab.results();
    lab.file("my.h", &AIMD.replace("2 * acked", "3 * acked"));
    let (code, said) = lab.sim(&["--cc", "my.h", "--any-program"]);
    assert!(code == Some(0) && !said.contains("on record already"), "{said}");
    assert_ne!(file().sha256, first.sha256);
    assert_ne!(lab.results(), before);
}

#[test]
fn mistake_in_the_run_ends_it_with_file_and_line() {
    // As the simulation comes to it: not at the first call.
    let lab = Lab::new("lh_aimd", "");
    for (statement, expected) in [
        ("if (d->cwnd > 30) *(u32 *)0 = 1;", "writes 4 bytes through a null pointer"),
        ("if (d->cwnd > 30) ((u8 *)s)[104] = 1;", "outside of its state: at byte 104"),
        ("acked /= d->cwnd > 30 ? 0 : 1;", "divides by zero"),
        ("while (d->cwnd > 30) ;", "does not end"),
        ("if (d->cwnd > 30) { d->cwnd--; return; }", "makes cwnd smaller, 31 to 30"),
    ] {
        let (text, line) = with_statement(statement);
        lab.file("my.h", &text);
        let (code, said) = lab.sim(&["--cc", "my.h"]);
        let place = format!("my.h:{line}: cc_aimd_ack ");
        assert!(code == Some(1) && said.contains(&place) && said.contains(expected), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        let records = record::find_records(&lab.path().join("out")).unwrap();
        assert!(records.is_empty(), "no record of it: {records:?}");
    }
    let left = fs::read_dir(lab.path()).unwrap().flatten().map(|entry| entry.file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["my.h", "out", "own.toml"]);
}

#[test]
fn file_without_an_algorithm_is_refused_before_the_run() {
    let lab = Lab::new("lh_aimd", "");
    lab.file("my.h", AIMD);
    lab.file("same.h", AIMD);
    lab.file("taken.h", &AIMD.replace("aimd", "reno"));
    lab.file("broken.h", &AIMD.replace("s->earned = 0;", "s->owned = 0;"));
    for (files, expected) in [
        (&["my.h", "same.h"][..], "same.h: its algorithm is aimd, but my.h has one of that name"),
        (&["taken.h"], "taken.h: its algorithm is reno, but longhaul has one of that name"),
        (&["none.h"], "none.h: No such file"),
        (&["/dev/zero"], "/dev/zero: it is a device or a pipe"),
        (&["."], ".: it is a directory"),
        (&["broken.h"], "broken.h does not compile:\nbroken.h: In function"),
    ] {
        let words: Vec<&str> = files.iter().flat_map(|file| ["--cc", file]).collect();
        let (code, said) = lab.sim(&words);
        assert!(code == Some(2) && said.contains(expected), "{files:?}: {said}");
    }
    assert!(!lab.path().join("out").exists());
}

#[test]
fn scenario_without_its_file_says_how_to_give_it() {
    let lab = Lab::new("lh_mine", "");
    for words in
        [&["sim", "own.toml"][..], &["lab", "check", "own.toml"], &["lab", "run", "own.toml"]]
    {
        let output = lab.call(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("longhaul sim FILE --cc mine.h"), "{words:?}: {said}");
    }
    assert!(!lab.path().join("out").exists());
}

/// By each compiler that is there: they differ in what they check by themselves.
#[test]
fn check_says_what_the_file_is_and_what_it_breaks() {
    let lab = Lab::new("lh_aimd", "");
    let is_there = |compiler: &&&str| {
        let version = std::process::Command::new(**compiler).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    for compiler in ["cc", "gcc", "clang"].iter().filter(is_there) {
        let check = |text: &str| {
            lab.file("my.h", text);
            let output = longhaul()
                .current_dir(lab.path())
                .env("CC", compiler)
                .args(["cc", "check", "my.h"])
                .output()
                .unwrap();
            let (out, err) =
                (crate::common::text(&output.stdout), crate::common::text(&output.stderr));
            (output.status.code(), out, err)
        };
        let (code, out, err) = check(AIMD);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{compiler}");
        for expected in ["AIMD(2, 0.8) (lh_aimd", "kept", "819", "kept the contract in 500"] {
            assert!(out.contains(expected), "{compiler}: {out}");
        }
        for (statement, expected) in [
            ("*(u32 *)0 = 1;", "writes 4 bytes through a null pointer"),
            ("((u8 *)s)[104] = 1;", "outside of its state: at byte 104"),
            ("acked = 7 / ack->rtt_us;", "divides by zero"),
            ("for (;;);", "does not end"),
            ("while (1) ;", "does not end"),
            ("again: goto again;", "does not end"),
            ("d->cwnd /= 2; return;", "makes cwnd smaller"),
            ("static u32 calls; calls++;", "writes a variable of the file"),
        ] {
            let (text, line) = with_statement(statement);
            let (code, _, err) = check(&text);
            let place = format!("my.h:{line}: cc_aimd_ack ");
            assert!(code == Some(1) && err.contains(&place), "{compiler} {statement}: {err}");
            assert!(err.contains(expected) && err.contains("seed "), "{compiler}: {err}");
        }
        let (code, _, err) = check(&AIMD.replace("u64 earned;", "u64 earned[13];"));
        assert!(code == Some(2) && err.contains("larger than the 104 bytes"), "{compiler}: {err}");
    }
}

#[test]
fn machine_without_a_compiler_is_told_what_to_install() {
    let lab = Lab::new("lh_aimd", "");
    lab.file("my.h", AIMD);
    let output = longhaul()
        .current_dir(lab.path())
        .env("CC", "/nowhere/cc")
        .args(["sim", "own.toml", "--cc", "my.h"])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("no C compiler: /nowhere/cc") && said.contains("apt-get install gcc"),
        "{said}"
    );
}

/// Data Center TCP (RFC 8257 section 3.3): a loss or mark takes half of the share of marked segments, averaged by
/// sixteenths over windows.
const DCTCP: &str = r#"
#include "cc.h"
#define cc_dctcp_title "DCTCP"
#define cc_dctcp_rule "cwnd += 1 a round trip; on a mark cwnd x (1 - alpha / 2)"
#define cc_dctcp_source "RFC 8257"
#define cc_dctcp_param_list(P) P(gain, "1/1024", "weight of a window's share of marks in alpha")
#define cc_dctcp_set_list(S) S(rfc8257, "RFC 8257", .gain = 64)
CC_PARAMS(dctcp);
struct cc_dctcp { u64 credit; u32 alpha, window_end, delivered, delivered_ce; };
#define cc_dctcp_uses_rtt 0
#define cc_dctcp_uses_event 0
CC_INLINE void cc_dctcp_init(struct cc_dctcp *s, const struct cc_dctcp_params *p,
			     const struct cc_ack *ack, struct cc_decision *d)
{
	s->alpha = 1024;
	s->window_end = ack->delivered;
}
CC_NO_RTT(dctcp)
CC_INLINE void cc_dctcp_ack(struct cc_dctcp *s, const struct cc_dctcp_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	u32 acked = ack->acked, delivered = ack->delivered - s->delivered;

	if (!cc_before(ack->prior_delivered, s->window_end) && delivered) {
		u32 share = (u64)(ack->delivered_ce - s->delivered_ce) * 1024 / delivered;

		s->alpha += ((s32)share - (s32)s->alpha) * (s32)p->gain / 1024;
		s->alpha = cc_min(s->alpha, 1024);
		s->window_end = s->delivered = ack->delivered;
		s->delivered_ce = ack->delivered_ce;
	}
	if (!(ack->flags & CC_CWND_LIMITED))
		return;
	if (cc_in_slow_start(d))
		acked = cc_slow_start(d, acked);
	cc_increase(&s->credit, d, acked, 1, 0);
}
CC_INLINE void cc_dctcp_loss(struct cc_dctcp *s, const struct cc_dctcp_params *p,
			     const struct cc_ack *ack, struct cc_decision *d)
{
	s->credit = 0;
	d->ssthresh = cc_max(d->cwnd - ((u64)d->cwnd * s->alpha >> 11), CC_MIN_CWND);
}
CC_NO_EVENT(dctcp)
CC_ALGORITHM(dctcp);
"#;

/// With a short queue before the mark, Reno's halved window leaves the link idle, and DCTCP's does not.
#[test]
fn algorithm_sees_how_much_is_marked() {
    let carried = |cc: &str, words: &[&str]| {
        let lab = Lab::new(cc, "[tcp]\necn = true\n");
        lab.file("dctcp.h", DCTCP);
        // Without loss, and one flow of the two.
        let settings = [
            "link.source-depot.loss=0%",
            "link.source-depot.mark=20p",
            "link.depot-sink.rate=1gbit",
            "flow.chain.bytes=1KB",
        ];
        let settings = settings.map(|set| ["--set", set]).concat();
        let (code, said) = lab.sim(&[words, &settings].concat());
        assert_eq!(code, Some(0), "{said}");
        let record = Record::open(&lab.record()).unwrap();
        let link = &record.summary.links[0];
        (link.utilisation.unwrap(), link.marks, link.queue_drops)
    };
    let (reno, reno_marks, _) = carried("lh_reno", &[]);
    let (dctcp, dctcp_marks, drops) = carried("lh_dctcp", &["--cc", "dctcp.h"]);
    assert!(
        reno_marks > 0 && dctcp_marks > 0 && drops == 0,
        "{reno_marks}, {dctcp_marks}, {drops}"
    );
    assert!(dctcp > 1.1 * reno, "{dctcp} with DCTCP, {reno} with Reno");
}
