// SPDX-License-Identifier: GPL-2.0-or-later
//! A small origin for hosts without a web server: serves a directory and redirects clients through depots.
//!
//! The answer is the file if a request came through a depot, if a depot has sent the client back, if depots
//! would refuse its URL, or if there are no depots. Any other request is redirected to the route. `tower-http`
//! serves the files; this crate adds `If-Range`, which it lacks, and listings of directories.

// What is asked for, and what file systems say, never panics or wraps.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod beneath;
mod files;
mod listing;

use files::Files;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::{
    Authority, AuthorityError, DepotAddress, Form, OriginUrl, Redirect, Scheme, asks_directly,
    catch_panic, http::came_through_depot,
};
use std::{convert::Infallible, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

/// How long a client may take to send a request's head.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// The body of any answer.
type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The settings of an origin.
#[derive(Debug, Clone)]
pub struct Config {
    /// The directory whose files are served.
    pub dir: PathBuf,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The depots, in the order in which the bytes pass them, from this origin to the client.
    pub via: Vec<DepotAddress>,
    /// The form of the routes.
    pub form: Form,
    /// The address of this origin for depots, `host[:port]`; without a port, that of `listen`. `None`: the
    /// address that the client used.
    pub public: Option<String>,
    /// Whether directories without an `index.html` are listed. They are then answered without a redirect.
    pub list: bool,
}

/// Why the origin does not start. The arguments or the host are at fault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory does not exist.
    #[error("{0} is not a directory")]
    NoDirectory(PathBuf),
    /// The depots do not form a valid route.
    #[error(transparent)]
    Route(#[from] protocol::RouteError),
    /// `public` is not an address.
    #[error("the origin's public address: {0}")]
    Public(#[from] AuthorityError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}{}", remedy(error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The runtime or the signal handlers cannot be set up.
    #[error("the system refuses what a server needs: {0}")]
    System(#[from] io::Error),
}

/// The remedy for an address that cannot be listened on.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => ". Another program uses it: choose another port",
        io::ErrorKind::PermissionDenied => {
            ". Ports below net.ipv4.ip_unprivileged_port_start need root or CAP_NET_BIND_SERVICE: choose another port"
        }
        io::ErrorKind::AddrNotAvailable => ". `ip address` lists the addresses of this host",
        _ => "",
    }
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// The origin cannot start.
pub fn run(config: Config) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(config));
    runtime.shutdown_background();
    result
}

async fn serve(config: Config) -> Result<(), Error> {
    if !config.dir.is_dir() {
        return Err(Error::NoDirectory(config.dir));
    }
    let example = OriginUrl::new(Scheme::Http, Authority::from(config.listen), "/");
    if let (false, Ok(example)) = (config.via.is_empty(), example) {
        Redirect::new(&config.via, config.form, example)?;
    }
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listening = TcpListener::bind(config.listen).await;
    let listener = listening.map_err(|error| Error::Listen { address: config.listen, error })?;
    let listen = listener.local_addr()?;
    // The port of URLs, 80, would be one on which nothing listens unless `listen` says so.
    let public = config.public.as_deref().map(|text| Authority::parse(text, Some(listen.port())));
    let (public, files) = (public.transpose()?, Files::new(&config.dir, config.list)?);
    tracing::info!(%listen, dir = %config.dir.display(), depots = config.via.len(), "ready");
    let origin = Arc::new(Origin { config, listen, public, files });
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    let origin = Arc::clone(&origin);
                    tokio::spawn(async move {
                        let service = service_fn(|request| origin.respond(request));
                        let serving = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .header_read_timeout(HEAD_TIME)
                            .serve_connection(TokioIo::new(socket), service);
                        if let Err(error) = serving.await {
                            tracing::debug!(%error, "connection ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            _ = term.recv() => return Ok(()),
            _ = int.recv() => return Ok(()),
        }
    }
}

struct Origin {
    config: Config,
    listen: SocketAddr,
    public: Option<Authority>,
    files: Files,
}

impl Origin {
    /// Answers, also if a defect keeps the answer from being made.
    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        Ok(catch_panic(self.answer(request)).await.unwrap_or_else(|panicked| {
            tracing::error!(%panicked, "a defect has ended a request. Please report it");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            text(status, "a defect of this origin; its log has more\n".to_owned())
        }))
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let is_page = self.config.list && path.ends_with('/');
        let direct = self.config.via.is_empty()
            || is_page
            || came_through_depot(request.headers().get_all(header::VIA))
            || asks_directly(target(&request));
        let is_download = [Method::GET, Method::HEAD].contains(&method);
        let redirect = if direct || !is_download { None } else { self.redirect(&request) };
        let response = match redirect {
            Some(redirect) => redirect,
            None => self.files.answer(request).await,
        };
        tracing::info!(%method, path, status = response.status().as_u16(), "answered");
        response
    }

    /// Redirects a client through the depots. `None` for a URL that they would refuse, such as one with dot
    /// segments.
    fn redirect(&self, request: &Request<Incoming>) -> Option<Response<Body>> {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let asked = || host.and_then(|host| Authority::parse(host, Some(80)).ok());
        let public = self.public.clone().or_else(asked).unwrap_or(self.listen.into());
        let url = OriginUrl::new(Scheme::Http, public, target(request)).ok()?;
        let location = Redirect::new(&self.config.via, self.config.form, url).ok()?.to_string();
        let mut response = text(StatusCode::FOUND, format!("longhaul: {location}\n"));
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
        Some(response)
    }
}

/// Path and query of a request.
fn target(request: &Request<Incoming>) -> &str {
    request.uri().path_and_query().map_or("/", |target| target.as_str())
}

/// A short text answer.
fn text(status: StatusCode, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
