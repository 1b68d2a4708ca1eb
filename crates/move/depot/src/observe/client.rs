// SPDX-License-Identifier: GPL-2.0-or-later
//! Asking a depot for its status.

use super::status::{SCHEMA, Status};
use http::{Request, Uri, header::HOST};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use units::{ClassifyFailure, FailureClass};

/// How long the answer may take.
const TIME: Duration = Duration::from_secs(10);
/// The most bytes an answer may have.
const MOST: usize = 16 << 20;

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address is none.
    #[error(
        "{0:?} is not the address of a depot's admin listener: expected http://HOST:PORT, as in \
         http://127.0.0.1:3881 (`admin.listen` in the depot's configuration)"
    )]
    Address(String),
    /// The address does not respond.
    #[error(
        "cannot reach the depot's admin listener at {address}: {error} (is the depot running, and \
         is this its `admin.listen`?)"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// Something answers, but not with a status.
    #[error("{address} does not answer as a depot's admin listener does: {what}")]
    NoStatus {
        /// Where.
        address: String,
        /// What is wrong.
        what: String,
    },
}

impl ClassifyFailure for FetchError {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Address(_) => FailureClass::Usage,
            Self::Unreachable { .. } | Self::NoStatus { .. } => FailureClass::Failed,
        }
    }
}

/// The status of the depot whose admin listener has this address, and the text that said it. The
/// address may be that of the page or of the document, or just host and port.
///
/// # Errors
/// The address is malformed or does not respond, or the response is not a status.
pub fn fetch(address: &str) -> Result<(Status, String), FetchError> {
    let authority = authority(address).ok_or_else(|| FetchError::Address(address.to_owned()))?;
    let unreachable = |error| FetchError::Unreachable { address: authority.clone(), error };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unreachable)?;
    let asked = runtime.block_on(async { timeout(TIME, ask(&authority)).await });
    let text = asked.unwrap_or_else(|_| Err(unreachable(io::ErrorKind::TimedOut.into())))?;
    let no_status = |what| FetchError::NoStatus { address: authority.clone(), what };
    let status: Status =
        serde_json::from_str(&text).map_err(|error| no_status(error.to_string()))?;
    if status.schema != SCHEMA {
        let what = format!("its status has schema {}, this program knows {SCHEMA}", status.schema);
        return Err(no_status(what));
    }
    Ok((status, text))
}

/// Host and port of an address.
fn authority(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    let authority = uri.authority().filter(|authority| authority.port_u16().is_some())?;
    let known = ["", "/", "/status", "/status.json"].contains(&uri.path());
    (uri.scheme_str().is_none_or(|scheme| scheme == "http") && known).then(|| authority.to_string())
}

async fn ask(authority: &str) -> Result<String, FetchError> {
    let unreachable = |error| FetchError::Unreachable { address: authority.to_owned(), error };
    let no_status = |error: &dyn std::fmt::Display| FetchError::NoStatus {
        address: authority.to_owned(),
        what: error.to_string(),
    };
    let socket = TcpStream::connect(authority).await.map_err(unreachable)?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(socket)).await.map_err(|error| no_status(&error))?;
    tokio::spawn(connection);
    let request = Request::get("/status.json").header(HOST, authority).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| no_status(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| no_status(&error))?;
    if answer.status() != http::StatusCode::OK {
        return Err(no_status(&format_args!("it says {}", answer.status())));
    }
    let body = Limited::new(answer.into_body(), MOST).collect().await;
    let body = body.map_err(|error| no_status(&error))?.to_bytes();
    String::from_utf8(body.into()).map_err(|error| no_status(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_address_may_include_path() {
        for address in ["127.0.0.1:3881", "http://127.0.0.1:3881", "http://127.0.0.1:3881/status"] {
            assert_eq!(authority(address).as_deref(), Some("127.0.0.1:3881"), "{address}");
        }
        assert_eq!(authority("http://[::1]:3881/status.json").as_deref(), Some("[::1]:3881"));
        for address in ["", "3881", "host", "https://h:3881", "http://h:3881/metrics", "/status"] {
            assert_eq!(authority(address), None, "{address}");
        }
    }
}
