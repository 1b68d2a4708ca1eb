// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests share: random bytes, options with short times, and running one transfer.

use longhaul_transfer::{Client, Destination, GetRequest, Options, Progress, Report};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sha2::{Digest, Sha256};
use std::{
    future::{Future, pending},
    io::{self, Write},
    path::Path,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};
use tokio::runtime::Runtime;

/// The seed of all random tests, printed and replayable.
pub static SEED: LazyLock<u64> = LazyLock::new(|| {
    let text = std::env::var("LONGHAUL_SEED").ok();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = text.map_or(now.as_nanos() as u64, |text| text.parse().expect("LONGHAUL_SEED"));
    println!("LONGHAUL_SEED={seed}");
    seed
});

pub fn random(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed)
}

pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random(seed).fill_bytes(&mut bytes);
    bytes
}

/// A digest as in `Repr-Digest`, made without the client's code.
pub fn repr_digest(bytes: &[u8]) -> String {
    use base64::Engine;
    let encoded = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(bytes));
    format!("sha-256=:{encoded}:")
}

pub fn quick() -> Options {
    Options {
        first_wait: Duration::from_millis(5),
        longest_wait: Duration::from_millis(20),
        stall_time: Duration::from_millis(500),
        connect_timeout: Duration::from_secs(3),
        report_digest: true,
        ..Options::default()
    }
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub fn request(url: &str, file: &Path) -> GetRequest {
    GetRequest {
        url: url.to_owned(),
        destination: Destination::File(file.to_owned()),
        digest: None,
    }
}

pub fn get(options: Options, request: GetRequest) -> Report {
    get_until(options, request, pending())
}

pub fn get_until(options: Options, request: GetRequest, stop: impl Future<Output = ()>) -> Report {
    let client = Client::new(options).unwrap();
    let progress = Arc::new(Progress::default());
    let ended = runtime().block_on(async {
        tokio::time::timeout(Duration::from_secs(30), client.get(request, &progress, stop)).await
    });
    ended.expect("the transfer hangs")
}

/// The text of the error with which a transfer ended.
pub fn failure(report: &Report) -> String {
    report.result.as_ref().expect_err("it should have failed").to_string()
}

/// Names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Bytes that come out of a download to standard output.
#[derive(Clone, Default)]
pub struct Out(pub Arc<Mutex<Vec<u8>>>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
