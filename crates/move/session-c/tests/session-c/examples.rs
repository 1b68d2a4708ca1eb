// SPDX-License-Identifier: GPL-2.0-or-later
//! The examples with each other and with programs in Rust.

use super::{checks, example, with_library};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::process::{Pid, Signal, kill_process};
use session::{
    ListenOptions, Options, Route,
    blocking::{Listener, Session},
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    thread,
};

pub(super) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// A program that is killed when a test is over.
pub(super) struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    pub(super) fn start(name: &str, arguments: &[&str]) -> Self {
        let path = if name == "checks" { checks().to_owned() } else { example(name) };
        let mut command = with_library(&path);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// One that listens, and where.
    fn listening(name: &str) -> (Self, String) {
        let mut program = Self::start(name, &["127.0.0.1:0"]);
        let mut line = String::new();
        // The program writes nothing more to it unless it fails.
        let stderr = program.0.stderr.as_mut().unwrap();
        BufReader::with_capacity(1, stderr).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line}"));
        let address = address.to_owned();
        (program, address)
    }

    fn pipes(&mut self) -> (ChildStdin, ChildStdout) {
        (self.0.stdin.take().unwrap(), self.0.stdout.take().unwrap())
    }

    /// Waits for its good end.
    pub(super) fn succeed(mut self) {
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}: {said}");
    }

    /// Waits for its bad end; what it said.
    pub(super) fn fails(mut self) -> String {
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.0.wait().unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        said
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

fn connect(address: &str) -> Session {
    let route = Route::to(&[], address).unwrap();
    Session::connect(vec![route], Options::default()).unwrap()
}

#[test]
fn send_and_receive_move_5_mb() {
    let all = bytes(5_000_001, 1);
    let (mut receive, address) = Program::listening("receive");
    let mut send = Program::start("send", &[&address]);
    let (mut input, mut said) = send.pipes();
    let (_, mut output) = receive.pipes();
    let copy = all.clone();
    let writer = thread::spawn(move || input.write_all(&copy).unwrap());
    let mut received = Vec::new();
    output.read_to_end(&mut received).unwrap();
    assert!(received == all);
    writer.join().unwrap();
    let mut line = String::new();
    said.read_to_string(&mut line).unwrap();
    assert_eq!(line, "5000001 bytes have arrived\n");
    send.succeed();
    receive.succeed();
}

#[test]
fn send_reaches_a_listener_in_rust() {
    let all = bytes(5_000_001, 2);
    let listener = Listener::bind("127.0.0.1:0", ListenOptions::default()).unwrap();
    let mut send = Program::start("send", &[&listener.local_addr().to_string()]);
    let (mut input, _output) = send.pipes();
    let copy = all.clone();
    let writer = thread::spawn(move || input.write_all(&copy).unwrap());
    let mut session = listener.accept(Options::default()).unwrap();
    let mut received = Vec::new();
    session.read_to_end(&mut received).unwrap();
    assert!(received == all);
    session.end();
    session.sent().unwrap();
    writer.join().unwrap();
    send.succeed();
}

#[test]
fn echo_serves_sessions_of_rust_side_by_side() {
    let (_echo, address) = Program::listening("echo");
    thread::scope(|scope| {
        for seed in 3..6 {
            let address = &address;
            scope.spawn(move || {
                let all = bytes(5_000_000 + seed as usize, seed);
                let session = connect(address);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        (&session).write_all(&all).unwrap();
                        session.end();
                    });
                    let mut back = Vec::new();
                    (&session).read_to_end(&mut back).unwrap();
                    assert!(back == all);
                });
                session.sent().unwrap();
            });
        }
    });
}

#[test]
fn killed_peer_resets_the_descriptor() {
    let (echo, address) = Program::listening("echo");
    let mut check = Program::start("checks", &["killed", &address]);
    let mut line = String::new();
    BufReader::new(check.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "kill\n");
    drop(echo);
    check.succeed();
}

/// What a program has not got yet of an answer must not look like its end.
#[test]
fn killed_peer_resets_a_half_closed_descriptor() {
    let (echo, address) = Program::listening("echo");
    let mut check = Program::start("checks", &["killed", &address, "half"]);
    let (mut input, output) = check.pipes();
    let mut output = BufReader::new(output);
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "stop\n");
    echo.signal(Signal::STOP);
    input.write_all(b"\n").unwrap();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "stop\nkill\n");
    drop(echo);
    check.succeed();
}
