// SPDX-License-Identifier: GPL-2.0-or-later
//! One client's connection: one request in, one answer out, closed.

use crate::{
    admission::Verdict,
    head::{self, HeadError},
    relay::{self, End, Mover, Relay, Watch},
    server::Shared,
    transfer_log::Entry,
    tune, upstream,
};
use http::StatusCode;
use session::{
    Fetch, Redirect, Route, Step,
    message::{
        Fault, Framing, Method, ProxyError, RequestHead, ResponseHead, redirect, request_for,
        response_for,
    },
};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

/// How long the depot's own short answers may take to be sent and taken.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Serves one accepted connection to its end.
pub(crate) async fn serve(mut client: TcpStream, peer: SocketAddr, shared: &Shared) {
    let mut entry = Entry::new(peer);
    if let Err(error) = tune::accepted(&client, peer.ip(), &shared.config) {
        let fault = Fault::internal(format!("cannot set up the client's connection: {error}"));
        return refuse(client, entry, &fault, true, shared).await;
    }
    let request = match read_request(&client, shared).await {
        Ok(request) => request,
        Err(None) => return,
        Err(Some(fault)) => return refuse(client, entry, &fault, true, shared).await,
    };
    entry.target.clone_from(&request.target);
    let with_body = request.method == Method::Get;
    match plan(&request, shared) {
        Err(fault) => refuse(client, entry, &fault, with_body, shared).await,
        Ok(Step::Lead(to)) => {
            answer(&mut client, &redirect(&to, request.method), shared).await;
            entry.led(&to.depot.to_string());
        }
        Ok(Step::Fetch(fetch)) => {
            entry.upstream = fetch.next.to_string();
            self::fetch(client, entry, &request, &fetch, shared).await;
        }
    }
}

/// Answers a connection without letting it in.
pub(crate) async fn turn_away(client: TcpStream, peer: SocketAddr, fault: &Fault, shared: &Shared) {
    refuse(client, Entry::new(peer), fault, true, shared).await;
}

/// What whoever has not asked by then is told: to ask elsewhere.
pub(crate) fn stopping() -> Fault {
    let reason = "this depot is being stopped";
    Fault::new(StatusCode::SERVICE_UNAVAILABLE, ProxyError::HttpRequestError, reason)
}

/// The request, or the fault to answer, or nothing where nobody waits for an answer.
async fn read_request(client: &TcpStream, shared: &Shared) -> Result<RequestHead, Option<Fault>> {
    let limit = shared.config.limits.head.get() as usize;
    let time = shared.config.timeouts.request_head;
    let mut buffer = Vec::new();
    let fault =
        |status, reason: String| Some(Fault::new(status, ProxyError::HttpRequestError, reason));
    let read = timeout(time.into(), head::read(client, &mut buffer, limit, RequestHead::parse));
    let result = tokio::select! {
        biased;
        result = read => result,
        () = shared.stopping() => return Err(Some(stopping())),
    };
    match result {
        Ok(Ok(request)) => Ok(request),
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

/// What to do with a request, if the rules let the depot do it.
fn plan(request: &RequestHead, shared: &Shared) -> Result<Step, Fault> {
    // Browsers ask this of every host whose pages they show.
    if request.target == "/favicon.ico" {
        let (status, error) = (StatusCode::NOT_FOUND, ProxyError::HttpRequestError);
        return Err(Fault::new(status, error, "not a route: a depot has no icon"));
    }
    let route: Route = request
        .target
        .parse()
        .map_err(|error| Fault::bad_request(format!("malformed route: {error}")))?;
    let step = route.step();
    // Leading clients anywhere would let others borrow this depot's name for their links.
    if let Step::Lead(Redirect { depot, .. }) = &step
        && shared.config.allow.upstream(depot) != Verdict::Listed
    {
        return Err(Fault::new(
            StatusCode::FORBIDDEN,
            ProxyError::HttpRequestDenied,
            format!("this depot does not lead clients to {depot}: it is not listed"),
        ));
    }
    Ok(step)
}

/// Passes a request on and its answer back.
async fn fetch(
    mut client: TcpStream,
    mut entry: Entry,
    request: &RequestHead,
    fetch: &Fetch,
    shared: &Shared,
) {
    let config = &shared.config;
    let mut body = Vec::new();
    let patience = config.timeouts.half_closed.into();
    let asked = {
        let mut watch = Watch::new(&client);
        let ask = ask(request, fetch, shared, &mut body);
        tokio::select! {
            asked = ask => asked,
            error = watch.gone(patience) => return entry.abandoned(&error),
        }
    };
    let (upstream, head, framing) = match asked {
        Ok(asked) => asked,
        Err(fault) => {
            let with_body = request.method == Method::Get;
            return refuse(client, entry, &fault, with_body, shared).await;
        }
    };
    entry.status = head.status.as_u16();
    entry.framing = framing;
    let head = response_for(&head, request, fetch.origin.as_ref(), &shared.id);
    let (end, mode) = pass_back(&mut client, &upstream, &head, &body, &mut entry, shared).await;
    conclude(&client, &upstream, &end, framing);
    entry.relayed(&end, mode, &client, &upstream);
}

/// Connects, asks, and reads the head; what came of the body is left in `body`.
async fn ask(
    request: &RequestHead,
    fetch: &Fetch,
    shared: &Shared,
    body: &mut Vec<u8>,
) -> Result<(TcpStream, ResponseHead, Framing), Fault> {
    let text = request_for(request, fetch, &shared.id)?;
    let mut upstream = upstream::connect(fetch, &shared.config).await?;
    let head = upstream::ask(&mut upstream, &text, &fetch.next, &shared.config, body).await?;
    let framing = head.framing(request)?;
    Ok((upstream, head, framing))
}

/// Sends the head, what is already there of the body, and then the rest of the body.
async fn pass_back(
    client: &mut TcpStream,
    upstream: &TcpStream,
    head: &[u8],
    body: &[u8],
    entry: &mut Entry,
    shared: &Shared,
) -> (End, &'static str) {
    let timeouts = &shared.config.timeouts;
    let length = match entry.framing {
        Framing::Empty => Some(0),
        Framing::Length(length) => Some(length),
        Framing::Chunked | Framing::UntilClose => None,
    };
    // From here on only a complete body may end in good order, whatever happens to this process.
    relay::reset_on_close(client, entry.framing == Framing::UntilClose);
    // More than the length says is no part of the answer.
    let first = &body[..length.map_or(body.len(), |l| body.len().min(l as usize))];
    let sent = async {
        client.write_all(head).await?;
        client.write_all(first).await
    };
    match timeout(timeouts.client_idle.into(), sent).await {
        Ok(Ok(())) => entry.bytes = first.len() as u64,
        Ok(Err(error)) => return (End::ClientGone(error), "none"),
        Err(_) => return (End::ClientStalled, "none"),
    }
    let left = length.map(|length| length - first.len() as u64);
    let mut watch = Watch::new(client);
    let (mut end, mut mode) = (End::Complete, "none");
    if left != Some(0) {
        let size = shared.config.limits.pipe.get() as usize;
        let mover = Mover::new(shared.config.relay, size);
        let mut relay = Relay::new(upstream, client, &mut watch, mover, left, timeouts);
        end = relay.run(&mut entry.bytes).await;
        mode = relay.mode();
    }
    if matches!(end, End::Complete) {
        relay::reset_on_close(client, false);
        end = relay::close(client, &mut watch, timeouts).await;
    }
    (end, mode)
}

/// Leaves both connections in the state that tells the other side the truth when they are closed.
/// Upstream's is reset unless all is well, as `upstream::connect` has set it.
fn conclude(client: &TcpStream, upstream: &TcpStream, end: &End, framing: Framing) {
    match end {
        End::Complete => relay::reset_on_close(upstream, false),
        End::ClientGone(_) | End::ClientStalled => relay::reset_on_close(client, true),
        // With a length (or chunks) an early close shows, and leaves the client what it has. A
        // body that ends with the connection must be seen to fail; it resets already.
        End::UpstreamCutOff | End::UpstreamFailed(_) | End::UpstreamStalled => {
            relay::reset_on_close(client, framing == Framing::UntilClose);
        }
    }
}

/// Answers with a fault and says so in the log.
async fn refuse(
    mut client: TcpStream,
    entry: Entry,
    fault: &Fault,
    with_body: bool,
    shared: &Shared,
) {
    entry.refused(fault);
    answer(&mut client, &fault.answer(&shared.id, with_body), shared).await;
}

/// Sends an answer of the depot's own and closes. How that goes is the client's affair.
async fn answer(client: &mut TcpStream, bytes: &[u8], shared: &Shared) {
    let sent = async {
        client.write_all(bytes).await?;
        let mut watch = Watch::new(client);
        relay::close(client, &mut watch, &shared.config.timeouts).await;
        io::Result::Ok(())
    };
    let _ = timeout(ANSWER_TIME, sent).await;
}
