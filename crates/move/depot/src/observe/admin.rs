// SPDX-License-Identifier: GPL-2.0-or-later
//! The listener for operators: a page, the same as JSON, metrics, and whether the depot is well.
//!
//! It is separate from the listeners for clients, and off unless configured. Anyone who can reach it sees
//! which client fetches which URL. It is read-only: it serves GET and HEAD. On a loopback address it accepts
//! requests by address only: with DNS rebinding, a name that resolves to it would let the script of a foreign
//! web page read it.

use super::{OWN_DEFECT, View, metrics, page};
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{
        ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName,
        LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
    uri::Authority,
};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::{Panicked, catch_panic};
use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

/// Connections at a time; further ones wait.
const CONNECTIONS: usize = 64;
/// How long a request's head may take to come.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection may last in all: none is to take a place for ever. Clients open another.
const LIFE: Duration = Duration::from_secs(60);

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Serves for as long as the depot runs, also while it drains; but not once another one has the listener,
/// which then answers there for itself.
pub(crate) async fn serve(listener: TcpListener, view: Arc<View>) {
    let by_address = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            biased;
            () = view.succeeded() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                let view = Arc::clone(&view);
                tokio::spawn(async move {
                    serve_one(socket, by_address, view).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of an operator");
                // What is kept for operators: one for the connection, one to look around with.
                if !view.make_room() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn serve_one(socket: TcpStream, by_address: bool, view: Arc<View>) {
    let service = service_fn(|request: Request<Incoming>| {
        let view = Arc::clone(&view);
        async move {
            if by_address && !is_address(&request) {
                let why = "ask for this listener by its address, not by a name\n".to_owned();
                return Ok::<_, Infallible>(text(StatusCode::MISDIRECTED_REQUEST, TEXT, why));
            }
            let answered = catch_panic(answer(&request, Arc::clone(&view))).await;
            Ok(answered.unwrap_or_else(|panicked| defect(&view, &panicked)))
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        // After a takeover, the next request must reach the depot that listens then.
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service);
    if let Ok(Err(error)) = timeout(LIFE, serving).await {
        tracing::debug!(error = error.to_string(), "connection of an operator ended");
    }
}

/// Whether a request is for an address, or for the name that no stranger can have.
fn is_address(request: &Request<Incoming>) -> bool {
    let Some(host) = request.headers().get(HOST) else { return true };
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let host = authority.host();
        let ip = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || ip.parse::<IpAddr>().is_ok()
    })
}

async fn answer(request: &Request<Incoming>, view: Arc<View>) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let why = "only GET and HEAD are answered here\n".to_owned();
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, TEXT, why);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/healthz" if view.is_served() => text(StatusCode::OK, TEXT, "serving\n".to_owned()),
        "/healthz" => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n".to_owned()),
        "/metrics" => {
            let format = metrics::Format::wanted(request.headers().get_all(ACCEPT));
            let text =
                move |view: &View| metrics::text(&view.status(), format).map_err(|e| e.to_string());
            computed(view, format.content_type(), text).await
        }
        "/status.json" => {
            let text = |view: &View| {
                let status = serde_json::to_string(&view.status()).map_err(|e| e.to_string())?;
                Ok(units::text::json(&status).into_owned())
            };
            computed(view, JSON, text).await
        }
        "/status" => {
            let mut response = text(StatusCode::OK, HTML, page::PAGE.html.clone());
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, page::PAGE.policy.clone());
            response
        }
        "/" => {
            let mut response = text(StatusCode::FOUND, TEXT, "see /status\n".to_owned());
            response.headers_mut().insert(LOCATION, HeaderValue::from_static("/status"));
            response
        }
        _ => {
            let known = "here are /status, /status.json, /metrics and /healthz\n".to_owned();
            text(StatusCode::NOT_FOUND, TEXT, known)
        }
    }
}

/// An answer that takes a while to be made, if there are many transfers: not on the threads that
/// move them.
async fn computed(
    view: Arc<View>,
    content_type: &'static str,
    make: impl FnOnce(&View) -> Result<String, String> + Send + 'static,
) -> Response<Full<Bytes>> {
    let maker = Arc::clone(&view);
    match tokio::task::spawn_blocking(move || make(&maker)).await {
        Ok(Ok(body)) => text(StatusCode::OK, content_type, body),
        Ok(Err(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error + "\n"),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => defect(&view, &Panicked::of(&*panic)),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        },
    }
}

/// The answer that was not made because of a defect.
fn defect(view: &View, panicked: &Panicked) -> Response<Full<Bytes>> {
    view.panicked(panicked);
    text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{OWN_DEFECT}\n"))
}

fn text(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
