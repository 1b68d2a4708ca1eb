// SPDX-License-Identifier: GPL-2.0-or-later
//! Algorithms of users' files: the same decisions as those of `cc/`, and what becomes of mistakes.

use longhaul_congestion::{
    Ack, Algorithm, Attach, Control, Decision, Params, catch_fault,
    file::{self, FileError},
    trial,
};
use std::{fs, path::PathBuf, thread, time::Duration};
use units::{ClassifyFailure, FailureClass};

/// Reno under another name, as the page for users has it, with places for mistakes.
const RENO: &str = include_str!("../../../../cc/reno.h");

struct File {
    directory: tempfile::TempDir,
    name: String,
}

impl File {
    /// Names are for the whole process, so each test has its own.
    fn new(name: &str, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("my.h"), text).unwrap();
        Self { directory, name: name.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("my.h")
    }

    fn load(&self) -> &'static Algorithm {
        let loaded = file::load(&self.path()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.warnings, "", "{}", self.name);
        assert_eq!(loaded.algorithm.name, self.name);
        loaded.algorithm
    }

    fn refused(&self) -> String {
        let error = file::load(&self.path()).unwrap_err();
        assert_eq!(error.failure_class(), FailureClass::Usage);
        let said = error.to_string();
        assert!(said.starts_with(&self.path().display().to_string()), "{said}");
        for inner in ["/tmp/longhaul-cc-", "ffi.h", "guard", "FFI_"] {
            assert!(!said.contains(inner), "{said}");
        }
        said
    }
}

fn renamed(name: &str) -> String {
    RENO.replace("reno", name)
}

/// Reno with a statement at the beginning of its `_ack`; answers also the line of that.
fn with_statement(name: &str, statement: &str) -> (File, usize) {
    let before = "\tu32 acked = ack->acked;\n";
    let text = renamed(name);
    let (first, rest) = text.split_once(before).unwrap();
    let changed = format!("{first}{before}\t{statement}\n{rest}");
    (File::new(name, &changed), first.lines().count() + 2)
}

fn acknowledgement(now_us: u64) -> Ack {
    Ack {
        now_us,
        acked: 4,
        rtt_us: 50_000,
        min_rtt_us: 50_000,
        mss: 1448,
        flags: Ack::CWND_LIMITED,
        ..Ack::default()
    }
}

/// What comes of one acknowledgement.
fn acknowledge(algorithm: &Algorithm) -> Result<Decision, String> {
    let ended = catch_fault(|| {
        let mut decision = Decision { cwnd: 10, ssthresh: 5, ..Decision::default() };
        let ack = acknowledgement(1_000_000);
        let mut control = Control::new(algorithm.default_set(), &ack, &mut decision);
        control.ack(&ack, &mut decision);
        decision
    });
    ended.map_err(|fault| fault.to_string())
}
#[test]
fn scratch() {
    for (n, statement) in [
        "*(u32 *)0 = 1;",
        "acked = *(volatile u32 *)8;",
        "((u8 *)s)[104] = 1;",
        "((u8 *)s)[8] = 1;",
        "((u8 *)s)[-1] = 1;",
        "((u64 *)s)[ack->acked] = 1;",
        "s->credit = 1 / (acked - 4);",
        "for (;;);",
        "while (1) { }",
        "while (acked) s->credit++;",
        "again: s->credit++; goto again;",
        "d->cwnd = 0;",
        "d->cwnd -= 1;",
        "static u32 calls; calls++;",
        "((struct cc_ack *)ack)->acked = 1;",
        "((struct NAME_params *)p)->beta = 1;",
        "(&d->cwnd)[2] = 7;",
        "*(u32 *)0x7f0012345678 = 1;",
        "s->credit = 1ull << (ack->acked + 60);",
        "u32 a[4] = {1,2,3,4}; s->credit += a[ack->acked];",
        "__builtin_memset(s, 0, 104);",
        "volatile u8 big[100000]; big[0] = 1; for (u32 i = 0; i < 3; i++) big[i * 1000] = 2;",
        "void *nothing = 0; __builtin_memcpy(nothing, s, 8);",
        "cc_increase(0, d, acked, 1, 10);",
    ].iter().enumerate() {
        let name = format!("s{n}");
        let (file, line) = with_statement(&name, &statement.replace("NAME", &format!("cc_{name}")));
        match file::load(&file.path()) {
            Ok(loaded) => println!("== {statement} {line}: {} -> {:?}\n\n", loaded.warnings, acknowledge(loaded.algorithm).map_err(|e| println!("{e}"))),
            Err(e) => println!("== {statement} {e}\n\n"),
        }
    }
}
