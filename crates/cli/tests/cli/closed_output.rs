// SPDX-License-Identifier: GPL-2.0-or-later
//! Readers that close standard output or standard error early, as `head` does, and outputs that take nothing more.

use crate::{
    common::{done, longhaul, scenario, text},
    depot::Depot,
};
use std::{
    fs::File,
    io::Read,
    process::{Command, Output, Stdio},
};
use testkit::draft::Draft;
use testkit::http_server::{Conn, Request, Server};

/// The end of a pipe for a writer, whose reader has gone.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Each command that prints without root or a network, with its exit code.
fn commands(directory: &str) -> Vec<(Vec<String>, i32)> {
    let file = scenario("000-figure-08.toml");
    let depot = format!("{directory}/depot.toml");
    std::fs::write(&depot, "[allow]\nclients = [\"127.0.0.0/8\"]\n").unwrap();
    let (key, keys) = (format!("{directory}/key.pem"), format!("{directory}/keys.json"));
    done(&["ticket", "keygen", &key, "--public", &keys]);
    let small = format!("{directory}/small.toml");
    let text = Draft::new("small", "").nodes(&["a", "b"]).link("a", "b", "rate=100mbit delay=5ms");
    let text = text.flow("a", "b", "bytes=100KB");
    std::fs::write(&small, text.to_string()).unwrap();
    let out = format!("{directory}/out");
    done(&["sim", &small, "--out", &out]);
    let url = "http://origin.example/f";
    let make = ["ticket", "make", "--key", &key, "--via", "d.example", "--expires", "1h", url];
    let ticket = done(&make);
    let lines: &[(&[&str], i32)] = &[
        (&["--help"], 0),
        (&["--version"], 0),
        (&["no-such-command"], 2),
        (&["get", "--help"], 0),
        (&["cc", "list"], 0),
        (&["cc", "list", "--json"], 0),
        (&["cc", "show", "htcp"], 0),
        (&["cc", "show", "htcp", "--json"], 0),
        (&["cc", "show", "no-such"], 2),
        (&["depot", "check", &depot], 0),
        (&["depot", "status", "http://127.0.0.1:9/"], 1),
        (&["lab", "check", &file], 0),
        (&["lab", "check", &file, "--json"], 0),
        (&["lab", "export", &out, "--csv", "-"], 0),
        (&["pace", "methods"], 0),
        (&["report", &out], 0),
        (&["sim", &small, "--out", &out], 0),
        (&["ticket", "show", ticket.trim()], 0),
        (&["ticket", "verify", ticket.trim(), "--keys", &keys, "--json"], 0),
        (&make, 0),
        (&["wan", "status", "--name", "none"], 1),
    ];
    let owned = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect();
    lines.iter().map(|(line, code)| (owned(line), *code)).collect()
}

#[test]
fn closed_standard_output_ends_no_command_with_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    for (line, code) in commands(directory.path().to_str().unwrap()) {
        let usual = longhaul().args(&line).output().unwrap();
        assert_eq!(usual.status.code(), Some(code), "{line:?}: {}", text(&usual.stderr));
        let output = longhaul().args(&line).stdout(closed()).stderr(Stdio::piped()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{line:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), text(&usual.stderr), "{line:?}");
    }
}

#[test]
fn closed_standard_error_ends_no_command_with_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    for (line, code) in commands(directory.path().to_str().unwrap()) {
        let both = longhaul().args(&line).stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(both.code(), Some(code), "{line:?}");
    }
}

#[test]
fn full_standard_output_fails_with_its_cause() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for line in [&["cc", "list"][..], &["lab", "check", &scenario("demo.toml"), "--json"]] {
        let output = longhaul().args(line).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let err = text(&output.stderr);
        let says = "longhaul: cannot write to standard output: No space left";
        assert!(output.status.code() == Some(1) && err.contains(says), "{line:?}: {err}");
    }
}

#[test]
fn repeated_status_ends_when_its_reader_does() {
    let depot = Depot::start(&[]);
    let url = format!("http://{}", depot.admin);
    let status = longhaul().args(["depot", "status", &url]).stdout(closed()).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn download_ends_quietly_when_its_reader_does() {
    let server = Server::start(|_, _: &Request, conn: &mut Conn| {
        conn.answer("200 OK", &[], &vec![7; 8 << 20]);
    });
    let url = server.url("/f");
    let mut child = longhaul();
    child.args(["get", "-o", "-", &url]).env("XDG_CONFIG_HOME", "/no/such/directory");
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 5];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    // As a shell reports a program that SIGPIPE ended.
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), String::new()));
}

#[test]
fn programs_under_run_ignore_what_they_were_to_ignore() {
    let ignoring = |program: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' HUP INT QUIT TERM; exec \"$@\"", "sh"]).args(program);
        text(&command.output().unwrap().stdout)
    };
    let program = ["sh", "-c", "grep SigIgn /proc/self/status"];
    let longhaul = env!("CARGO_BIN_EXE_longhaul");
    let under_run = [&[longhaul, "run", "--via", "d1.example", "--"][..], &program[..]].concat();
    assert_eq!(ignoring(&under_run), ignoring(&program));
}

#[test]
fn programs_under_run_keep_the_usual_sigpipe() {
    let program = ["sh", "-c", "grep SigIgn /proc/self/status"];
    let usual = Command::new(program[0]).args(&program[1..]).output().unwrap();
    let under_run: Output =
        longhaul().args(["run", "--via", "d1.example", "--"]).args(program).output().unwrap();
    assert!(under_run.status.success(), "{}", text(&under_run.stderr));
    assert_eq!(text(&under_run.stdout), text(&usual.stdout));
}
