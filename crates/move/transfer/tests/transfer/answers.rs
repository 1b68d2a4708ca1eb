// SPDX-License-Identifier: GPL-2.0-or-later
//! Random servers that contradict themselves, by a seed: whatever they send, a file that gets its name is one that the
//! server has, whole.
//!
//! Each answer is honest, or shows somewhere that it is not: by a field, by a length that differs from one said before
//! of the same version, or by bytes that differ from those held. A server whose lies agree cannot be found out.
//! `LONGHAUL_SEED` repeats a run; `LONGHAUL_ANSWERS_SECONDS` makes it longer.

use crate::common::{Out, SEED, bytes, quick, random, request, runtime};
use longhaul_transfer::{Client, Destination, GetRequest, Options, Progress, Report};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use route::{Match, RouteTable};
use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use testkit::http_server::{Conn, Request, Server};
use tokio::task::JoinSet;

/// Downloads without `LONGHAUL_ANSWERS_SECONDS`.
const DOWNLOADS: u64 = 400;
/// At one time.
const TOGETHER: usize = 16;
const LONGEST: Duration = Duration::from_secs(25);

/// A server's state.
struct Liar {
    random: Pcg64Mcg,
    versions: [Vec<u8>; 2],
    version: usize,
    /// `"a"` strong, weak, or none.
    tag: u64,
    /// Of which versions the client knows the length.
    told: [bool; 2],
    /// How often it still lies.
    lies: u64,
    /// What it was asked and said.
    log: Vec<String>,
}

/// How a body is framed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Length,
    Chunks,
    Close,
}

/// What is sent.
struct Reply {
    status: &'static str,
    ranges: Vec<String>,
    frame: Frame,
    kind: Option<&'static str>,
    trailer: Option<&'static str>,
    body: Vec<u8>,
    /// Where the connection breaks.
    cut: Option<usize>,
    etag: Option<String>,
}

impl Liar {
    fn new(seed: u64) -> Self {
        let mut random = random(seed);
        let length = match random.next_u64() % 6 {
            0 => 1 + random.next_u64() % 3,
            1 => 65_536,
            _ => 1 + random.next_u64() % 300_000,
        };
        let versions = [bytes(seed, length as usize), bytes(seed ^ 1 << 40, length as usize + 7)];
        let (tag, lies) = (random.next_u64() % 5, random.next_u64() % 6);
        Self { random, versions, version: 0, tag, told: [false; 2], lies, log: Vec::new() }
    }

    fn below(&mut self, n: usize) -> usize {
        (self.random.next_u64() % n as u64) as usize
    }

    fn etag(&self, version: usize) -> Option<String> {
        match self.tag {
            0..3 => Some(format!("\"v{version}\"")),
            3 => Some(format!("W/\"v{version}\"")),
            _ => None,
        }
    }

    fn frame(&mut self) -> Frame {
        [Frame::Length, Frame::Chunks, Frame::Close][self.below(3)]
    }

    /// The answer that it should give, possibly cut short.
    fn honest(&mut self, request: &Request) -> Reply {
        let etag = self.etag(self.version);
        let data = self.versions[self.version].clone();
        let range = request.range().filter(|_| etag.as_deref() == Some(request.field("if-range")));
        let mut reply = Reply {
            status: "200 OK",
            ranges: Vec::new(),
            frame: self.frame(),
            kind: None,
            trailer: None,
            body: data.clone(),
            cut: None,
            etag,
        };
        match range {
            Some((from, _)) if from >= data.len() => {
                reply.status = "416 No";
                reply.ranges = vec![format!("bytes */{}", data.len())];
                (reply.body, reply.frame) = (Vec::new(), Frame::Length);
            }
            Some((from, end)) => {
                let end = end.unwrap_or(data.len());
                reply.status = "206 Part";
                reply.ranges = vec![format!("bytes {from}-{}/{}", end - 1, data.len())];
                reply.body = data[from..end].to_vec();
            }
            None => {
                // Only then its end can be proven.
                if reply.frame == Frame::Close && self.tag >= 3 {
                    reply.frame = Frame::Length;
                }
            }
        }
        // A 200 to a range may be a slice, so its length says nothing of the version.
        let is_whole = reply.frame == Frame::Length && request.range().is_none();
        self.told[self.version] |= is_whole || range.is_some();
        reply
    }

    /// An answer of which one thing is wrong.
    fn lie(&mut self, request: &Request) -> Reply {
        let told = self.told;
        let mut reply = self.honest(request);
        let told = std::mem::replace(&mut self.told, told);
        let data = self.versions[self.version].clone();
        let from = request.range().map_or_else(|| self.below(data.len()), |range| range.0);
        let from = from.min(data.len() - 1);
        let end = from + 1 + self.below(data.len() - from);
        let slice = data[from..end].to_vec();
        let is_whole = slice.len() == data.len();
        let range = format!("bytes {from}-{}/{}", end - 1, data.len());
        let asked = request.range().is_some();
        match self.below(14) {
            // A break, or a new version.
            0 | 1 => {
                self.told = told;
                reply.cut = Some(self.below(reply.body.len() + 1));
            }
            2 => {
                self.version = 1;
                return self.honest(request);
            }
            // The slice with Content-Range, by 200 or without being asked for.
            3 | 4 => (reply.status, reply.ranges, reply.body) = ("200 OK", vec![range], slice),
            5 if !asked => (reply.status, reply.ranges, reply.body) = ("206 P", vec![range], slice),
            // The slice as if it were the whole.
            6 | 7 if asked && !is_whole => {
                (reply.status, reply.ranges, reply.body) = ("200 OK", Vec::new(), slice);
                if self.below(3) == 0 {
                    reply.etag = (self.below(2) == 1).then(|| "\"other\"".to_owned());
                }
            }
            // The whole of a version whose length has been said. A close proves nothing, and is asked about.
            6 | 7 if self.told[self.version] && self.tag < 4 && reply.status == "200 OK" => {
                reply.body = slice;
            }
            8 if asked => (reply.status, reply.ranges) = ("206 Part", Vec::new()),
            8 => {
                (reply.status, reply.ranges) =
                    ("206 Part", vec![format!("bytes 0-0/{}", data.len())]);
            }
            9 if asked => {
                let wrong = [
                    format!("bytes {}-{}/{}", from + 1, data.len(), data.len() + 1),
                    format!("bytes {from}-{}/*", data.len() - 1),
                    format!("bytes {from}-{}/{}", data.len() - 1, data.len() + 5),
                    format!("bytes */{}", data.len()),
                    "none".to_owned(),
                ];
                (reply.status, reply.ranges) = ("206 Part", vec![wrong[self.below(5)].clone()]);
            }
            10 => {
                reply.ranges = vec![range.clone(), range];
                reply.body = slice;
            }
            11 => {
                reply.kind = Some("multipart/byteranges; boundary=x");
                reply.body = slice;
            }
            12 => {
                reply.frame = Frame::Chunks;
                reply.trailer = Some("X-Transfer-Status: 500: broken");
                reply.body.truncate(slice.len());
                if asked {
                    reply.status = "200 OK";
                }
            }
            // The right fields, and bytes from elsewhere: those held tell.
            13 if reply.status == "206 Part" => reply.body.iter_mut().for_each(|b| *b ^= 0x55),
            _ => reply.cut = Some(self.below(reply.body.len() + 1)),
        }
        reply
    }

    fn answer(&mut self, request: &Request, conn: &mut Conn) {
        if request.method == "HEAD" {
            let length = self.versions[self.version].len().to_string();
            let etag = self.etag(self.version).unwrap_or_default();
            let mut fields = vec![("Content-Length", length.as_str())];
            fields.extend((!etag.is_empty()).then_some(("ETag", etag.as_str())));
            return conn.head("200 OK", &fields);
        }
        let lies = self.lies > 0 && self.below(4) > 0;
        if lies {
            self.lies -= 1;
        }
        let reply = if lies { self.lie(request) } else { self.honest(request) };
        self.log.push(format!("{:?}: {}", request.fields.get("range"), reply.summary()));
        reply.send(conn);
    }
}

impl Reply {
    fn summary(&self) -> String {
        let Self { status, ranges, body, cut, etag, trailer, .. } = self;
        let length = if self.frame == Frame::Length { "with its length" } else { "without" };
        format!(
            "{status} {ranges:?}, {} bytes {length}, {cut:?}, {etag:?}, {trailer:?}",
            body.len()
        )
    }

    fn send(&self, conn: &mut Conn) {
        let length = self.body.len().to_string();
        let mut fields: Vec<(&str, &str)> = Vec::new();
        fields.extend(self.etag.as_deref().map(|etag| ("ETag", etag)));
        fields.extend(self.ranges.iter().map(|range| ("Content-Range", range.as_str())));
        fields.extend(self.kind.map(|kind| ("Content-Type", kind)));
        match self.frame {
            Frame::Length => fields.push(("Content-Length", &length)),
            Frame::Chunks => fields.push(("Transfer-Encoding", "chunked")),
            Frame::Close => {}
        }
        conn.head(self.status, &fields);
        let body = &self.body[..self.cut.unwrap_or(self.body.len())];
        if self.frame != Frame::Chunks {
            conn.send(body);
            return;
        }
        if !body.is_empty() {
            conn.send(format!("{:x}\r\n", body.len()));
            conn.send(body);
            conn.send("\r\n");
        }
        if self.cut.is_none() {
            conn.send("0\r\n");
            conn.send(self.trailer.map_or(String::new(), |trailer| format!("{trailer}\r\n")));
            conn.send("\r\n");
        }
    }
}

/// Whether the outcome is right: the error, or a whole file.
fn judge(
    report: &Report,
    now: Option<&[u8]>,
    versions: &[Vec<u8>],
    is_stream: bool,
) -> Result<bool, String> {
    let whole = now.is_some_and(|now| versions.iter().any(|version| version == now));
    match (&report.result, now) {
        (Ok(_), Some(_)) if whole => Ok(true),
        (Err(_), None) => Ok(false),
        // What went out before the error was right so far.
        (Err(_), Some(now)) if is_stream && versions.iter().any(|v| v.starts_with(now)) => {
            Ok(false)
        }
        (Err(_), Some(_)) if is_stream => Ok(false),
        (result, now) => Err(format!("{result:?} with {:?} bytes", now.map(<[u8]>::len))),
    }
}

async fn download(seed: u64) -> Result<bool, String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let liar = Liar::new(seed);
    let versions = liar.versions.clone();
    let mut draws = random(seed ^ 0x5eed);
    let mut below = |n: u64| draws.next_u64() % n;
    let liar = Arc::new(Mutex::new(liar));
    let answers = Arc::clone(&liar);
    let server =
        Server::start(move |_, request, conn| answers.lock().unwrap().answer(request, conn));
    let mut options = Options { stall_time: Duration::from_secs(2), ..quick() };
    let url = if below(4) == 0 {
        let via = format!("127.0.0.1:{}", server.address.port()).parse().unwrap();
        options.routes = RouteTable::through(vec![vec![via]], &[Match::ALL]);
        "http://o.example/f".to_owned()
    } else {
        server.url("/f")
    };
    let (is_stream, earlier) = (below(4) == 0, below(3) == 0);
    let out = Out::default();
    let answers = Arc::clone(&liar);
    let wrong = |text: String| {
        let log = answers.lock().unwrap().log.join("\n  ");
        format!("LONGHAUL_SEED={seed}: {text}\n  {log}")
    };
    if earlier && !is_stream {
        let once = Options { retries: 0, ..options.clone() };
        let report = run(once, request(&url, &file)).await.map_err(wrong)?;
        let now = fs::read(&file).ok();
        if judge(&report, now.as_deref(), &versions, false).map_err(wrong)? {
            return Ok(true);
        }
        // A command that has held nothing leaves no knowledge.
        liar.lock().unwrap().told = [false; 2];
    }
    let destination = if is_stream {
        Destination::Stream(Box::new(out.clone()))
    } else {
        Destination::File(file.clone())
    };
    let report =
        run(options, GetRequest { url, destination, digest: None }).await.map_err(wrong)?;
    let now = if is_stream { Some(out.0.lock().unwrap().clone()) } else { read(&file) };
    judge(&report, now.as_deref(), &versions, is_stream).map_err(wrong)
}

fn read(file: &Path) -> Option<Vec<u8>> {
    fs::read(file).ok()
}

async fn run(options: Options, request: GetRequest) -> Result<Report, String> {
    let client = Client::new(options).map_err(|error| error.to_string())?;
    let progress = Arc::new(Progress::default());
    let download = client.get(request, &progress, std::future::pending());
    tokio::time::timeout(LONGEST, download).await.map_err(|_| "it hangs".to_owned())
}

#[test]
fn random_answers_leave_a_whole_file_or_none() {
    let seconds = std::env::var("LONGHAUL_ANSWERS_SECONDS").ok();
    let seconds = seconds.map(|text| Duration::from_secs(text.parse().expect("seconds")));
    let (seed, begun) = (*SEED, Instant::now());
    let (downloads, complete, wrong) = runtime().block_on(async {
        let (mut set, mut at, mut complete, mut wrong) = (JoinSet::new(), 0_u64, 0, Vec::new());
        let more = |at| seconds.map_or(at < DOWNLOADS, |seconds| begun.elapsed() < seconds);
        loop {
            while set.len() < TOGETHER && more(at) {
                set.spawn(download(seed.wrapping_add(at)));
                at += 1;
            }
            match set.join_next().await {
                None => break,
                Some(ended) => match ended.unwrap() {
                    Ok(whole) => complete += u64::from(whole),
                    Err(why) => wrong.push(why),
                },
            }
        }
        (at, complete, wrong)
    });
    println!("LONGHAUL_SEED={seed}: {complete} of {downloads} complete");
    let first = &wrong[..wrong.len().min(20)];
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), first.join("\n"));
    assert!(complete * 3 > downloads, "only {complete} of {downloads} complete");
}
