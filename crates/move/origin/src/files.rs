// SPDX-License-Identifier: GPL-2.0-or-later
//! The files of a directory over HTTP, and listings of directories without an `index.html`.

use super::{Body, beneath::Beneath, listing::Listing, text};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use percent_encoding::percent_decode_str;
use std::{
    io::{self, ErrorKind},
    path::{Component, Path},
};
use tokio::task::spawn_blocking;
use tower_http::services::{ServeDir, fs::DefaultServeDirFallback};

/// Maximum bytes per read of a file.
const CHUNK: usize = 256 << 10;

/// A directory to serve.
#[derive(Debug, Clone)]
pub(super) struct Files {
    files: ServeDir<DefaultServeDirFallback, Beneath>,
    /// The directory, if listings are on.
    listed: Option<Beneath>,
}

impl Files {
    pub(super) fn new(dir: &Path, list: bool) -> io::Result<Self> {
        let dir = Beneath::new(dir)?;
        let files = ServeDir::with_backend("", dir.clone())
            .with_buf_chunk_size(CHUNK)
            // Several ranges in one answer are not made: the whole file is, as RFC 9110 allows.
            .ignore_multi_range_requests(true);
        Ok(Self { files, listed: list.then_some(dir) })
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
        let response = match self.files.clone().try_call(request).await {
            Ok(response) => response.map(BodyExt::boxed_unsync),
            Err(error) => refused(&error),
        };
        match &self.listed {
            // There is no index.html.
            Some(dir)
                if response.status() == StatusCode::NOT_FOUND && uri.path().ends_with('/') =>
            {
                let listing = listing(dir.clone(), uri.path().to_owned(), method).await;
                listing.unwrap_or_else(|error| refused(&error))
            }
            _ => response,
        }
    }
}

fn refused(error: &io::Error) -> Response<Body> {
    let status = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput => {
            StatusCode::NOT_FOUND
        }
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    text(status, format!("{status}\n"))
}

/// The listing of the directory at the path of a URL.
async fn listing(dir: Beneath, path: String, method: &Method) -> io::Result<Response<Body>> {
    let relative = percent_decode_str(path.trim_start_matches('/')).decode_utf8();
    let relative = relative.map_err(|_| ErrorKind::NotFound)?.into_owned();
    // No file is served by a path with other parts either.
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(&relative).components().all(is_plain) {
        return Err(ErrorKind::NotFound.into());
    }
    let title = format!("/{relative}");
    let entries = spawn_blocking(move || dir.entries(relative.into())).await??;
    let body = match *method {
        Method::HEAD => Empty::new().map_err(|never| match never {}).boxed_unsync(),
        _ => Listing::new(entries, title).boxed_unsync(),
    };
    let mut response = Response::new(body);
    let page = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, page);
    Ok(response)
}

/// Whether an `If-Range` names the version in `response`, by its entity tag or its exact date (RFC 9110,
/// section 13.1.5).
fn holds(condition: &HeaderValue, response: &Response<Body>) -> bool {
    [header::ETAG, header::LAST_MODIFIED]
        .map(|name| response.headers().get(name))
        .contains(&Some(condition))
}
