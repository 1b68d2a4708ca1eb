// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP: CONNECT and absolute URLs of proxy clients, and what this machine may ask of the agent itself.

use super::{Agent, Failed, HEAD_TIME, link::Link};
use crate::tunnel::tunnel;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderName, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, RETRY_AFTER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
        WWW_AUTHENTICATE,
    },
};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1 as client,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::{
    Authority, Host, catch_panic,
    http::{
        ProxyError,
        proxy::{Credentials, connect_target},
        proxy_challenge,
    },
};
use relay::tcp::Stream;
use route::Destination;
use std::{convert::Infallible, net::SocketAddr, sync::Arc};
use tokio::net::TcpStream;

/// The most that a head may have.
const HEAD: usize = 64 << 10;
/// Fields that are a connection's own (RFC 9110, 7.6.1), and those that only a proxy reads.
const OWN: [HeaderName; 8] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

const VIA_AGENT: HeaderValue = HeaderValue::from_static("1.1 longhaul-agent");

type Body = BoxBody<Bytes, hyper::Error>;

pub(super) async fn serve(agent: Arc<Agent>, socket: TcpStream, from: SocketAddr) {
    let service = service_fn(|request: Request<Incoming>| {
        let agent = Arc::clone(&agent);
        async move {
            let answered = catch_panic(answer(agent, request, from)).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|panicked| {
                tracing::error!(%from, %panicked, "a defect has ended a request. Please report it");
                let why = "a defect of this agent; its log has more\n".to_owned();
                text(StatusCode::INTERNAL_SERVER_ERROR, why)
            }))
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .half_close(true)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    if let Err(error) = serving.await {
        tracing::debug!(%from, %error, "HTTP");
    }
}

async fn answer(agent: Arc<Agent>, request: Request<Incoming>, from: SocketAddr) -> Response<Body> {
    let is_for_proxy = request.method() == Method::CONNECT || request.uri().authority().is_some();
    if !is_for_proxy {
        return of_agent(&agent, &request, from).await;
    }
    if let Err(response) = check_login(&agent, &request, from, &OF_PROXY).await {
        return response;
    }
    let answered = if request.method() == Method::CONNECT {
        connect(&agent, request, from).await
    } else {
        forward(&agent, request, from).await
    };
    answered.unwrap_or_else(|failed| {
        agent.live.failed();
        tracing::info!(%from, "{}", failed.text);
        refusal(&failed)
    })
}

/// How a login is asked for, and shown.
struct LoginFields {
    status: StatusCode,
    challenge: HeaderName,
    credentials: HeaderName,
}

const OF_PROXY: LoginFields = LoginFields {
    status: StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    challenge: PROXY_AUTHENTICATE,
    credentials: PROXY_AUTHORIZATION,
};
const OF_AGENT: LoginFields = LoginFields {
    status: StatusCode::UNAUTHORIZED,
    challenge: WWW_AUTHENTICATE,
    credentials: AUTHORIZATION,
};

/// Whether a request shows the login, if there is one; otherwise the answer to it.
async fn check_login(
    agent: &Agent,
    request: &Request<Incoming>,
    from: SocketAddr,
    fields: &LoginFields,
) -> Result<(), Response<Body>> {
    let given = request.headers().get(&fields.credentials).and_then(Credentials::read);
    let why = match agent.admits(from, given.as_ref()).await {
        Ok(true) => return Ok(()),
        Ok(false) => "this proxy wants a name and a password\n".to_owned(),
        Err(error) => {
            let mut response = text(StatusCode::TOO_MANY_REQUESTS, format!("{error}\n"));
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
            return Err(response);
        }
    };
    let mut response = text(fields.status, why);
    let basic = HeaderValue::from_str(&proxy_challenge("longhaul agent")).expect("visible text");
    response.headers_mut().insert(&fields.challenge, basic);
    Err(response)
}

async fn connect(
    agent: &Arc<Agent>,
    request: Request<Incoming>,
    from: SocketAddr,
) -> Result<Response<Body>, Failed> {
    let target = request.uri().authority().map_or("", |authority| authority.as_str());
    let server = connect_target(target).map_err(|fault| bad(&fault.reason))?;
    let (stream, route) = agent.open(from, &Destination::Named(server.clone())).await?;
    let agent = Arc::clone(agent);
    tokio::spawn(async move {
        let listed = agent.live.list(from, "connect", &server, route);
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let parts = upgraded.downcast::<TokioIo<TcpStream>>().expect("what was served");
        let client = (Stream::new(parts.io.into_inner(), from), parts.read_buf.into());
        let passed = &listed.connection.passed;
        let passed = tunnel(client, stream, &agent.resources, passed).await;
        if let Err(error) = passed {
            tracing::debug!(%from, %server, %error, "CONNECT");
        }
    });
    Ok(Response::new(empty()))
}

/// Asks the server for an absolute URL, on a connection of its own.
async fn forward(
    agent: &Arc<Agent>,
    mut request: Request<Incoming>,
    from: SocketAddr,
) -> Result<Response<Body>, Failed> {
    if request.uri().scheme_str() != Some("http") {
        return Err(bad("this proxy takes http: URLs, and CONNECT for all others"));
    }
    let authority = request.uri().authority().cloned().ok_or_else(|| bad("the URL has no host"))?;
    let port = authority.port_u16().unwrap_or(80);
    let server = Authority::parse(authority.as_str(), Some(port))
        .map_err(|error| bad(&error.to_string()))?;
    let (stream, route) = agent.open(from, &Destination::Named(server.clone())).await?;
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    strip(request.headers_mut());
    let host =
        HeaderValue::from_str(authority.as_str()).map_err(|_| bad("the host is malformed"))?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().append(VIA, VIA_AGENT);

    let agent_of_task = Arc::clone(agent);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let listed = agent_of_task.live.list(from, "http", &server, route);
        let link = Link::new(stream, Arc::clone(&listed.connection));
        let shaken = client::Builder::new().max_buf_size(HEAD).handshake(TokioIo::new(link)).await;
        let Ok((requests, connection)) = shaken else { return };
        if sender.send(requests).is_ok() {
            let _ = connection.await;
        }
    });
    let broken = |text: String| Failed { kind: ProxyError::HttpProtocolError, text };
    let mut requests =
        receiver.await.map_err(|_| broken("the server's connection broke".into()))?;
    let response = requests.send_request(request).await;
    let response =
        response.map_err(|error| broken(format!("{authority} did not answer: {error}")))?;
    let mut response = response.map(BodyExt::boxed);
    strip(response.headers_mut());
    response.headers_mut().append(VIA, VIA_AGENT);
    Ok(response)
}

/// Takes out what is the connection's own, also what `Connection` names.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OWN) {
        headers.remove(name);
    }
}

/// What is asked of the agent itself. A page of somebody else's may ask as well: by a name that leads here, which is
/// refused, or without reading the answer. With a login, all but the script for browsers takes the password.
async fn of_agent(agent: &Agent, request: &Request<Incoming>, from: SocketAddr) -> Response<Body> {
    let Some(own) = by_address(request) else {
        let why = "ask for this port by its address, not by a name\n".to_owned();
        return text(StatusCode::MISDIRECTED_REQUEST, why);
    };
    let path = request.uri().path();
    if request.method() == Method::GET && path == "/proxy.pac" {
        let script = format!(
            "function FindProxyForURL(url, host) {{\n  \
             if (isPlainHostName(host) || host == \"127.0.0.1\" || host == \"::1\") return \"DIRECT\";\n  \
             return \"SOCKS5 {own}; PROXY {own}; DIRECT\";\n}}\n"
        );
        return with_type(script, "application/x-ns-proxy-autoconfig");
    }
    if let Err(response) = check_login(agent, request, from, &OF_AGENT).await {
        return response;
    }
    if request.method() != Method::GET {
        let why = "only GET is answered here. To use this port as a proxy, send absolute URLs or CONNECT\n";
        return text(StatusCode::METHOD_NOT_ALLOWED, why.to_owned());
    }
    match path {
        "/status.json" => {
            let status =
                serde_json::to_string(&agent.live.status()).expect("plain numbers and text");
            with_type(units::text::json(&status).into_owned(), "application/json")
        }
        _ => text(
            StatusCode::NOT_FOUND,
            "this is a proxy. Here are /proxy.pac and /status.json\n".to_owned(),
        ),
    }
}

/// Where a request was sent, if that is an address, or the name that no stranger can have.
fn by_address(request: &Request<Incoming>) -> Option<Authority> {
    let host = request.headers().get(HOST)?.to_str().ok()?;
    let authority = Authority::parse(host, Some(80)).ok()?;
    let is_own = match &authority.host {
        Host::Ip(_) => true,
        Host::Name(name) => name.eq_ignore_ascii_case("localhost"),
    };
    is_own.then_some(authority)
}

fn bad(text: &str) -> Failed {
    Failed { kind: ProxyError::HttpRequestError, text: text.to_owned() }
}

fn refusal(failed: &Failed) -> Response<Body> {
    let status = match failed.kind {
        ProxyError::HttpRequestError => StatusCode::BAD_REQUEST,
        ProxyError::HttpRequestDenied | ProxyError::DestinationIpProhibited => {
            StatusCode::FORBIDDEN
        }
        ProxyError::ConnectionTimeout | ProxyError::DnsTimeout => StatusCode::GATEWAY_TIMEOUT,
        ProxyError::ProxyLoopDetected => StatusCode::LOOP_DETECTED,
        ProxyError::ConnectionLimitReached => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    };
    text(status, format!("{}\n", failed.text))
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let mut response = with_type(text, "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

fn with_type(content: String, kind: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from(content)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn empty() -> Body {
    Full::default().map_err(|never| match never {}).boxed()
}
