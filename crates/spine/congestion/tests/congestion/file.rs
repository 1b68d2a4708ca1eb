// SPDX-License-Identifier: GPL-2.0-or-later
//! Algorithms of users' files: the same decisions as those of `cc/`, and what becomes of mistakes.

use longhaul_congestion::{
    Ack, Algorithm, Attach, Control, Decision, Params, catch_fault,
    file::{self, FileError},
    trial,
};
use std::{fs, path::PathBuf, thread, time::Duration};
use units::{ClassifyFailure, FailureClass};

/// Reno under another name, as in the user documentation, with placeholders for mistakes.
const RENO: &str = include_str!("../../../../../cc/reno.h");

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

/// The result of one acknowledgement.
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
fn mistake_in_a_call_is_reported_with_its_line() {
    for (n, (statement, expected)) in [
        ("*(u32 *)0 = 1;", "writes 4 bytes through a null pointer"),
        ("acked = *(volatile u32 *)8;", "reads 4 bytes through a null pointer"),
        (
            "void *nothing = 0; __builtin_memcpy(nothing, s, 8);",
            "writes 8 bytes through a null pointer",
        ),
        ("((u8 *)s)[104] = 1;", "writes 1 bytes outside of its state: at byte 104"),
        ("((u8 *)s)[8] = 1;", "outside of its state: at byte 8 of struct cc_NAME, which has 8"),
        ("((u8 *)s)[-1] = 1;", "outside of its state: at byte -1"),
        ("((u64 *)s)[ack->acked] = 1;", "writes 8 bytes outside of its state: at byte 32"),
        ("__builtin_memset(s, 0, 104);", "writes 104 bytes outside of its state: at byte 0"),
        ("(&d->cwnd)[2] = 7;", "writes 4 bytes outside of its state"),
        ("*(u32 *)0x7f0012345678 = 1;", "at address 0x7f0012345678"),
        ("static u32 calls; calls++;", "writes a variable of the file"),
        (
            "((struct cc_ack *)ack)->acked = 1;",
            "there is the acknowledgement, which is only to be read",
        ),
        (
            "((struct cc_NAME_params *)p)->beta = 1;",
            "there are its parameters, which are only to be read",
        ),
        ("s->credit = 1 / (acked - 4);", "divides by zero"),
        ("s->credit = 1ull << (ack->acked + 60);", "shifts by"),
        ("u32 a[4] = {1, 2, 3, 4}; s->credit += a[ack->acked];", "beyond the end of an array"),
        ("for (;;);", "does not end"),
        ("while (1) { }", "does not end"),
        ("while (acked) s->credit++;", "does not end"),
        ("do { s->credit++; } while (acked);", "does not end"),
        ("again: s->credit++; goto again;", "does not end"),
        ("again: goto again;", "does not end"),
        ("d->cwnd -= 1; return;", "makes cwnd smaller, 10 to 9"),
        ("d->cwnd = 0; return;", "leaves cwnd 0"),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("wrong{n}");
        let (file, line) = with_statement(&name, &statement.replace("NAME", &name));
        let algorithm = file.load();
        let place = format!("{}:{line}: cc_{name}_ack ", file.path().display());
        let said = acknowledge(algorithm).unwrap_err();
        let expected = expected.replace("NAME", &name);
        assert!(said.starts_with(&place) && said.contains(&expected), "{statement}: {said}");
        // The failure ends that one call: the next one runs normally.
        assert!(acknowledge(algorithm).unwrap_err().starts_with(&place));
    }
}

#[test]
fn mistake_in_a_function_of_cc_names_the_line_that_called_it() {
    let (file, line) = with_statement("inner", "cc_increase(0, d, acked, 1, 10);");
    let said = acknowledge(file.load()).unwrap_err();
    assert!(said.starts_with(&format!("{}:{line} (cc/cc.h:", file.path().display())), "{said}");
}

#[test]
fn only_rate_algorithms_may_set_cwnd_on_loss() {
    let text = |name: &str| renamed(name).replace("d->ssthresh =", "d->cwnd = d->ssthresh =");
    let file = File::new("halver", &text("halver"));
    let lose = |algorithm: &Algorithm| {
        catch_fault(|| {
            let mut decision = Decision { cwnd: 40, ..Decision::default() };
            let ack = acknowledgement(1);
            let mut control = Control::new(algorithm.default_set(), &ack, &mut decision);
            control.loss(&ack, &mut decision);
            decision
        })
    };
    let fault = lose(file.load()).unwrap_err();
    assert!(fault.what.starts_with("changes cwnd, 40 to 20"), "{fault}");
    assert!(fault.what.contains("#define cc_halver_kind rate"), "{fault}");
    assert_eq!(fault.hook, "loss");

    let rate = text("halved").replace(
        "#define cc_halved_uses_rtt 0",
        "#define cc_halved_uses_rtt 0\n#define cc_halved_kind rate",
    );
    let algorithm = File::new("halved", &rate).load();
    assert_eq!(algorithm.attach, Attach::Rate);
    assert_eq!(
        lose(algorithm).unwrap(),
        Decision { cwnd: 20, ssthresh: 20, ..Decision::default() }
    );

    let small = renamed("small").replace(
        "d->ssthresh = cc_max((u64)d->cwnd * p->beta >> 10, CC_MIN_CWND)",
        "d->ssthresh = 1",
    );
    let fault = lose(File::new("small", &small).load()).unwrap_err();
    assert!(fault.what.starts_with("sets ssthresh to 1"), "{fault}");
}

/// The random acknowledgements find what none of a plain run would: a division by what is mostly not 0.
#[test]
fn trial_finds_a_rare_mistake_and_repeats_it_by_its_seed() {
    let (file, line) = with_statement("rare", "if (ack->rtt_us) s->credit += 1 / ack->min_rtt_us;");
    let algorithm = file.load();
    assert!(acknowledge(algorithm).is_ok());
    let broken = trial::run(algorithm, trial::SEED).unwrap_err();
    assert!(broken.what.contains(&format!("my.h:{line}: cc_rare_ack divides by zero")), "{broken}");
    let again = trial::run(algorithm, broken.seed).unwrap_err();
    assert_eq!(again, broken);
}

/// Every algorithm of `cc/`, compiled as a file under another name, keeps the contract and decides the same.
#[test]
fn algorithms_of_cc_decide_the_same_from_a_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../cc");
    for algorithm in Algorithm::all() {
        let name = algorithm.name;
        let text = fs::read_to_string(format!("{folder}/{name}.h")).unwrap();
        let other = format!("f{name}");
        let mut text = text.replace(&format!("cc_{name}"), &format!("cc_{other}"));
        for list in ["CC_PARAMS", "CC_ALGORITHM", "CC_NO_INIT", "CC_NO_RTT", "CC_NO_EVENT"] {
            text = text.replace(&format!("{list}({name})"), &format!("{list}({other})"));
        }
        let from_file = File::new(&other, &text).load();
        assert_eq!(from_file.attach, algorithm.attach, "{name}");
        assert_eq!(from_file.file.as_ref().unwrap().name, "my.h");
        assert_eq!(from_file.sets.len(), algorithm.sets.len(), "{name}");
        trial::run(from_file, trial::SEED).unwrap_or_else(|broken| panic!("{broken}"));
        for (set, same) in algorithm.sets.iter().zip(&from_file.sets) {
            assert_eq!(decisions(&set.params), decisions(&same.params), "{name} {}", set.name);
        }
    }
}

/// What an algorithm decides over a thousand acknowledgements and some losses, and its state.
fn decisions(params: &Params) -> Vec<(Decision, [u64; 13])> {
    let mut decision = Decision::default();
    let mut control = Control::new(params, &acknowledgement(0), &mut decision);
    let mut seen = Vec::new();
    for n in 0..1000u32 {
        let ack = Ack {
            acked: 1 + n % 7,
            rtt_us: 50_000 + n * 7919 % 30_000,
            in_flight: decision.cwnd,
            prior_in_flight: decision.cwnd,
            delivered: n * 4,
            prior_delivered: (n * 4).saturating_sub(40),
            delivery_rate: 1_000_000 + u64::from(n) * 1000,
            ..acknowledgement(u64::from(n) * 10_000)
        };
        control.rtt(&ack, &mut decision);
        if n % 97 == 96 {
            control.loss(&ack, &mut decision);
            decision.cwnd = decision.cwnd.min(decision.ssthresh);
        } else {
            control.ack(&ack, &mut decision);
        }
        seen.push((decision, *control.state()));
    }
    seen
}

#[test]
fn file_that_does_not_compile_is_refused_in_the_compilers_words() {
    let cases: [(&str, &str, &str, &str); 14] = [
        ("u32 acked = ack->acked;", "u32 acked = ack->acked", "my.h:", "expected ',' or ';'"),
        ("s->credit = 0;", "s->credits = 0;", "my.h:", "no member named 'credits'"),
        (
            "#define cc_NAME_title \"Reno\"",
            "",
            "my.h:",
            "error: #error the file does not define cc_NAME_title",
        ),
        ("#define cc_NAME_title \"Reno\"", "#define cc_NAME_title 5", "my.h:", "error: "),
        ("#define cc_NAME_param_list(P)", "#define cc_NAME_list(P)", "my.h:", "CC_PARAMS"),
        (
            "#define cc_NAME_set_list(S)",
            "#define cc_NAME_list(S)",
            "my.h:",
            "does not define cc_NAME_set_list",
        ),
        ("cc_NAME_loss(struct", "cc_NAME_lose(struct", "my.h:", "'cc_NAME_loss'"),
        ("u64 credit;", "u64 credit, more[13];", "my.h:", "is larger than the 104 bytes of state"),
        (
            "#define cc_NAME_uses_rtt 0",
            "#define cc_NAME_uses_rtt 0\n#define cc_NAME_kind delay",
            "my.h:",
            "cc_NAME_kind is neither window nor rate",
        ),
        (
            "s->credit = 0;",
            "s->credit = strlen(\"x\");",
            "my.h:",
            "implicit declaration of function 'strlen'",
        ),
        ("s->credit = 0;", "s->credit = d->cwnd * 1.5;", "my.h:", "computes in integers"),
        ("s->credit = 0;", "volatile u8 big[4000000]; big[0] = 1;", "my.h:", "frame size"),
        (
            "s->credit = 0;",
            "volatile u8 some[d->cwnd]; some[0] = 1;",
            "my.h:",
            "variable length array",
        ),
        (
            "#include \"cc.h\"",
            "#include \"cc.h\"\n#include <stdio.h>",
            "my.h:",
            "stdio.h: No such file",
        ),
    ];
    for (n, (from, to, place, expected)) in cases.iter().enumerate() {
        let name = format!("no{n}");
        let text = renamed(&name);
        let [from, to, expected] = [from, to, expected].map(|text| text.replace("NAME", &name));
        assert!(text.contains(&from), "{from}");
        let said = File::new(&name, &text.replace(&from, &to)).refused();
        assert!(said.contains("does not compile:\n") && said.contains(place), "{said}");
        assert!(said.contains(&expected), "{to}: {said}");
    }
    // The line is the file's.
    let text = renamed("lined").replace("s->credit = 0;", "s->credits = 0;");
    let line = text.lines().position(|line| line.contains("credits")).unwrap() + 1;
    let said = File::new("lined", &text).refused();
    assert!(said.contains(&format!("my.h:{line}:")), "{said}");
}

#[test]
fn name_that_is_taken_is_refused() {
    let said = File::new("reno", RENO).refused();
    assert!(said.contains("its algorithm is reno, but longhaul has one of that name"), "{said}");
    let file = File::new("twice", &renamed("twice"));
    file.load();
    assert!(Algorithm::find("lh_twice").is_ok());
    let said = file.refused();
    assert!(said.contains("its algorithm is twice, but my.h has one of that name"), "{said}");
}

#[test]
fn file_without_an_algorithm_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge.h");
    fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    let pipe = folder.path().join("pipe.h");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for (path, expected) in [
        (folder.path().join("none.h"), "No such file"),
        (folder.path().to_owned(), "it is a directory"),
        ("/dev/zero".into(), "it is a device or a pipe"),
        (pipe, "it is a device or a pipe"),
        (huge, "it is larger than 1 MiB"),
    ] {
        let (say, said) = std::sync::mpsc::channel();
        // It may not wait for anybody.
        thread::spawn(move || say.send(file::load(&path).unwrap_err()));
        let error: FileError = said.recv_timeout(Duration::from_secs(60)).expect("it answers");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.failure_class(), FailureClass::Usage);
    }
    for (text, expected) in [
        (String::new(), "it has no line CC_ALGORITHM(NAME);"),
        ("CC_ALGORITHM(a);\nCC_ALGORITHM(b);\n".to_owned(), "a in line 1 and b in line 2"),
        ("CC_ALGORITHM(My);".to_owned(), "line 1: a name is made of lower-case letters"),
        ("CC_ALGORITHM(a-b);".to_owned(), "line 1: a name is made of lower-case letters"),
        (renamed("thirteen_long"), "thirteen_long has more than 12 characters"),
        ("a\0b".to_owned(), "null bytes"),
    ] {
        let said = File::new("", &text).refused();
        assert!(said.contains(expected), "{said}");
    }
}
