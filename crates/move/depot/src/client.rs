// SPDX-License-Identifier: GPL-2.0-or-later
//! A client's connection, its state between two requests, and the depot's own responses.

use crate::{
    admission::limits::{CarriedClient, ConnectionSlot},
    http::{body::Broken, interims::Interims},
    observe::Entry,
    state::RequestContext,
    tls::Protocol,
    wrong_port::TLS_ALERT,
};
use bytes::BytesMut;
use protocol::{
    http::{Connection, Fault},
    session::Answer,
};
use relay::{
    copy::{AckProgress, CopyError, IdleTimeouts},
    stripes::{Asker, Token},
    tcp::{
        Stream,
        info::{self, reset_on_close},
    },
};
use std::{io, net::IpAddr, time::Duration};
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use units::Bytes;

/// How long the depot's own short answers may take to be sent and taken.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long a client with the whole response may take to close its side.
const GRACE: Duration = Duration::from_secs(1);
/// How often to look whether a client has everything: at first, and at last.
const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// The longest mark of a close that TLS sends (of 1.2; that of 1.3 has 24 bytes).
const CLOSE_NOTIFY: usize = 31;

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    /// The connection.
    pub stream: Stream,
    /// Received bytes that are not consumed yet.
    pub ahead: BytesMut,
    /// Its protocol, as far as it is known.
    pub protocol: Protocol,
    /// The interim responses that it has received for its request.
    pub interims: Interims,
    /// Its connection slot. `None` for a refused client.
    pub slot: Option<ConnectionSlot>,
    /// The client that its current request counts for, if it is a depot.
    pub carried: Option<CarriedClient>,
    /// Maximum number of connections of its session.
    pub streams: u8,
    /// How long it is held while idle, if it is a depot that has agreed on this.
    pub held: Option<Duration>,
    /// How many bytes it may still send to grow its window, if it is such a depot.
    pub takes_prime: u64,
    /// The number of depots that its last request, or its session, has come through.
    pub depots_before: usize,
    /// By when it expects the ANSWER to its OPEN, if it says so.
    pub answer_by: Option<Instant>,
}

impl Client {
    /// A client that has sent `ahead` so far.
    pub(crate) fn new(stream: Stream, ahead: BytesMut) -> Self {
        let (protocol, interims) = (Protocol::Http, Interims::default());
        let (slot, carried, held) = (None, None, None);
        Self {
            stream,
            ahead,
            protocol,
            interims,
            slot,
            carried,
            streams: 1,
            held,
            takes_prime: 0,
            depots_before: 0,
            answer_by: None,
        }
    }

    /// Counts what a depot does from now on for the client that it asks for. One that names none is a client like
    /// any other. The fault says which limit that would break (503), or that the operator has shut that client out (403).
    pub(crate) fn carry(
        &mut self,
        asked_for: Option<IpAddr>,
        context: RequestContext<'_>,
    ) -> Result<(), Fault> {
        self.carried = None;
        asked_for.map_or(Ok(()), |client| context.admission.denied.check_client(client))?;
        let Some(slot) = &self.slot else { return Ok(()) };
        let client = asked_for.unwrap_or(self.stream.peer().ip());
        let carried = slot.carry(client, &context.config().limits);
        self.carried = carried.map_err(|reached| reached.fault(&context.id))?;
        Ok(())
    }

    /// The same for a connection that is to join the transfer of this token.
    pub(crate) fn carry_joined(
        &mut self,
        token: Option<Token>,
        context: RequestContext<'_>,
    ) -> Result<(), Fault> {
        let peer = self.stream.peer().ip();
        match token.and_then(|token| context.transfers.stripes.client(token, peer)) {
            Some(client) => self.carry(Some(client), context),
            None => Ok(()),
        }
    }

    /// The client of its request: itself, or one that it names and that the request counts for.
    pub(crate) fn asker(&self) -> Asker {
        let peer = self.stream.peer().ip();
        Asker { peer, client: self.carried.as_ref().map_or(peer, CarriedClient::client) }
    }

    /// Sends a fault, logs it, and closes.
    pub(crate) async fn refuse(
        &mut self,
        entry: Entry,
        fault: &Fault,
        with_body: bool,
        context: RequestContext<'_>,
    ) {
        entry.refused(fault);
        self.answer_fault(fault, with_body, context).await;
    }

    /// Sends a fault, and closes.
    pub(crate) async fn answer_fault(
        &mut self,
        fault: &Fault,
        with_body: bool,
        context: RequestContext<'_>,
    ) {
        let answer = match self.protocol {
            Protocol::Http => fault.answer(&context.id, with_body, Connection::Close),
            Protocol::Session => {
                let answer = Answer::of_fault(fault, context.id.clone());
                answer.to_bytes().expect("an answer without reports is short")
            }
            Protocol::Tls => TLS_ALERT.to_vec(),
            // It is closed by a reset.
            Protocol::Tcp => return,
        };
        self.answer(&answer, Connection::Close, context).await;
    }

    /// Sends a response of the depot's own. Errors are ignored: only the client loses by them.
    pub(crate) async fn answer(
        &mut self,
        bytes: &[u8],
        then: Connection,
        context: RequestContext<'_>,
    ) -> Connection {
        if self.interims.is_cut() {
            return Connection::Close;
        }
        let sent = async {
            let (_, mut sink) = self.stream.split();
            let mut left = bytes;
            while !left.is_empty() {
                let written = sink.write(left).await?;
                left = &left[written..];
            }
            sink.flush().await?;
            if then == Connection::Close {
                let _ = self.close(context).await;
            }
            io::Result::Ok(())
        };
        match timeout(ANSWER_TIME, sent).await {
            Ok(Ok(())) => then,
            _ => Connection::Close,
        }
    }

    /// How long the client may take for what waits in the kernel.
    fn idle_timeouts(&self, context: RequestContext<'_>) -> IdleTimeouts {
        let config = context.config();
        let minimum = config.minimum_read(self.stream.peer().ip(), self.depots_before);
        IdleTimeouts { minimum, ..config.timeouts.towards_client(self.depots_before) }
    }

    /// Waits until the client's kernel has everything, or the client speaks again, which it does not
    /// before; so that "complete" in the log is true. Says whether the client is still there.
    pub(crate) async fn settled(&mut self, context: RequestContext<'_>) -> Result<bool, Broken> {
        let timeouts = self.idle_timeouts(context);
        let (mut source, _) = self.stream.split();
        let (mut acks, mut pause) = (AckProgress::new(source.tcp(), timeouts), LOOK[0]);
        let mut closed = false;
        while self.ahead.is_empty() && acks.queued() > 0 {
            // A depot that has received the whole response may ask for the same client on another connection
            // before its acknowledgement arrives here. Bytes that have not left this host still take a slot of
            // the client.
            if self.carried.is_some() && has_left(source.tcp()) {
                self.carried = None;
            }
            if closed && let Some(error) = failure(source.tcp()) {
                return failed_with(source.tcp(), 0, &error);
            }
            tokio::select! {
                read = source.read(&mut self.ahead, 4 << 10), if !closed => match or_end(read) {
                    Ok(0) => closed = true,
                    Ok(_) => {}
                    Err(error) => return failed_with(source.tcp(), 0, &error),
                },
                () = sleep(pause) => {
                    pause = (pause * 2).min(LOOK[1]);
                    acks.look()?;
                }
            }
        }
        Ok(!closed)
    }

    /// Closes the connection in good order and waits until the client's kernel has everything, so
    /// that "complete" in the log is true and nothing left unread resets the answer's last bytes.
    pub(crate) async fn close(&mut self, context: RequestContext<'_>) -> Result<bool, Broken> {
        let timeouts = self.idle_timeouts(context);
        reset_on_close(self.stream.tcp(), false);
        let (mut source, mut sink) = self.stream.split();
        let tcp = sink.tcp();
        let marks = if sink.plain().is_some() { 1 } else { 1 + CLOSE_NOTIFY };
        // TLS has a mark to send, for which there may be no room.
        tokio::select! {
            biased;
            shut = sink.shut() => shut.or_else(|error| failed_with(tcp, marks, &error).map(drop))?,
            stalled = AckProgress::stalls(tcp, timeouts) => return Err(stalled.into()),
        }
        let mut acks = AckProgress::new(tcp, timeouts);
        let (mut pause, mut closed) = (LOOK[0], false);
        loop {
            let left = acks.look()?;
            if left == 0 && (closed || acks.unchanged_for() >= GRACE) {
                return Ok(false);
            }
            if closed && let Some(error) = failure(source.tcp()) {
                return failed_with(tcp, marks, &error);
            }
            // Discards unread input, which would turn the close into a reset that may overtake the last bytes
            // of the response.
            self.ahead.clear();
            tokio::select! {
                read = source.read(&mut self.ahead, 4 << 10), if !closed => match or_end(read) {
                    Ok(0) => closed = true,
                    // A sender of endless scrap must not keep its thread to itself.
                    Ok(_) => tokio::task::consume_budget().await,
                    Err(error) => return failed_with(tcp, marks, &error),
                },
                () = sleep(pause) => pause = (pause * 2).min(LOOK[1]),
            }
        }
    }
}

/// Whether all that was written to a connection has been sent.
fn has_left(socket: &TcpStream) -> bool {
    info::tcp_info(socket).is_ok_and(|info| info.unsent == Bytes::ZERO)
}

/// What a connection has failed of. A client that has shut its side says no more: that it is gone shows
/// in this alone, and what it did not acknowledge stays counted.
pub(crate) fn failure(socket: &TcpStream) -> Option<io::Error> {
    socket.take_error().ok().flatten()
}

/// What a failure means to a client that was handed everything: nothing where it has acknowledged all but
/// the `marks` of the close itself.
fn failed_with(client: &TcpStream, marks: usize, error: &io::Error) -> Result<bool, Broken> {
    let left = info::unacknowledged(client).unwrap_or(usize::MAX);
    if left <= marks {
        return Ok(false);
    }
    let reason = format!("{error}, and it has not acknowledged the last {} bytes", left - marks);
    Err(Broken::Copy(CopyError::SinkGone(io::Error::new(error.kind(), reason))))
}

/// The result of a read from a client that has its whole response. Many clients then close TCP without a TLS
/// `close_notify`. That is not a failure, because no request can have been truncated.
fn or_end(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

/// Resolves once a connection has failed.
pub(crate) async fn failed(tcp: &TcpStream) -> io::Error {
    let ready = tcp.ready(Interest::ERROR).await;
    let error = ready.err().or_else(|| failure(tcp));
    error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
}
