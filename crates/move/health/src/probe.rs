// SPDX-License-Identifier: GPL-2.0-or-later
//! Probes whether a depot accepts requests.
//!
//! The probe asks for the depot's load, which depots tell only their clients: other hosts get 403, with the
//! depot's own `Proxy-Status`. Both show that the depot is alive. A depot that is full or stopping answers
//! 503. One that answers 400 speaks TLS on a port that the configuration names without TLS.

use crate::question::{BodyLimit, QuestionError, Response, ask};
use http::StatusCode;
use protocol::{
    DepotAddress, Scheme,
    http::{
        PROXY_STATUS, ResponseHead,
        load::{LOAD, Load, MAX_LOAD_BODY},
    },
};
use relay::{
    dial::{FaultSource, Refusal},
    tcp::{ReadHeadError, Stream, info::reset_on_close},
};
use std::time::Duration;
use tokio::time::timeout;

const NO_DEPOT: &str = "it does not answer as a depot does";

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It accepts requests, and has free slots.
    Up,
    /// It accepts requests. Only its clients learn whether it has free slots.
    UpToStrangers,
    /// It accepts no requests, and why.
    Down(String),
    /// It was not probed, for a reason of this host: its state is unknown.
    NotAsked(String),
}

impl From<Refusal> for Finding {
    /// The finding for a peer that cannot be connected to.
    fn from(refusal: Refusal) -> Self {
        match refusal.source {
            FaultSource::Peer => Self::Down(refusal.text),
            FaultSource::Rules | FaultSource::Host => Self::NotAsked(refusal.text),
        }
    }
}

/// Probes a depot on a new connection. Also says how full it is, if it tells.
pub async fn probe(stream: &mut Stream, depot: &DepotAddress) -> (Finding, Option<Load>) {
    let finding = match ask_load(stream, depot).await {
        Ok(answer) if answer.head.status == StatusCode::OK => {
            let load = serde_json::from_slice(&answer.document).ok();
            return (by_load(load), load);
        }
        Ok(answer) => by_status(&answer.head, depot.scheme),
        Err(QuestionError::Io(error) | QuestionError::Head(ReadHeadError::Io(error), _)) => {
            Finding::Down(error.to_string())
        }
        Err(_) => Finding::Down(NO_DEPOT.to_owned()),
    };
    (finding, None)
}

/// How full a depot says it is, on a new connection; none if it does not say.
pub async fn load(stream: &mut Stream, depot: &DepotAddress) -> Option<Load> {
    let answer = ask_load(stream, depot).await.ok()?;
    serde_json::from_slice(&answer.document).ok()
}

async fn ask_load(stream: &mut Stream, depot: &DepotAddress) -> Result<Response, QuestionError> {
    let host = depot.authority.without_port(depot.scheme.default_port());
    let question = format!("GET {LOAD} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let limit = BodyLimit { document: MAX_LOAD_BODY, padding: 0 };
    let answer = ask(stream, &question, limit).await;
    // An exchange that has ended in good order may end so on the wire.
    reset_on_close(stream.tcp(), answer.is_err());
    answer
}

/// The same with a timeout, which includes the connection.
pub async fn within(time: Duration, finding: impl Future<Output = Finding>) -> Finding {
    let late = |_| Finding::Down(format!("it does not answer within {} s", time.as_secs_f64()));
    timeout(time, finding).await.unwrap_or_else(late)
}

fn by_load(load: Option<Load>) -> Finding {
    match load {
        Some(Load { leaving: true, .. }) => Finding::Down("it is being stopped".to_owned()),
        Some(Load { connections, connections_limit, .. }) if connections >= connections_limit => {
            Finding::Down("it is full".to_owned())
        }
        Some(_) => Finding::Up,
        None => Finding::Down(NO_DEPOT.to_owned()),
    }
}

fn by_status(head: &ResponseHead, scheme: Scheme) -> Finding {
    let is_own = head.headers.contains(&PROXY_STATUS);
    match head.status {
        StatusCode::SERVICE_UNAVAILABLE => Finding::Down("it is full, or being stopped".to_owned()),
        // It has not read the request, and would read none of clients.
        StatusCode::BAD_REQUEST if is_own => {
            let tls = "; does it speak TLS there (https:)?";
            let tls = if scheme == Scheme::Http { tls } else { "" };
            Finding::Down(format!("it takes no requests on that port{tls}"))
        }
        status if is_own && status.is_client_error() => Finding::UpToStrangers,
        status => Finding::Down(format!("it says {status}, and not as a depot does")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tokio::{
        io::AsyncWriteExt,
        net::{TcpListener, TcpStream},
        task::JoinHandle,
    };

    /// The finding for a peer that responds with these bytes, and then repeats `more` while the other end
    /// reads.
    async fn found(answer: &'static [u8], more: &'static [u8]) -> (Finding, JoinHandle<u64>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let peer = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut sent = 0;
            let mut next = answer;
            while client.write_all(next).await.is_ok() && !more.is_empty() {
                sent += next.len() as u64;
                next = more;
            }
            // Half closed, so that what has come is read, and the question as well.
            let _ = client.shutdown().await;
            let _ = tokio::io::copy(&mut client, &mut tokio::io::sink()).await;
            sent
        });
        let tcp = TcpStream::connect(address).await.unwrap();
        let mut stream = Stream::new(tcp, address);
        let depot = address.to_string().parse().unwrap();
        let ask = async { probe(&mut stream, &depot).await.0 };
        (within(Duration::from_secs(2), ask).await, peer)
    }

    #[tokio::test]
    async fn probe_result_follows_the_answer() {
        let down = |why: &str| Finding::Down(why.to_owned());
        let load = "{\"connections\": 1, \"connections_limit\": 2, \"leaving\": false}";
        let of = |load: &str| {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{load}", load.len());
            &*text.leak()
        };
        let own = |status: &str| {
            &*format!("HTTP/1.1 {status}\r\nProxy-Status: d1\r\nContent-Length: 0\r\n\r\n").leak()
        };
        let tls = "it takes no requests on that port; does it speak TLS there (https:)?";
        for (answer, finding) in [
            (of(load), Finding::Up),
            (of(&load.replace('1', "2")), down("it is full")),
            (of(&load.replace("false", "true")), down("it is being stopped")),
            (of("{}"), down(NO_DEPOT)),
            (own("403 Forbidden"), Finding::UpToStrangers),
            (own("400 Bad Request"), down(tls)),
            (own("503 Service Unavailable"), down("it is full, or being stopped")),
            (
                "HTTP/1.1 403 Forbidden\r\n\r\n",
                down("it says 403 Forbidden, and not as a depot does"),
            ),
            ("HTTP/1.1 200 OK\r\n\r\n{}", down(NO_DEPOT)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", down("unexpected end of file")),
            ("SSH-2.0-x\r\n\r\n", down(NO_DEPOT)),
            ("", down(NO_DEPOT)),
        ] {
            assert_eq!(found(answer.as_bytes(), b"").await.0, finding, "{answer}");
        }
    }

    #[tokio::test]
    async fn endless_answer_ends_at_the_limit() {
        // A peer may fill the buffers of both sockets, and no more.
        const BUFFERS: u64 = 16 << 20;
        for (answer, more) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], &b"X-Field: and so on\r\n"[..]),
            (b"HTTP/1.1 200 OK\r\nX-Field: ", &[b'x'; 4096]),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", &[b' '; 4096]),
        ] {
            let begun = Instant::now();
            let (finding, peer) = found(answer, more).await;
            assert_eq!(finding, Finding::Down(NO_DEPOT.to_owned()));
            let sent = peer.await.unwrap();
            assert!(sent < BUFFERS, "{sent} bytes after {:?}", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_depot_is_down_in_time() {
        let silent = std::future::pending();
        let finding = within(Duration::from_millis(1500), silent).await;
        assert_eq!(finding, Finding::Down("it does not answer within 1.5 s".to_owned()));
    }
}
