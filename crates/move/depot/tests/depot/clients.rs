// SPDX-License-Identifier: GPL-2.0-or-later
//! The clients that people have, each fetching one file through two depots with TLS on every stretch:
//!
//! ```text
//! client ──https──▶ depot "near" ──https──▶ depot "far" ──https──▶ nginx
//! ```
//! What they get has one SHA-256. None is told anything but a URL and whom to trust.

mod browser;

use crate::common::{
    client::{curl, run, wget},
    noise,
    pki::{Pki, url},
    process::Daemon,
    sha256,
    web::Server,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};
use tempfile::TempDir;
use testkit::until;

/// Some tens of MB, and no round number.
const SIZE: usize = 40_000_003;

/// The chain, and a file at its end.
struct Chain {
    _pki: Pki,
    depots: [Daemon; 2],
    nginx: Server,
    sum: String,
    /// Where a client puts what it fetches, and the authority that it is to trust.
    out: PathBuf,
    ca: PathBuf,
    _dir: TempDir,
}

impl Chain {
    fn new() -> Self {
        let seed = std::env::var("LONGHAUL_SEED").map_or_else(|_| time(), |s| s.parse().unwrap());
        println!("LONGHAUL_SEED={seed}");
        let body = noise(seed, SIZE);
        let pki = Pki::new();
        let nginx = pki.nginx("own", &body);
        let depots = ["near", "far"].map(|id| pki.depot(&format!("id = \"{id}\"")));
        let dir = tempfile::tempdir().unwrap();
        let (out, ca) = (dir.path().join("file"), pki.roots());
        Self { _pki: pki, depots, nginx, sum: sha256(&body), out, ca, _dir: dir }
    }

    /// The URL of a file there.
    fn url(&self, path: &str) -> String {
        url(&self.depots, self.nginx.address, path)
    }

    /// Asserts that a client has fetched the file, and that it came through both depots.
    fn fetched(&self, output: &Output) {
        let said = [&output.stdout[..], &output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        self.is_whole(&self.out);
    }

    fn is_whole(&self, file: &Path) {
        let bytes = fs::read(file).unwrap();
        assert_eq!(bytes.len(), SIZE);
        assert_eq!(sha256(&bytes), self.sum, "the file differs");
        for depot in &self.depots {
            depot.await_log(&["INFO", "complete", "method=\"GET\""]);
            let log = depot.log_text();
            assert!(!log.contains("differs") && !log.contains("panicked"), "{log}");
        }
    }
}

/// A seed that is another each time.
fn time() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn by_curl() {
    let chain = Chain::new();
    let args = ["--cacert", text(&chain.ca), "-f", "-o", text(&chain.out), &chain.url("/file")];
    chain.fetched(&curl(&args));
}

#[test]
fn by_wget() {
    let chain = Chain::new();
    let ca = format!("--ca-certificate={}", chain.ca.display());
    chain.fetched(&wget(&[&ca, "-O", text(&chain.out), &chain.url("/file")]));
}

#[test]
fn by_aria2_on_eight_connections() {
    let chain = Chain::new();
    let ca = format!("--ca-certificate={}", chain.ca.display());
    let dir = format!("--dir={}", chain.out.parent().unwrap().display());
    let args = [
        "--no-conf",
        "--quiet",
        "-x8",
        "-s8",
        "-k1M",
        "--out=file",
        "--file-allocation=none",
        "--max-tries=1",
        "--timeout=20",
        "--allow-overwrite=true",
        &ca,
        &dir,
        &chain.url("/file"),
    ];
    chain.fetched(&run("aria2c", "aria2", &args));
    // In parts, on several connections.
    until("connections in the log", || {
        let log = chain.depots[0].log_text();
        let parts = log.lines().filter(|line| line.contains("status=206"));
        let from = parts.filter_map(|line| line.split("client=\"").nth(1)?.split('"').next());
        from.collect::<std::collections::HashSet<_>>().len() > 1
    });
}

#[test]
fn by_python_requests() {
    let chain = Chain::new();
    let script = "import requests, sys\n\
        url, ca, out = sys.argv[1:]\n\
        session = requests.Session()\n\
        session.trust_env = False\n\
        with session.get(url, verify=ca, stream=True, timeout=20) as answer:\n\
        \x20   answer.raise_for_status()\n\
        \x20   with open(out, 'wb') as file:\n\
        \x20       for part in answer.iter_content(65536):\n\
        \x20           file.write(part)\n";
    let args = ["-c", script, &chain.url("/file"), text(&chain.ca), text(&chain.out)];
    chain.fetched(&run("python3", "python3-requests", &args));
}

#[test]
fn by_rclone() {
    let chain = Chain::new();
    let folder = chain.url("/");
    let args = [
        "--config",
        "/dev/null",
        "--ca-cert",
        text(&chain.ca),
        "--http-url",
        &folder,
        "--retries",
        "1",
        "--low-level-retries",
        "1",
        "--timeout",
        "20s",
        "copyto",
        ":http:file",
        text(&chain.out),
    ];
    chain.fetched(&run("rclone", "rclone", &args));
}
