// SPDX-License-Identifier: GPL-2.0-or-later
//! The origin: reads requests strictly, holds them against what their clients mean, and misbehaves as planned.

#![expect(unsafe_code, reason = "asks how much of a socket is unsent")]

use super::{
    answers::{End, Plan, Reads},
    ledger::{Conversation, Ledger, count},
    reader::shown,
    wires::reset,
};
use std::{
    net::SocketAddr,
    os::fd::AsRawFd,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

/// How long a depot may take to say or take something.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than depots wait.
const STALL: Duration = Duration::from_millis(600);

/// Serves at an address of the system's choice, for as long as the runtime lives.
pub async fn start(at: &str, ledger: Arc<Ledger>) -> SocketAddr {
    let listener = TcpListener::bind(at).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let connection = Connection {
                stream,
                bytes: Vec::new(),
                ledger: Arc::clone(&ledger),
                unasked: Unasked::No,
            };
            tokio::spawn(connection.serve());
        }
    });
    address
}

/// Whether unrequested bytes were sent.
#[derive(Debug, Clone, Copy)]
enum Unasked {
    No,
    /// The depot's kernel has had them since then.
    Since(Instant),
    /// It may not have them yet.
    UnderWay,
}

struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    ledger: Arc<Ledger>,
    unasked: Unasked,
}

/// A request's head.
struct Request {
    path: String,
    http10: bool,
    fields: Vec<(String, String)>,
}

impl Request {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (_, path, version) = (words.next()?, words.next()?.to_owned(), words.next()?);
        let http10 = version == "HTTP/1.0";
        if !(http10 || version == "HTTP/1.1") || words.next().is_some() {
            return None;
        }
        let field = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        };
        Some(Self { path, http10, fields: lines.map(field).collect::<Option<_>>()? })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == name).map(|field| field.1.as_str())
    }
}

impl Connection {
    async fn serve(mut self) {
        while let Some(head) = self.head().await {
            if !self.one(&head).await {
                return;
            }
        }
    }

    async fn more(&mut self) -> Option<()> {
        match timeout(PATIENCE, self.stream.read_buf(&mut self.bytes)).await {
            Ok(Ok(1..)) => Some(()),
            _ => None,
        }
    }

    async fn head(&mut self) -> Option<String> {
        loop {
            let end = self.bytes.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                let head: Vec<u8> = self.bytes.drain(..end + 4).collect();
                return Some(String::from_utf8_lossy(&head[..end]).into_owned());
            }
            self.more().await?;
        }
    }

    /// Serves one request; says whether another may come.
    async fn one(&mut self, text: &str) -> bool {
        let ledger = Arc::clone(&self.ledger);
        let Some(request) = Request::read(text) else {
            ledger.violated(&format!("an origin was asked {text:?}"), None);
            return false;
        };
        // Its client may have gone.
        let Some((conversation, number)) = ledger.find(&request.path) else {
            reset(&self.stream);
            return false;
        };
        let asked = &conversation.requests[number];
        conversation.note(format!("origin is asked for request {number} on {}", self.peer()));
        if !asked.legal {
            let what = format!("request {number} is none, and reached an origin: {text:?}");
            ledger.violated(&what, Some(&conversation));
        }
        if !matches!(self.unasked, Unasked::No) {
            asked.excused.store(true, SeqCst);
            if let (Unasked::Since(since), Some(started)) = (self.unasked, asked.started.get())
                && since < *started
            {
                let what = "a connection was used on which there were unrequested bytes";
                ledger.violated(&format!("request {number}: {what}"), Some(&conversation));
            }
            // What it answered would be one answer late, for ever.
            reset(&self.stream);
            return false;
        }
        let plan = Plan::new(&conversation, number, ledger.id(), request.http10);
        conversation.intend(plan.answer.clone());
        conversation.note(format!(
            "origin sends {} bytes in {} pieces, then {:?}, surplus {:?}, reads {:?}",
            plan.bytes.len(),
            plan.pieces.len(),
            plan.end,
            plan.surplus.as_ref().map(|(bytes, pause)| (shown(bytes), pause)),
            plan.reads
        ));
        if plan.reads == Reads::First && !self.body(&request, &conversation, number).await {
            return false;
        }
        let sent = timeout(PATIENCE, self.send(&plan)).await;
        if !matches!(sent, Ok(Ok(()))) {
            reset(&self.stream);
            return false;
        }
        if plan.reads == Reads::AfterAnswer && !self.body(&request, &conversation, number).await {
            return false;
        }
        let unread = plan.reads == Reads::Never && asked.upload.is_some();
        match plan.end {
            End::Kept => {}
            End::Closed => return false,
            End::Reset => {
                reset(&self.stream);
                return false;
            }
            End::Stalled => {
                sleep(STALL).await;
                return false;
            }
        }
        if let Some((bytes, pause)) = plan.surplus {
            count(&ledger.counts.unasked);
            let after = pause.is_some();
            if let Some(pause) = pause {
                sleep(pause).await;
            }
            if after && self.stream.write_all(&bytes).await.is_err() {
                return false;
            }
            self.unasked = self.taken().await;
            conversation.note(format!("the depot's kernel has the surplus: {:?}", self.unasked));
        }
        !unread
    }

    fn peer(&self) -> String {
        self.stream.peer_addr().map_or_else(|error| error.to_string(), |peer| peer.to_string())
    }

    async fn send(&mut self, plan: &Plan) -> std::io::Result<()> {
        let mut from = 0;
        for (end, pause) in &plan.pieces {
            let mut piece = plan.bytes[from..*end].to_vec();
            from = *end;
            if let Some((surplus, None)) = &plan.surplus
                && from == plan.bytes.len()
            {
                piece.extend(surplus);
            }
            self.stream.write_all(&piece).await?;
            if !pause.is_zero() {
                sleep(*pause).await;
            }
        }
        Ok(())
    }

    /// When the depot's kernel has had all that was sent. A request that comes before that is known began earlier:
    /// it is read at once, since its client may be about to judge what it got.
    async fn taken(&self) -> Unasked {
        for _ in 0..200 {
            let mut queued: libc::c_int = 0;
            // SAFETY: asks a number of a socket that lives.
            let asked =
                unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
            if asked == 0 && queued == 0 {
                return Unasked::Since(Instant::now());
            }
            if timeout(Duration::from_millis(5), self.stream.readable()).await.is_ok() {
                break;
            }
        }
        Unasked::UnderWay
    }

    /// Reads a request's body to its end and holds it against what the client meant.
    async fn body(&mut self, request: &Request, of: &Conversation, number: usize) -> bool {
        let asked = &of.requests[number];
        let mut came = Vec::new();
        if let Some(length) = request.get("content-length") {
            let length: usize = length.parse().unwrap_or(usize::MAX);
            while self.bytes.len() < length {
                if self.more().await.is_none() {
                    return false;
                }
            }
            came.extend(self.bytes.drain(..length));
        } else if request.get("transfer-encoding").is_some() {
            loop {
                let Some(size) = self.line().await else { return false };
                let Ok(size) = usize::from_str_radix(&size, 16) else {
                    self.ledger.violated(&format!("an upload's chunk {size:?}"), Some(of));
                    return false;
                };
                while self.bytes.len() < size + 2 {
                    if self.more().await.is_none() {
                        return false;
                    }
                }
                came.extend(self.bytes.drain(..size));
                self.bytes.drain(..2);
                if size == 0 {
                    break;
                }
            }
        }
        let meant = asked.upload.unwrap_or(0);
        let is_whole = came.len() == meant && (asked.whole || meant == 0);
        if !is_whole || !of.uploaded(number).is(0, &came) {
            let what = format!("an origin takes {} bytes for upload {number}", came.len());
            self.ledger.violated(&what, Some(of));
            return false;
        }
        if asked.upload.is_some() {
            count(&self.ledger.counts.uploads);
        }
        true
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.bytes.drain(..end + 2).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.more().await?;
        }
    }
}
