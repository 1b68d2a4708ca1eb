// SPDX-License-Identifier: GPL-2.0-or-later
//! One session: an OPEN, its ANSWER, and the bytes that follow.

use crate::{
    admission::{allowance::Allowance, verdict::Grant},
    client::Client,
    config::DepotsAround,
    failover_routes::Trying,
    idle_pool::Peer,
    observe::{Direction, Entry, Live},
    session::{
        SessionEnd,
        hop::{self, NextHop, NoSession, Payload},
        meeting,
        plan::Plan,
        relay::{Side, Times, move_bytes},
        stripes,
    },
    state::RequestContext,
    stored,
    tls::Protocol,
    upstream,
};
use http::StatusCode;
use protocol::{
    Authority, Scheme,
    http::{Connection, Fault, proxy::CONNECTED},
    proxy_protocol,
    session::{Answer, Hop, Open, OpenStep},
};
use relay::{
    copy::{CopyError, Progress},
    rates::{TransferLimits, TransferRate},
};
use route::AttemptEnd;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::time::Instant;
use units::Bytes;

/// Serves an OPEN, and the session if there is one. The connection serves nothing else afterwards.
pub(crate) async fn serve(mut client: Client, open: Open, context: RequestContext<'_>) {
    let mut entry = Entry::new(client.stream.peer(), context);
    entry.session(&open);
    let streams = open.streams;
    client.depots_before = open.passed.len();
    client.answer_by = open.answer_within.map(|time| Instant::now() + time);
    let scheme = if client.stream.is_tls() { Scheme::Https } else { Scheme::Http };
    let peer = client.stream.peer().ip();
    let asked_for = open.client.filter(|_| context.config().trust.has_depot(peer));
    if let Err(fault) = client.carry(asked_for, context) {
        entry.asked_for(asked_for);
        return client.refuse(entry, &fault, true, context).await;
    }
    let _transfer = match context.begin_transfer(client.asker().client) {
        Ok(transfer) => transfer,
        Err(fault) => return client.refuse(entry, &fault, true, context).await,
    };
    match Plan::of(open, (peer, scheme), context).await {
        Ok(plan) => {
            stripes::read_blocks(&mut client, streams);
            carry_out(client, entry, plan, context).await;
        }
        Err(fault) => client.refuse(entry, &fault, true, context).await,
    }
}

/// Does what was planned.
pub(crate) async fn carry_out(
    client: Client,
    mut entry: Entry,
    plan: Plan,
    context: RequestContext<'_>,
) {
    entry.asked_for(plan.asked_for);
    entry.by(plan.ticket.as_ref());
    let Plan { session, step, grant, asked_for, ticket } = plan;
    let allowance = ticket.as_ref().map(Allowance::of).unwrap_or_default();
    let opened = Opened { context, grant, asked_for, allowance: allowance.clone() };
    match step {
        OpenStep::Connect { hop, open } => opened.through(client, entry, hop, *open).await,
        OpenStep::Tcp { server, proxy_protocol } => {
            opened.to_server(client, entry, &server, proxy_protocol).await;
        }
        OpenStep::Meeting(role) => {
            meeting::meet(client, entry, (session, role), allowance, context).await;
        }
        OpenStep::Store => {
            let asked = (session, ticket.as_ref());
            Box::pin(stored::serve(client, entry, asked, allowance, context)).await;
        }
    }
}

/// A session that may be opened.
struct Opened<'o> {
    context: RequestContext<'o>,
    grant: Grant,
    asked_for: Option<IpAddr>,
    allowance: Allowance,
}

impl Opened<'_> {
    /// Through the next hop.
    async fn through(self, mut client: Client, mut entry: Entry, hop: Hop, open: Open) {
        let Self { context, grant, asked_for, allowance } = self;
        let (failover, asked) = (&context.next_hops.detours, hop.address.authority.clone());
        let mut routes = match grant {
            // A ticket names its depots.
            Grant::Ticket => vec![(hop, open)],
            _ => failover.session_routes(hop, open, context.config()),
        }
        .into_iter()
        .peekable();
        let mut live = None;
        while let Some((hop, open)) = routes.next() {
            let name = &hop.address.authority;
            let live = live.get_or_insert_with(|| {
                let live = entry.fetching(name, &client.stream);
                live.keep_receipt(client.asker().client, &context.observer.receipts);
                live
            });
            let limits = TransferLimits { upstream: hop.pacing, ..allowance.limits() };
            let pacing =
                context.admission.rates.begin(live.number, client.stream.peer().ip(), limits);
            let trying = Trying::begin(live.moved_in_all());
            let tell_chooser = |end| {
                let attempt = trying.end(end, live.moved_in_all());
                failover.ended(&asked, name, context.config(), &attempt);
            };
            let next = NextHop {
                context,
                hop: &hop,
                open: &open,
                grant,
                asked_for,
                most: allowance.bytes,
                live,
                pacing: &pacing,
                payload: Payload::Session,
            };
            // Boxed, so that a session under way takes up little.
            match (Box::pin(next.open(&mut client)).await, routes.peek()) {
                (Ok((hop, answer)), _) => {
                    tell_chooser(AttemptEnd::Done);
                    let way = Way { depots: next.depots(), most: allowance.bytes, pacing: &pacing };
                    return open_both(client, entry, (hop, answer), way, context).await;
                }
                (Err(NoSession::Unreachable(fault)), Some((instead, _))) => {
                    tell_chooser(AttemptEnd::Unreached);
                    let (instead, reason) = (&instead.address.authority, fault.in_full());
                    tracing::warn!(upstream = %name, %instead, reason, "another route");
                }
                (Err(why), _) => return refuse(client, entry, why, context).await,
            }
        }
    }

    /// To a server that knows nothing of sessions.
    async fn to_server(
        &self,
        mut client: Client,
        mut entry: Entry,
        server: &Authority,
        proxy_protocol: bool,
    ) {
        let Self { context, grant, ref allowance, .. } = *self;
        let live = entry.fetching(server, &client.stream);
        live.keep_receipt(client.asker().client, &context.observer.receipts);
        let pacing = context.admission.rates.begin(
            live.number,
            client.stream.peer().ip(),
            allowance.limits(),
        );
        let peer = Peer { next: server, scheme: Scheme::Http, protocol: Protocol::Tcp };
        let connected = Box::pin(hop::connected(peer, grant, &mut client, context)).await;
        let mut hop = match connected {
            Ok(hop) => hop,
            Err(why) => return refuse(client, entry, why, context).await,
        };
        live.reached(server, &hop.stream);
        context.share_memory(client.asker().client, [&client.stream, &hop.stream]);
        let mut ready = hop::hold(&pacing, &client, &hop, context);
        if proxy_protocol && ready.is_ok() {
            ready = self.introduce(&client, &mut hop).await;
        }
        if let Err(fault) = ready {
            return refuse(client, entry, fault.into(), context).await;
        }
        let answer = Answer::of(StatusCode::OK, context.id.clone());
        let way = Way { depots: 0, most: allowance.bytes, pacing: &pacing };
        open_both(client, entry, (hop, answer), way, context).await;
    }

    /// Tells a server whose connection it has.
    async fn introduce(
        &self,
        client: &Client,
        hop: &mut upstream::UpstreamConnection,
    ) -> Result<(), Fault> {
        let peer = client.stream.peer();
        // Of a client before another depot the port is not known.
        let client_address = self.asked_for.map_or(peer, |ip| SocketAddr::new(ip, 0));
        let own = client.stream.tcp().local_addr().unwrap_or(peer);
        let header = proxy_protocol::header(client_address, own);
        let mut left = &header[..];
        let (_, mut sink) = hop.stream.split();
        while !left.is_empty() {
            // A new connection takes as much at once.
            let written = sink.write(left).await.map_err(|error| {
                Fault::bad_response(format!(
                    "the server refuses the PROXY protocol header: {error}"
                ))
            })?;
            left = &left[written..];
        }
        Ok(())
    }
}

/// What a session that is open goes through, and how much of it is granted.
struct Way<'w> {
    depots: usize,
    most: Option<Bytes>,
    pacing: &'w TransferRate,
}

/// Tells the client that the session is open, and moves its bytes.
async fn open_both(
    mut client: Client,
    mut entry: Entry,
    (mut hop, mut answer): (upstream::UpstreamConnection, Answer),
    Way { depots, most, pacing }: Way<'_>,
    context: RequestContext<'_>,
) {
    let streams = answer.striped.map_or(1, |striped| striped.streams);
    answer.hops.insert(0, hop::report(&hop, streams, context));
    let live = entry.opened();
    let config = context.config();
    // The received ANSWER fitted. This depot's report may make it too long.
    if let Err(error) = answer.to_bytes() {
        let fault = Fault::bad_response(format!("the ANSWER cannot be passed on: {error}"));
        return refuse(client, entry, fault.into(), context).await;
    }
    let told = tell_open(&mut client, answer, (&live, pacing), context).await;
    let (peer, before) = (client.stream.peer().ip(), client.depots_before);
    let depots = DepotsAround { before, after: depots };
    let times =
        Times { timeouts: &config.timeouts, depots, idle: config.session.idle.into(), most };
    let end = match told {
        Ok(()) => {
            let (near, far) = (
                Side {
                    stream: &mut client.stream,
                    ahead: &mut client.ahead,
                    minimum: config.minimum_read(peer, before),
                },
                Side { stream: &mut hop.stream, ahead: &mut hop.ahead, minimum: None },
            );
            Box::pin(move_bytes(near, far, &live, &context.transfers.resources, times)).await
        }
        Err(end) => end,
    };
    entry.session_ended(end);
}

/// Sends the client the ANSWER that opens the session, and lets further connections join.
pub(super) async fn tell_open(
    client: &mut Client,
    mut answer: Answer,
    (live, pacing): (&Arc<Live>, &TransferRate),
    context: RequestContext<'_>,
) -> Result<(), SessionEnd> {
    let broken = |error| SessionEnd::Broken(CopyError::SinkGone(error), Direction::Down);
    let granted = stripes::grant(client, &mut answer, context).map_err(broken)?;
    let bytes = answer.to_bytes().map_err(|error| broken(io::Error::other(error)))?;
    tell(client, &bytes, context).await?;
    granted.map_or(Ok(()), |granted| granted.begin(client, live, pacing, context)).map_err(broken)
}

/// Sends the client an ANSWER, or what it means to a proxy's client; a plain client gets none.
pub(super) async fn tell(
    client: &mut Client,
    answer: &[u8],
    context: RequestContext<'_>,
) -> Result<(), SessionEnd> {
    let answer = match client.protocol {
        Protocol::Tcp => return Ok(()),
        Protocol::Http => CONNECTED,
        Protocol::Session | Protocol::Tls => answer,
    };
    let timeouts = context.config().timeouts.towards_client(client.depots_before);
    let (_, mut sink) = client.stream.split();
    let progress = Progress::default();
    let sent = progress.write_all(&mut sink, answer, timeouts, |_| ()).await;
    sent.map_err(|error| SessionEnd::Broken(error, Direction::Down))
}

/// There is no session: says so to the client and the log.
pub(super) async fn refuse(
    mut client: Client,
    entry: Entry,
    why: NoSession,
    context: RequestContext<'_>,
) {
    match why {
        NoSession::Fault(fault) | NoSession::Unreachable(fault) => {
            client.refuse(entry, &fault, true, context).await;
        }
        NoSession::Gone(error) => entry.abandoned(&error),
        NoSession::Answer { answer, fault, is_depots } => {
            if is_depots {
                entry.refused_upstream(&fault);
            } else {
                entry.refused(&fault);
            }
            match answer.to_bytes() {
                Ok(bytes) if client.protocol == Protocol::Session => {
                    client.answer(&bytes, Connection::Close, context).await;
                }
                _ => client.answer_fault(&fault, true, context).await,
            }
        }
    }
}

/// A session of the depot's own making, for a plain connection.
pub(super) async fn open_for(client: Client, open: Open, context: RequestContext<'_>) {
    let mut entry = Entry::new(client.stream.peer(), context);
    entry.session(&open);
    let _transfer = match context.begin_transfer(client.asker().client) {
        Ok(transfer) => transfer,
        Err(fault) => return refuse(client, entry, fault.into(), context).await,
    };
    let (session, step) = (open.session, open.step(&context.id));
    match step {
        Ok(step) => {
            let (asked_for, ticket) = (None, None);
            let plan = Plan { session, step, grant: Grant::Site, asked_for, ticket };
            carry_out(client, entry, plan, context).await;
        }
        Err(fault) => refuse(client, entry, fault.into(), context).await,
    }
}
