// SPDX-License-Identifier: GPL-2.0-or-later
//! Two depots with a server behind them, for programs that know nothing of depots.

use crate::{common::text, depot::Depot};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::PathBuf,
    process::{Command, Output, Stdio},
    thread,
};

/// What Python programs begin with: the server's address, and an exchange with it up to the end of both directions.
pub const PRELUDE: &str = r#"
import errno, fcntl, os, select, socket, struct, sys, threading, time
host, port = os.environ["ECHO"].rsplit(":", 1)
port = int(port)
def exchange(s, size=300000):
    sent = os.urandom(size)
    t = threading.Thread(target=lambda: (s.sendall(sent), s.shutdown(socket.SHUT_WR)))
    t.start()
    got = b""
    while part := s.recv(65536): got += part
    t.join()
    assert got == sent, (len(got), len(sent))
"#;

/// Python: ends, resets and urgent bytes in both directions of what `connect` opens.
pub const ENDS: &str = r#"
server = socket.create_server(("127.0.0.1", 0))
def pair():
    here = connect(server.getsockname())
    there = server.accept()[0]
    for s in here, there: s.settimeout(20)
    return here, there
for turned in False, True:
    a, b = reversed(pair()) if turned else pair()
    a.sendall(b"abc")
    a.send(b"!", socket.MSG_OOB)
    a.sendall(b"def")
    a.shutdown(socket.SHUT_WR)
    got = b""
    while part := b.recv(100): got += part
    assert got == b"abc!def", got
    b.sendall(b"and back")
    b.close()
    assert a.recv(100, socket.MSG_WAITALL) == b"and back"
    # Closed with SO_LINGER 0: a reset.
    a, b = reversed(pair()) if turned else pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    a.close()
    try: assert False, b.recv(1)
    except ConnectionResetError: pass
"#;

/// Sends back what it is sent, up to the end, and then ends.
pub fn echo_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut bytes = vec![0; 65536];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Two depots, and a server behind them.
pub struct Chain {
    pub dir: tempfile::TempDir,
    pub near: Depot,
    pub far: Depot,
    pub echo: String,
}

impl Chain {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("depot.toml");
        let open = "[allow]\nclients = [\"127.0.0.0/8\", \"::1/128\"]\nlocal = true\n\
            upstreams = [\"127.0.0.1:*\"]\nservers = [\"127.0.0.1:*\"]\n";
        fs::write(&config, open).unwrap();
        let arguments = ["--config", config.to_str().unwrap()];
        let [near, far] = ["near", "far"].map(|id| Depot::named(id, &arguments));
        Self { dir, near, far, echo: echo_server() }
    }

    pub fn via(&self) -> String {
        format!("{},{}", self.near.listen, self.far.listen)
    }

    /// `longhaul run` of what goes through both depots.
    pub fn run(&self, options: &[&str], program: &[&str]) -> Output {
        self.command(options, program).output().unwrap()
    }

    pub fn command(&self, options: &[&str], program: &[&str]) -> Command {
        self.command_via(&self.via(), options, program)
    }

    /// The same through these depots.
    pub fn command_via(&self, via: &str, options: &[&str], program: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["run", "--via", via, "--match", "127.0.0.0/8", "--match", "::1"]);
        command.args(options).arg("--").args(program);
        command.env("ECHO", &self.echo).stdin(Stdio::null());
        command
    }

    /// A Python program through both depots: what it prints.
    pub fn python(&self, script: &str) -> String {
        let output = self.run(&["--stats"], &["python3", "-c", &format!("{PRELUDE}\n{script}")]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{}: {out}{err}", output.status);
        assert!(err.contains(" through depots, 0 directly, "), "{err}");
        out
    }

    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

pub fn kill(signal: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}
