// SPDX-License-Identifier: GPL-2.0-or-later
//! One short request to a depot, and its answer.

use bytes::{Buf, BytesMut};
use http::StatusCode;
use protocol::http::{Fault, Framing, RequestHead, ResponseHead, hold::PADDING};
use relay::tcp::{ReadHeadError, Sink, Stream, read_head};
use std::io;

/// Maximum bytes per read of a body.
const CHUNK: u64 = 64 << 10;

/// Maximum sizes of an answer.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimit {
    /// Maximum size of its document, and of its head.
    pub document: usize,
    /// Padding after the document, which is read and discarded.
    pub padding: u64,
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    /// Its head.
    pub head: ResponseHead,
    /// Its document. Empty unless the status is 200: other bodies are not read.
    pub document: BytesMut,
    /// Whether the connection may be used for another exchange.
    pub is_reusable: bool,
}

/// Why there is no answer. The depot or the path to it is at fault.
#[derive(Debug)]
pub enum QuestionError {
    /// These bytes came instead of a head.
    Head(ReadHeadError<Fault>, BytesMut),
    /// The head frames the body in a way that is not HTTP.
    Framing(Fault),
    /// The body has no length, or is larger than the limit.
    Size,
    /// The connection failed or ended.
    Io(io::Error),
}

impl From<io::Error> for QuestionError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Sends a request without a body and reads its answer.
///
/// # Errors
/// Why there is no answer. The connection cannot be reused then.
pub async fn ask(
    stream: &mut Stream,
    question: &str,
    limit: BodyLimit,
) -> Result<Response, QuestionError> {
    ask_with_padding(stream, (question, 0), limit).await
}

/// Sends a request whose body is this many bytes of padding, as its head says, and reads its answer.
///
/// # Errors
/// Why there is no answer. The connection cannot be reused then.
pub async fn ask_with_padding(
    stream: &mut Stream,
    (question, mut padding): (&str, u64),
    limit: BodyLimit,
) -> Result<Response, QuestionError> {
    let parsed = RequestHead::parse(question.as_bytes()).ok().flatten();
    let (request, _) = parsed.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let (mut source, mut sink) = stream.split();
    write_all(&mut sink, question.as_bytes()).await?;
    while padding > 0 {
        let piece = &PADDING[..padding.min(PADDING.len() as u64) as usize];
        write_all(&mut sink, piece).await?;
        padding -= piece.len() as u64;
    }
    sink.flush().await?;
    let mut buffer = BytesMut::new();
    let head = read_head(&mut source, &mut buffer, limit.document, ResponseHead::parse).await;
    let head = match head {
        Ok(head) => head,
        Err(error) => return Err(QuestionError::Head(error, buffer)),
    };
    let framing = head.framing(&request).map_err(QuestionError::Framing)?;
    let mut document = BytesMut::new();
    if head.status != StatusCode::OK {
        return Ok(Response { head, document, is_reusable: false });
    }
    let mut left = match framing {
        Framing::Length(length) if length <= limit.document as u64 + limit.padding => length,
        _ => return Err(QuestionError::Size),
    };
    loop {
        let came = left.min(buffer.len() as u64);
        let of_document = (came as usize).min(limit.document - document.len());
        document.extend_from_slice(&buffer[..of_document]);
        buffer.advance(came as usize);
        left -= came;
        if left == 0 {
            break;
        }
        if source.read(&mut buffer, left.min(CHUNK) as usize).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
    // Surplus bytes would be taken for the response to the next request.
    let is_reusable = buffer.is_empty() && head.keeps_alive(framing);
    Ok(Response { head, document, is_reusable })
}

async fn write_all(sink: &mut Sink<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        left = &left[sink.write(left).await?..];
    }
    Ok(())
}
