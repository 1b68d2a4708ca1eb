// SPDX-License-Identifier: GPL-2.0-or-later
//! The files of a directory over HTTP.

use super::{Body, beneath::Beneath, text};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use std::{
    io::{self, ErrorKind},
    path::Path,
};
use tower_http::services::{ServeDir, fs::DefaultServeDirFallback};

/// How much of a file is read at a time.
const CHUNK: usize = 256 << 10;

/// A directory to serve.
#[derive(Debug, Clone)]
pub(super) struct Files(ServeDir<DefaultServeDirFallback, Beneath>);

impl Files {
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        let files = ServeDir::with_backend("", Beneath::new(dir)?)
            .with_buf_chunk_size(CHUNK)
            // Several ranges in one answer are not made: the whole file is, as RFC 9110 allows.
            .ignore_multi_range_requests(true);
        Ok(Self(files))
    }

    /// Answers GET and HEAD with ranges and conditions.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let mut headers = request.into_parts().0.headers;
        let condition = headers.remove(header::IF_RANGE);
        let response = self.ask(&method, &uri, headers.clone()).await;
        match condition {
            // A range of another version than the client has: it wants the whole file instead.
            Some(condition)
                if headers.contains_key(header::RANGE) && !holds(&condition, &response) =>
            {
                headers.remove(header::RANGE);
                self.ask(&method, &uri, headers).await
            }
            _ => response,
        }
    }

    async fn ask(&self, method: &Method, uri: &Uri, headers: HeaderMap) -> Response<Body> {
        // A redirect to such a path, for a folder's slash, would lead to a host of that name.
        if uri.path().starts_with("//") {
            return text(StatusCode::NOT_FOUND, format!("{}\n", StatusCode::NOT_FOUND));
        }
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        match self.0.clone().try_call(request).await {
            Ok(response) => response.map(BodyExt::boxed_unsync),
            Err(error) => {
                let status = match error.kind() {
                    ErrorKind::NotFound | ErrorKind::NotADirectory => StatusCode::NOT_FOUND,
                    ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                text(status, format!("{status}\n"))
            }
        }
    }
}

/// Whether an `If-Range` names the version that `response` is of: by its entity tag, or by its
/// very date (RFC 9110, section 13.1.5).
fn holds(condition: &HeaderValue, response: &Response<Body>) -> bool {
    [header::ETAG, header::LAST_MODIFIED]
        .map(|name| response.headers().get(name))
        .contains(&Some(condition))
}
