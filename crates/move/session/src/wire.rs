// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection as the session sees it: records go in and come out, whether they are sealed on the way or not.

use crate::{
    error::{Error, Loss},
    random::random,
};
use bytes::{Bytes, BytesMut};
use protocol::session::{
    Direction, Malformed, SessionId,
    record::{End, EndCode, RecordKind, record},
    sealed::{Opener, PreSharedKey, SealedCall, SealedStart, Sealer, Sealing},
    split_record,
};
use relay::tcp::{
    ReadHeadError, Sink, Source, Stream, info::reset_on_close, read_header, with_what_follows,
};
use std::{any::Any, net::SocketAddr, time::Duration};
use tokio::time::timeout;

/// Bytes per read.
const READ: usize = 512 << 10;
/// Maximum time for sending the last bytes, and for the other end's close.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// A connection to the other end, or to a depot on the way.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    /// Bytes of records and headers that were read ahead.
    ahead: BytesMut,
    /// Bytes that were read ahead and not opened yet.
    sealed: BytesMut,
    seal: Seal,
    /// ANSWER has been read, which precedes the records of an acceptor.
    has_answer: bool,
    /// Dropped last, of a program that has accepted the connection itself.
    _guard: Option<Box<dyn Any + Send + Sync>>,
}

#[derive(Debug)]
enum Seal {
    /// Records go as they are.
    None,
    /// The first record of this end answers the initiator's, and begins to seal.
    Answering(Box<SealedCall>),
    /// All records are sealed.
    Both(Sealer, Opener),
}

/// The receiving direction.
pub(crate) struct Reader<'w> {
    source: Source<'w>,
    ahead: &'w mut BytesMut,
    sealed: &'w mut BytesMut,
    opener: Option<&'w mut Opener>,
    has_answer: &'w mut bool,
}

/// The sending direction.
pub(crate) struct Writer<'w> {
    sink: Sink<'w>,
    sealer: Option<&'w mut Sealer>,
    out: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self::with(stream, BytesMut::new(), None)
    }

    /// A connection of which these bytes were read already. `guard` is dropped when it is over.
    pub(crate) fn with(
        stream: Stream,
        ahead: BytesMut,
        guard: Option<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        let (sealed, has_answer) = (BytesMut::new(), false);
        Self { stream, ahead, sealed, seal: Seal::None, has_answer, _guard: guard }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.stream.peer()
    }

    /// Whether the records are encrypted end to end.
    pub(crate) fn is_sealed(&self) -> bool {
        !matches!(self.seal, Seal::None)
    }

    /// Both directions, at the same time.
    pub(crate) fn split(&mut self) -> (Reader<'_>, Writer<'_>) {
        let (source, sink) = self.stream.split();
        let (sealer, opener) = match &mut self.seal {
            Seal::Both(sealer, opener) => (Some(sealer), Some(opener)),
            Seal::None | Seal::Answering(_) => (None, None),
        };
        let (ahead, sealed) = (&mut self.ahead, &mut self.sealed);
        let reader = Reader { source, ahead, sealed, opener, has_answer: &mut self.has_answer };
        (reader, Writer { sink, sealer, out: Vec::new() })
    }

    /// Reads something.
    pub(crate) async fn read_more(&mut self) -> Result<(), Loss> {
        self.split().0.read_more().await
    }

    /// The next record.
    pub(crate) async fn next_record(&mut self) -> Result<(Option<RecordKind>, Bytes), Loss> {
        loop {
            if let Some(record) = split_record(&mut self.ahead)? {
                return Ok(record);
            }
            self.read_more().await?;
        }
    }

    /// The header that precedes the records.
    pub(crate) async fn header<T>(
        &mut self,
        parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, Malformed>,
    ) -> Result<T, Loss> {
        self.split().0.header(parse).await
    }

    /// Sends all bytes.
    pub(crate) async fn say(&mut self, bytes: &[u8]) -> Result<(), Loss> {
        match std::mem::replace(&mut self.seal, Seal::None) {
            Seal::Answering(call) => {
                let (sealer, opener, record) = call.answer(bytes);
                self.split().1.say(&record).await?;
                self.seal = Seal::Both(sealer, opener);
                self.opens_from_here()
            }
            other => {
                self.seal = other;
                self.split().1.say(bytes).await
            }
        }
    }

    /// Answers an initiator whose first record was sealed; with what is still to be sent.
    pub(crate) async fn answer_sealed(&mut self, first: Vec<u8>) -> Result<Vec<u8>, Loss> {
        if matches!(self.seal, Seal::Answering(_)) {
            self.say(&first).await?;
            return Ok(Vec::new());
        }
        Ok(first)
    }

    /// Decrypts the bytes that were read ahead, which were sealed.
    fn opens_from_here(&mut self) -> Result<(), Loss> {
        std::mem::swap(&mut self.ahead, &mut self.sealed);
        if let Seal::Both(_, opener) = &mut self.seal {
            opener.open(&mut self.sealed, &mut self.ahead)?;
        }
        Ok(())
    }

    /// Sends what precedes the records, and the first one sealed.
    pub(crate) async fn begin_sealed(
        &mut self,
        session: SessionId,
        (start, key): (SealedStart, &PreSharedKey),
        mut before: Vec<u8>,
        first: &[u8],
    ) -> Result<Sealing, Loss> {
        let (sealing, sealed) = Sealing::begin(session, start, key, random(), first);
        before.extend(sealed);
        self.split().1.say(&before).await?;
        Ok(sealing)
    }

    /// Reads the answer to a sealed record: the record in it is the next one. END may come as it is, of an
    /// acceptor that could not open what it was sent. It has no proof, so of HELLO it is only a reason to try again.
    pub(crate) async fn sealed_answer(
        &mut self,
        start: SealedStart,
        sealing: Sealing,
    ) -> Result<(), Loss> {
        match self.next_record().await? {
            (Some(RecordKind::Sealed), payload) => {
                let (sealer, opener, first) = sealing.answered(&payload)?;
                self.seal = Seal::Both(sealer, opener);
                self.opens_from_here()?;
                only_record(&first)?;
                self.put_back(&first);
                Ok(())
            }
            (Some(RecordKind::End), payload) => {
                let end = End::parse(&payload, Direction::FromAcceptor, None)?;
                match (start, EndCode::of(end.code)) {
                    (SealedStart::Hello, Some(EndCode::WrongProof)) => {
                        Err(Loss::Unopened(Error::ended(&end)))
                    }
                    (SealedStart::Attach, Some(EndCode::UnknownSession | EndCode::WrongProof)) => {
                        self.put_back(&record(RecordKind::End, &payload));
                        Ok(())
                    }
                    _ => Err(Loss::Connection(format!(
                        "an answer that is not sealed: {}",
                        Error::ended(&end)
                    ))),
                }
            }
            _ => Err(Loss::Connection("the acceptor does not seal its answer".to_owned())),
        }
    }

    /// This is what is read next.
    fn put_back(&mut self, bytes: &[u8]) {
        let rest = std::mem::replace(&mut self.ahead, BytesMut::from(bytes));
        self.ahead.unsplit(rest);
    }

    /// Opens the initiator's first record, and says what is in it.
    pub(crate) fn open_call(
        &mut self,
        session: SessionId,
        key: &PreSharedKey,
        payload: &[u8],
    ) -> Result<Vec<u8>, Malformed> {
        let (call, first) = SealedCall::read(session, key, random(), payload)?;
        self.seal = Seal::Answering(Box::new(call));
        Ok(first)
    }

    /// Ends this direction, and waits a while for the end of the other one. Closed with unread bytes, TCP would reset the
    /// connection and with it what was sent last.
    pub(crate) async fn close(&mut self) {
        let (mut reader, mut writer) = self.split();
        if writer.sink.shut().await.is_ok() {
            let _ = timeout(GRACE, reader.drain()).await;
        }
    }

    /// Whether the connection is reset when it is closed.
    pub(crate) fn reset_on_close(&mut self, is_reset: bool) {
        reset_on_close(self.stream.split().0.tcp(), is_reset);
    }
}

/// The record of which these bytes consist.
pub(crate) fn only_record(bytes: &[u8]) -> Result<(Option<RecordKind>, Bytes), Loss> {
    let mut bytes = BytesMut::from(bytes);
    match split_record(&mut bytes)? {
        Some(record) if bytes.is_empty() => Ok(record),
        _ => Err(Loss::Connection("a sealed handshake is not one record".to_owned())),
    }
}

fn closed() -> Loss {
    Loss::Connection("the connection was closed".to_owned())
}

impl Reader<'_> {
    /// Reads something.
    pub(crate) async fn read_more(&mut self) -> Result<(), Loss> {
        let to = if self.opener.is_some() { &mut *self.sealed } else { &mut *self.ahead };
        if self.source.read(to, READ).await? == 0 {
            return Err(closed());
        }
        if let Some(opener) = &mut self.opener {
            opener.open(self.sealed, self.ahead)?;
        }
        Ok(())
    }

    /// The next record that was read already.
    pub(crate) fn record(&mut self) -> Result<Option<(Option<RecordKind>, Bytes)>, Loss> {
        Ok(split_record(self.ahead)?)
    }

    /// The header that precedes the records, which is never sealed.
    pub(crate) async fn header<T>(
        &mut self,
        parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, Malformed>,
    ) -> Result<T, Loss> {
        let read = read_header(&mut self.source, self.ahead, with_what_follows, parse).await;
        read.map_err(|error| match error {
            ReadHeadError::Io(error) => error.into(),
            ReadHeadError::Malformed(error) => error.into(),
            ReadHeadError::Closed | ReadHeadError::CutOff | ReadHeadError::TooLarge => closed(),
        })
    }

    /// Whether ANSWER has been read.
    pub(crate) fn has_answer(&self) -> bool {
        *self.has_answer
    }

    /// ANSWER has been read.
    pub(crate) fn answered(&mut self) {
        *self.has_answer = true;
    }

    /// Reads to the end, and throws it away.
    async fn drain(&mut self) {
        let mut scrap = BytesMut::new();
        while matches!(self.source.read(&mut scrap, 16 << 10).await, Ok(1..)) {
            scrap.clear();
        }
    }
}

impl Writer<'_> {
    /// Hands over all bytes; TLS may hold some back.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Loss> {
        let mut rest = bytes;
        if let Some(sealer) = &mut self.sealer {
            self.out.clear();
            sealer.seal(bytes, &mut self.out);
            rest = &self.out;
        }
        while !rest.is_empty() {
            let written = self.sink.write(rest).await?;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Sends all bytes.
    pub(crate) async fn say(&mut self, bytes: &[u8]) -> Result<(), Loss> {
        self.write_all(bytes).await?;
        Ok(self.sink.flush().await?)
    }
}
