// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/congestion/add-your-own.md, followed word by word: a new congestion control from its header to a simulation,
//! and in the repository to a run in the kernel that used it.

use crate::{
    common::{Kernel, done, longhaul, ours, text},
    overlay::Overlay,
};
use record::Record;
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

const PAGE: &str = include_str!("../../../../docs/congestion/add-your-own.md");

/// The parts of the page without a build, and with one.
fn parts() -> (&'static str, &'static str) {
    PAGE.split_once("## In the kernel").expect("the page has that part")
}

/// The page's algorithm.
fn algorithm() -> &'static str {
    let blocks = blocks(PAGE);
    let mut files = blocks.iter().filter(|block| block.kind == "c");
    let file = files.next().expect("the page has a C file");
    assert!(files.next().is_none(), "and one only");
    file.text
}

/// A fenced block.
struct Block<'a> {
    kind: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = page.split("```").collect();
    let fenced = |pair: &[&'_ str]| pair.len() == 2;
    parts
        .chunks(2)
        .filter(|pair| fenced(pair))
        .map(|pair| {
            let (kind, text) = pair[1].split_once('\n').expect("a fence ends its line");
            Block { kind, text }
        })
        .collect()
}

/// Only the binary that is built here knows the algorithm, where the page did not get to unload it.
struct Unloaded<'o>(&'o Overlay);

impl Drop for Unloaded<'_> {
    fn drop(&mut self) {
        self.0.run("target/release/longhaul cc unload all");
    }
}

/// A command line of the page. What it builds is built as for tests, with the features of the whole workspace's tests, or this
/// would wait for the compiler most of its time.
fn as_tests(overlay: &Overlay, line: &str) -> Output {
    let of_all_tests = "cargo build --workspace --bin longhaul --test congestion";
    let line = line
        .replace("cargo test -p longhaul-congestion", "cargo test --workspace")
        .replace("cargo build --release", of_all_tests);
    overlay.run(&line)
}

/// What a command line of the page must have done, besides not failing.
fn check(overlay: &Overlay, line: &str, output: &Output) {
    let out = text(&output.stdout);
    if line.contains("cc plot") {
        let picture = fs::read_to_string(overlay.file("docs/congestion/mine.svg")).unwrap();
        assert!(picture.starts_with("<svg") && picture.contains("Mine"), "{picture}");
    } else if line.contains("cc load") {
        assert_eq!((out.as_str(), ours()), ("lh_mine\n", vec!["lh_mine".to_owned()]));
    } else if line.contains("cc list") {
        let found = out.lines().find(|line| line.starts_with("lh_mine ")).expect("it is listed");
        assert!(found.contains("loaded, first") && found.ends_with("Mine"), "{found}");
    } else if line.contains("lab run") {
        let records = record::find_records(&overlay.file("out/demo")).unwrap();
        assert!(!records.is_empty(), "{}", text(&output.stderr));
        for folder in records {
            assert_used(&Record::open(&folder).unwrap());
        }
    } else if line.contains("cc unload") {
        assert_eq!((out.as_str(), ours()), ("lh_mine\n", Vec::new()));
    }
}

fn assert_used(record: &Record) {
    let (manifest, flow) = (&record.manifest, &record.summary.flows[0]);
    assert!(!manifest.sockets.is_empty(), "{manifest:?}");
    for socket in &manifest.sockets {
        assert_eq!(socket.congestion_control, "lh_mine", "{socket:?}");
    }
    let control = &manifest.congestion_controls["lh_mine"];
    assert_eq!(control.parameter_set.as_deref(), Some("first"));
    assert_eq!((control.parameters["gain"], control.parameters["beta"]), (256, 768));
    assert_eq!(flow.sha256_ok, Some(true), "{}", flow.outcome);
}

/// The first part, in a directory that has only the scenarios, with longhaul as it is installed.
#[test]
fn page_leads_from_a_file_to_a_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    symlink(repository.join("scenarios"), folder.path().join("scenarios")).unwrap();
    fs::write(folder.path().join("mine.h"), algorithm()).unwrap();
    let installed = Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap();
    let path = format!("{}:{}", installed.display(), std::env::var("PATH").unwrap());
    let mut printed = String::new();
    let mut followed = 0;
    for block in blocks(parts().0) {
        match block.kind {
            "sh" => {
                let mut command = Command::new("sh");
                command.args(["-euc", block.text]).current_dir(folder.path()).env("PATH", &path);
                let output = command.output().unwrap();
                assert!(output.status.success(), "{}{}", block.text, text(&output.stderr));
                printed = text(&output.stdout);
                followed += 1;
            }
            "text" => assert_eq!(printed.trim_end(), block.text.trim_end()),
            "toml" => {
                let file = folder.path().join("scenario.toml");
                let demo = fs::read_to_string(folder.path().join("scenarios/demo.toml")).unwrap();
                fs::write(&file, format!("{demo}\n{}", block.text)).unwrap();
                done(&["lab", "check", file.to_str().unwrap(), "--method", "sim"]);
            }
            "c" => {}
            other => panic!("this test can't follow a block of {other}"),
        }
    }
    assert_eq!(followed, 2);
    let records = record::find_records(&folder.path().join("out/demo/sim")).unwrap();
    let record = Record::open(&records[0]).unwrap();
    let control = &record.manifest.congestion_controls["lh_mine"];
    assert_eq!(control.parameter_set.as_deref(), Some("first"));
    assert_eq!(control.file.as_ref().unwrap().name, "mine.h");

    // The mistake that the page shows.
    let (before, after) = algorithm().split_once("\tif (!(ack->flags").unwrap();
    let wrong = format!("{before}\t((u8 *)s)[104] = 1;\n\tif (!(ack->flags{after}");
    fs::write(folder.path().join("mine.h"), wrong).unwrap();
    let simulate = "sim scenarios/demo.toml --variant direct --jobs 1 --set flow.transfer.cc=lh_mine --cc mine.h --out wrong";
    let output = longhaul().current_dir(folder.path()).args(simulate.split(' ')).output();
    let said = text(&output.unwrap().stderr);
    let shown = PAGE.lines().find_map(|line| line.strip_prefix("    longhaul: ")).unwrap();
    assert!(said.contains(shown), "{said}");
}

#[test]
fn page_leads_on_to_a_run_in_the_kernel() {
    let overlay = Overlay::new();
    // Only once the compiler is done, which takes longer than all else.
    let mut kernel = None;
    fs::write(overlay.file("mine.h"), algorithm()).unwrap();
    let mut followed = Vec::new();
    for block in blocks(parts().1) {
        assert_eq!(block.kind, "sh");
        let whole_lines = block.text.replace("\\\n", "");
        for line in whole_lines.lines() {
            if line.contains("cc load") {
                kernel.get_or_insert_with(|| (Unloaded(&overlay), Kernel::without_ours()));
            }
            let output = as_tests(&overlay, line);
            let said = text(&output.stderr);
            // On a busy machine the run may not count; that it took place is looked at all the same.
            let busy =
                line.contains("lab run") && said.contains("is valid on this machine at present");
            let printed = text(&output.stdout);
            let status = output.status;
            assert!(status.success() || busy, "{line}: {status}\n{printed}\n{said}");
            check(&overlay, line, &output);
            followed.push(line.to_owned());
        }
    }
    let cargo = ["cargo test -p longhaul-congestion", "cargo build --release"];
    for step in cargo.into_iter().chain(["cc plot", "cc load", "cc list", "lab run", "cc unload"]) {
        assert!(followed.iter().any(|line| line.contains(step)), "the page has no {step}");
    }
}
