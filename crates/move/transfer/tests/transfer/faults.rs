// SPDX-License-Identifier: GPL-2.0-or-later
//! Two hundred transfers by one seed: whatever server, disk and earlier processes do, the file is one that the server
//! had, whole, or it is not there and there is an error.

use crate::common::{SEED, bytes, quick, random, repr_digest, request, runtime};
use longhaul_transfer::{Client, Options, Progress, Report, Status};
use rand_core::Rng;
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use testkit::http_server::{Conn, Request, Server};
use tokio::task::JoinSet;

const TRANSFERS: u64 = 200;
/// At one time.
const TOGETHER: usize = 16;
/// No transfer may take longer.
const LONGEST: Duration = Duration::from_secs(25);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Reset,
    Truncated,
    Stall,
    Drip,
    /// The file changes, and its validators with it.
    NewVersion,
    /// All bytes change, the validators do not.
    SilentChange,
    TooLong,
    NoLength,
    NoLengthTruncated,
    WholeForRange,
    OtherRange,
    OtherTotal,
    OtherTag,
    WrongDigest,
    BrokenGzip,
    Busy,
    TwoLengths,
    Unsatisfiable,
    Gone,
}

const FAULTS: [Fault; 20] = [
    Fault::None,
    Fault::Reset,
    Fault::Truncated,
    Fault::Stall,
    Fault::Drip,
    Fault::NewVersion,
    Fault::SilentChange,
    Fault::TooLong,
    Fault::NoLength,
    Fault::NoLengthTruncated,
    Fault::WholeForRange,
    Fault::OtherRange,
    Fault::OtherTotal,
    Fault::OtherTag,
    Fault::WrongDigest,
    Fault::BrokenGzip,
    Fault::Busy,
    Fault::TwoLengths,
    Fault::Unsatisfiable,
    Fault::Gone,
];

/// A server's file, its faults by request, and what it says of the file.
struct Script {
    versions: [Vec<u8>; 3],
    faults: Vec<(Fault, u64)>,
    etag: u64,
    dated: bool,
    digests: bool,
    version: AtomicUsize,
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut random = random(seed);
        let mut below = |n: u64| random.next_u64() % n;
        let length = match below(8) {
            0 => below(3) as usize,
            1 => 65_536,
            _ => below(400_000) as usize,
        };
        let first = bytes(seed, length);
        let second = bytes(seed + 1_000_003, (length + below(2) as usize * 777).max(1));
        let silent = first.iter().map(|byte| byte ^ 0x5a).collect();
        let number = below(5) as usize;
        let faults = (0..number).map(|_| (FAULTS[below(20) as usize], below(1 << 32))).collect();
        Self {
            versions: [first, second, silent],
            faults,
            etag: below(4),
            dated: below(2) == 0,
            digests: below(3) == 0,
            version: AtomicUsize::new(0),
        }
    }

    fn answer(&self, number: usize, request: &Request, conn: &mut Conn) {
        let (fault, draw) = self.faults.get(number).copied().unwrap_or((Fault::None, 0));
        match fault {
            Fault::NewVersion => self.version.store(1, Ordering::Relaxed),
            Fault::SilentChange => self.version.store(2, Ordering::Relaxed),
            Fault::Busy => return conn.answer("503 Busy", &[("Retry-After", "0")], b"later"),
            Fault::Gone => return conn.answer("404 Gone", &[], b"no"),
            _ => {}
        }
        let version = self.version.load(Ordering::Relaxed);
        let data = &self.versions[version];
        let fields = self.fields(fault, version, data);
        let borrowed: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if request.method == "HEAD" {
            let length = data.len().to_string();
            let all = [&borrowed[..], &[("Content-Length", length.as_str())]].concat();
            return conn.head("200 OK", &all);
        }
        let mine = fields.iter().any(|(name, value)| {
            matches!(*name, "ETag" | "Last-Modified") && request.field("if-range") == value
        });
        match request.range().filter(|_| mine && fault != Fault::WholeForRange) {
            Some((from, _)) if from >= data.len() || fault == Fault::Unsatisfiable => {
                let range = format!("bytes */{}", data.len());
                conn.answer("416 No", &[&borrowed[..], &[("Content-Range", &range)]].concat(), b"");
            }
            Some((from, _)) => Self::range(fault, draw, from, data, &borrowed, conn),
            None => Self::body(fault, draw, data, "200 OK", &borrowed, conn),
        }
    }

    fn fields(&self, fault: Fault, version: usize, data: &[u8]) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        // A silent change is one that validators do not tell.
        let version = version % 2;
        let tag = if fault == Fault::OtherTag { 7 } else { version };
        match self.etag {
            0 | 1 => fields.push(("ETag", format!("\"v{tag}\""))),
            2 => fields.push(("ETag", format!("W/\"v{tag}\""))),
            _ => {}
        }
        if self.dated {
            fields.push(("Last-Modified", format!("Tue, 01 Jan 2019 00:00:0{tag} GMT")));
            fields.push(("Date", "Wed, 02 Jan 2019 00:00:00 GMT".to_owned()));
        }
        if self.digests || fault == Fault::WrongDigest {
            let of: &[u8] = if fault == Fault::WrongDigest { b"wrong" } else { data };
            fields.push(("Repr-Digest", repr_digest(of)));
        }
        if fault == Fault::BrokenGzip {
            fields.push(("Content-Encoding", "gzip".to_owned()));
        }
        fields
    }

    fn range(
        fault: Fault,
        draw: u64,
        from: usize,
        data: &[u8],
        fields: &[(&str, &str)],
        conn: &mut Conn,
    ) {
        let total = data.len() + usize::from(fault == Fault::OtherTotal);
        let from = if fault == Fault::OtherRange { from / 2 } else { from };
        let range = format!("bytes {from}-{}/{total}", data.len() - 1);
        let fields = [fields, &[("Content-Range", range.as_str())]].concat();
        Self::body(fault, draw, &data[from..], "206 Part", &fields, conn);
    }

    fn body(
        fault: Fault,
        draw: u64,
        data: &[u8],
        status: &str,
        fields: &[(&str, &str)],
        conn: &mut Conn,
    ) {
        let place = (draw % (data.len() as u64 + 1)) as usize;
        let claimed = data.len() + if fault == Fault::TooLong { 100 } else { 0 };
        let length = claimed.to_string();
        let mut all = fields.to_vec();
        match fault {
            Fault::NoLength | Fault::NoLengthTruncated => {}
            Fault::TwoLengths => {
                all.extend([("Content-Length", length.as_str()), ("Content-Length", "1")]);
            }
            _ => all.push(("Content-Length", &length)),
        }
        conn.head(status, &all);
        match fault {
            Fault::Reset => {
                conn.send(&data[..place]);
                conn.reset();
            }
            Fault::Truncated | Fault::NoLengthTruncated | Fault::BrokenGzip => {
                conn.send(&data[..place]);
            }
            Fault::Stall => {
                conn.send(&data[..place]);
                conn.hang(Duration::from_secs(3));
            }
            Fault::Drip => {
                conn.send(&data[..place]);
                for byte in &data[place..] {
                    if !conn.send([*byte]) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            }
            _ => {
                conn.send(data);
            }
        }
    }
}

/// What is in the directory before.
fn prepare(kind: u64, file: &Path, script: &Script, url: &str) {
    let part = file.with_file_name("f.part");
    match kind {
        0 => fs::write(file, b"something else").unwrap(),
        1 => fs::write(file, &script.versions[0]).unwrap(),
        2 => fs::write(part, b"left by another").unwrap(),
        3 => {
            let held = script.versions[0].len() / 2;
            fs::write(part, &script.versions[0][..held]).unwrap();
            let done = if held > 0 { format!("[[0,{held}]]") } else { "[]".to_owned() };
            let text = format!(
                r#"{{"version":1,"url":"{url}","etag":"\"v0\"","last_modified":null,"settled":false,
                "total":{},"digest":null,"encoding":null,"done":{done}}}"#,
                script.versions[0].len()
            );
            fs::write(file.with_file_name("f.part.json"), text).unwrap();
        }
        _ => {}
    }
}

/// Whether the outcome is one of those that are allowed.
fn judge(
    report: &Report,
    file: &Path,
    script: &Script,
    before: Option<&[u8]>,
) -> Result<(), String> {
    let now = fs::read(file).ok();
    let whole = |now: &Vec<u8>| script.versions.contains(now);
    match (&report.result, &now) {
        (Ok(Status::Complete), Some(now)) if whole(now) => Ok(()),
        (Ok(Status::Unchanged), Some(now)) if Some(now.as_slice()) == before && whole(now) => {
            Ok(())
        }
        (Err(_), now) if now.as_deref() == before => Ok(()),
        (result, now) => {
            let now = now.as_ref().map(Vec::len);
            Err(format!("{result:?} with a file of {now:?} bytes: {:?}", script.faults))
        }
    }
}

async fn transfer(seed: u64) -> Result<bool, String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let script = Arc::new(Script::new(seed));
    let answers = Arc::clone(&script);
    let server = Server::start(move |number, request, conn| answers.answer(number, request, conn));
    let url = server.url("/f");
    let mut random = random(seed ^ 0xabcd);
    prepare(random.next_u64() % 10, &file, &script, &url);
    let before = fs::read(&file).ok();
    let options = Options {
        stall_time: Duration::from_millis(400),
        overwrite: random.next_u64().is_multiple_of(4),
        ..quick()
    };
    let overwrite = options.overwrite;
    let client = Client::new(options).unwrap();
    let progress = Arc::new(Progress::default());
    let never = std::future::pending;
    let one = client.get(request(&url, &file), &progress, never());
    let said = |text: String| format!("seed {seed}: {text}");
    // Sometimes a second one, which must not mix with the first.
    let twice = random.next_u64().is_multiple_of(8);
    let reports = if twice {
        let other = client.get(request(&url, &file), &progress, never());
        let both =
            tokio::time::timeout(LONGEST, Box::pin(async { tokio::join!(one, other) })).await;
        let (one, other) = both.map_err(|_| said("hangs".into()))?;
        vec![one, other]
    } else {
        vec![tokio::time::timeout(LONGEST, one).await.map_err(|_| said("hangs".into()))?]
    };
    if twice {
        let now = fs::read(&file).ok();
        let fine = now == before || now.is_some_and(|now| script.versions.contains(&now));
        return if fine { Ok(false) } else { Err(said("two at once left a wrong file".into())) };
    }
    let before = before.as_deref().filter(|_| !overwrite || reports[0].result.is_err());
    judge(&reports[0], &file, &script, before).map_err(said)?;
    Ok(reports[0].result.is_ok())
}

#[test]
fn two_hundred_transfers_leave_the_right_file_or_none() {
    let seed = *SEED;
    let outcomes = runtime().block_on(async {
        let (mut set, mut outcomes) = (JoinSet::new(), Vec::new());
        for at in 0..TRANSFERS {
            while set.len() >= TOGETHER {
                outcomes.push(set.join_next().await.unwrap().unwrap());
            }
            set.spawn(transfer(seed.wrapping_add(at)));
        }
        while let Some(ended) = set.join_next().await {
            outcomes.push(ended.unwrap());
        }
        outcomes
    });
    let wrong: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let complete = outcomes.iter().filter(|outcome| matches!(outcome, Ok(true))).count();
    println!("{complete} of {TRANSFERS} complete");
    // Faults that pass are overcome, or the invariant would hold for a client that does nothing.
    assert!(complete * 2 > TRANSFERS as usize, "only {complete} complete");
}
