// SPDX-License-Identifier: GPL-2.0-or-later
//! What a client sends first: a request, a tunnel, a session, or a connection that joins one.

use crate::{
    client::Client,
    http::{
        head::{self, HeadError},
        refused::stopping,
    },
    observe::Entry,
    state::{RequestContext, Shared},
    tls::Protocol,
    wrong_port::{TLS_HANDSHAKE, unexpected_tls},
};
use ::protocol::{
    http::{
        Fault, ProxyError, RequestHead,
        proxy::{ConnectHead, ProxyRequest},
    },
    session::{FIRST_BYTE, Header, JoinToken, Open},
};
use bytes::BytesMut;
use http::StatusCode;
use relay::tcp::{ReadHeadError, Source, read_header, with_what_follows};
use std::time::Duration;
use tokio::time::timeout;

/// How long a refused client may take to send its first byte.
const FIRST_BYTE_TIME: Duration = Duration::from_secs(1);
/// How much is read at a time of a request's head.
const FIRST_READ: usize = 16 << 10;

/// A client's message.
pub(super) enum Message {
    Request(RequestHead),
    Connect(Box<ConnectHead>),
    Session(Box<Open>),
    Join(JoinToken),
}

impl Client {
    /// Waits for a moment for the first bytes of a refused client, which show its protocol.
    pub(super) async fn await_protocol(&mut self) {
        let (mut source, _) = self.stream.split();
        // The result is not needed: `see_protocol` looks at the bytes that were read.
        let _ = timeout(FIRST_BYTE_TIME, source.read(&mut self.ahead, 4 << 10)).await;
        self.see_protocol();
    }

    /// What it speaks shows in the first byte of what cannot be served.
    fn see_protocol(&mut self) {
        match self.ahead.first() {
            Some(&FIRST_BYTE) => self.protocol = Protocol::Session,
            Some(&TLS_HANDSHAKE) if !self.stream.is_tls() => self.protocol = Protocol::Tls,
            _ => {}
        }
    }

    /// Whether a refusal may have a body: a request that cannot be read shows that much all the same.
    pub(super) fn is_answered_with_body(&self) -> bool {
        !self.ahead.trim_ascii_start().starts_with(b"HEAD ")
    }

    /// The next request or session; none where there is no more, or none that can be read, and the client
    /// has been told so.
    pub(super) async fn next_message(&mut self, first: bool, shared: &Shared) -> Option<Message> {
        match self.read_message(first, shared).await {
            // What has come behind it may begin with any byte.
            Ok(message) => Some(message),
            Err(None) => None,
            Err(Some(fault)) => {
                self.see_protocol();
                let with_body = self.is_answered_with_body();
                let settings = shared.settings();
                let context = RequestContext::new(shared, &settings);
                let entry = Entry::new(self.stream.peer(), context);
                self.refuse(entry, &fault, with_body, context).await;
                None
            }
        }
    }

    /// The request or OPEN, or the fault to send: `Err(None)` if the client expects no response.
    async fn read_message(
        &mut self,
        first: bool,
        shared: &Shared,
    ) -> Result<Message, Option<Fault>> {
        let config = shared.config();
        let (limit, time) = (config.limits.head.get() as usize, config.timeouts.request_head);
        let is_tls = self.stream.is_tls();
        let (mut source, _) = self.stream.split();
        if !first && self.ahead.is_empty() {
            // Between two requests a client may wait longer, and is then closed without an answer.
            let idle = self.held.unwrap_or_else(|| config.timeouts.keep_alive.into());
            let came = tokio::select! {
                // A request that has come already is served.
                biased;
                came = timeout(idle, source.read(&mut self.ahead, 4 << 10)) => came,
                () = shared.lifecycle.leaving() => return Err(None),
            };
            if !matches!(came, Ok(Ok(1..))) {
                return Err(None);
            }
        }
        let read = read_first((&mut source, is_tls), &mut self.ahead, limit, &mut self.protocol);
        let result = tokio::select! {
            biased;
            result = timeout(time.into(), read) => result,
            () = shared.lifecycle.refusing() => return Err(Some(stopping())),
        };
        let fault =
            |status, reason: String| Some(Fault::new(status, ProxyError::HttpRequestError, reason));
        match result {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(HeadError::Malformed(fault))) => Err(Some(fault)),
            Ok(Err(HeadError::TooLarge)) => Err(fault(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                format!("the request's head does not end within {limit} bytes"),
            )),
            Ok(Err(HeadError::Closed | HeadError::CutOff | HeadError::Io(_))) => Err(None),
            Err(_) => Err(fault(
                StatusCode::REQUEST_TIMEOUT,
                format!("the request's head did not end within {time}"),
            )),
        }
    }
}

/// Reads a request, or an OPEN: the first byte tells which. TLS above a connection without is refused.
async fn read_first(
    (source, is_tls): (&mut Source<'_>, bool),
    ahead: &mut BytesMut,
    limit: usize,
    protocol: &mut Protocol,
) -> Result<Message, HeadError> {
    if ahead.is_empty() {
        match source.read(ahead, FIRST_READ.min(limit)).await {
            Ok(0) => return Err(HeadError::Closed),
            Ok(_) => {}
            Err(error) => return Err(HeadError::Io(error)),
        }
    }
    match ahead.first() {
        Some(&FIRST_BYTE) => *protocol = Protocol::Session,
        Some(&TLS_HANDSHAKE) if !is_tls => {
            *protocol = Protocol::Tls;
            return Err(HeadError::Malformed(unexpected_tls()));
        }
        _ => {}
    }
    if *protocol != Protocol::Session {
        return Ok(match head::read(source, ahead, limit, ProxyRequest::parse).await? {
            ProxyRequest::Request(request) => Message::Request(request),
            ProxyRequest::Connect(head) => Message::Connect(Box::new(head)),
        });
    }
    let header = read_header(source, ahead, with_what_follows, Header::parse).await;
    let header = header.map_err(|error| match error {
        ReadHeadError::Malformed(error) => {
            HeadError::Malformed(Fault::bad_request(format!("malformed OPEN: {error}")))
        }
        ReadHeadError::Closed => HeadError::Closed,
        ReadHeadError::CutOff | ReadHeadError::TooLarge => HeadError::CutOff,
        ReadHeadError::Io(error) => HeadError::Io(error),
    })?;
    match header {
        Header::Open(open) => Ok(Message::Session(Box::new(open))),
        Header::Join(token) => Ok(Message::Join(token)),
        Header::Answer(_) => {
            Err(HeadError::Malformed(Fault::bad_request("malformed OPEN: it is an ANSWER")))
        }
    }
}
