// SPDX-License-Identifier: GPL-2.0-or-later
//! A real etcd (Debian: etcd-server and etcd-client), with one member.

use crate::until;
use std::{
    io::Write,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// What keys of depots begin with.
const PREFIX: &str = "/longhaul/depots/";

/// One member, on loopback.
#[derive(Debug)]
pub struct Etcd {
    directory: TempDir,
    /// Where clients ask it.
    pub address: SocketAddr,
    peers: SocketAddr,
    child: Option<Child>,
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Etcd {
    /// Starts an empty one, and awaits that it answers.
    pub fn start() -> Self {
        // In memory, where that can be: each write is synced.
        let memory = PathBuf::from("/dev/shm");
        let directory =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let mut etcd =
            Self { directory: directory.unwrap(), address: free(), peers: free(), child: None };
        etcd.start_again();
        etcd
    }

    /// Starts it with what it had.
    pub fn start_again(&mut self) {
        let (clients, peers) =
            (format!("http://{}", self.address), format!("http://{}", self.peers));
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(self.directory.path().join("data"))
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}"), "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd (Debian: etcd-server) runs");
        self.child = Some(child);
        until("etcd answers", || self.control(&["endpoint", "health"], "").is_some());
    }

    /// Ends it as `kill -9` does.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What etcdctl prints; none where it fails.
    fn control(&self, arguments: &[&str], input: &str) -> Option<String> {
        let mut child = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.address.to_string()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcdctl (Debian: etcd-client) runs");
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Writes a value of a depot.
    pub fn put(&self, name: &str, value: &str) {
        self.control(&["put", &format!("{PREFIX}{name}"), value], "").expect("it is put");
    }

    /// Writes many.
    pub fn put_many(&self, values: impl Iterator<Item = (String, String)>) {
        let put = |(name, value): (String, String)| format!("put {PREFIX}{name} {value}\n");
        let all: Vec<String> = values.map(put).collect();
        // Of a transaction at most 128.
        for some in all.chunks(100) {
            self.control(&["txn"], &format!("\n{}\n\n", some.concat())).expect("they are put");
        }
    }

    /// A value; none if it is not there.
    pub fn get(&self, name: &str) -> Option<String> {
        let key = format!("{PREFIX}{name}");
        let value = self.control(&["get", "--print-value-only", &key], "").expect("it answers");
        (!value.is_empty()).then_some(value)
    }

    /// Removes a value.
    pub fn delete(&self, name: &str) {
        self.control(&["del", &format!("{PREFIX}{name}")], "").expect("it is deleted");
    }

    /// Forgets all revisions before the present one.
    pub fn compact(&self) {
        let status = self.control(&["endpoint", "status", "--write-out", "json"], "").unwrap();
        let rest = status.split("\"revision\":").nth(1).unwrap();
        let revision: String = rest.chars().take_while(char::is_ascii_digit).collect();
        self.control(&["compact", &revision], "").expect("it is compacted");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop();
    }
}
