// SPDX-License-Identifier: GPL-2.0-or-later
//! The bytes of a session, in both directions at the same time.
//!
//! - The end of one direction is passed on, and the other one stays open (rule 4.2).
//! - If a connection fails, the other one is reset (rule 4.3). So both are set to be reset when they are
//!   closed, until both directions have ended: then a depot that is killed tells the truth, too.

use crate::{
    client::{failed, failure},
    config::{DepotsAround, Timeouts},
    observe::{Direction, Live, Withdrawal},
};
use bytes::BytesMut;
use relay::{
    copy::{
        AckProgress, Copy, CopyError, Ends, IdleTimeouts, MinimumRate, Progress, RelayResources,
        minimum_rate::Meter,
    },
    tcp::{
        Sink, Source, Stream,
        info::{reset_on_close, tcp_info},
    },
};
use std::{
    future::pending,
    io,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::{
    net::TcpStream,
    sync::Notify,
    time::{sleep, timeout},
};
use units::Bytes;

/// How often to look whether a peer has everything: at first, and at last.
const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];
/// The maximum number of bytes that TLS and TCP use to mark the end of a direction. A peer that is gone and
/// lacks only these has lost nothing.
const MARKS: usize = 32;

/// How a session ended.
#[derive(Debug)]
pub(crate) enum SessionEnd {
    /// Both directions have ended in good order.
    Closed,
    /// A direction broke off.
    Broken(CopyError, Direction),
    /// Nothing moved for so long.
    Idle(Duration),
    /// The depot has ended it.
    Withdrawn(Withdrawal),
}

/// A connection of a session.
pub(super) struct Side<'s> {
    pub stream: &'s mut Stream,
    /// What was read from it already.
    pub ahead: &'s mut BytesMut,
    /// How fast it has to take bytes while the depot waits for it, if it is a client.
    pub minimum: Option<MinimumRate>,
}

/// How long a session may take, and how many depots stand around this one.
pub(super) struct Times<'t> {
    pub timeouts: &'t Timeouts,
    pub depots: DepotsAround,
    pub idle: Duration,
    /// The most bytes of each direction.
    pub most: Option<Bytes>,
}

/// Tells when both directions have ended.
#[derive(Default)]
struct Ended {
    directions: AtomicU8,
    both: Notify,
}

/// Moves all bytes, and leaves both connections to be closed or reset.
pub(super) async fn move_bytes(
    client: Side<'_>,
    upstream: Side<'_>,
    live: &Live,
    resources: &RelayResources,
    times: Times<'_>,
) -> SessionEnd {
    for stream in [&*client.stream, &*upstream.stream] {
        reset_on_close(stream.tcp(), true);
    }
    // Silence in one direction alone is not a failure.
    let patient = |timeouts| IdleTimeouts { source_idle: Duration::MAX, ..timeouts };
    let to_client = patient(times.timeouts.towards_client(times.depots.before));
    let to_next = patient(times.timeouts.of_requests(times.depots.after));
    let ended = Ended::default();
    let end = {
        let (mut client_source, mut client_sink) = client.stream.split();
        let (mut source, mut sink) = upstream.stream.split();
        let (client_tcp, tcp) = (client_sink.tcp(), sink.tcp());
        let up = Ends { source: &mut client_source, ahead: client.ahead, sink: &mut sink };
        let down = Ends { source: &mut source, ahead: upstream.ahead, sink: &mut client_sink };
        tokio::select! {
            biased;
            () = ended.both.notified() => SessionEnd::Closed,
            error = direction(up, resources, to_next, (&live.sent, times.most), &ended) => {
                SessionEnd::Broken(error, Direction::Up)
            }
            error = direction(down, resources, to_client, (&live.received, times.most), &ended) => {
                SessionEnd::Broken(error, Direction::Down)
            }
            () = too_slow(client_tcp, &live.received, client.minimum) => {
                SessionEnd::Broken(CopyError::SinkSlow, Direction::Down)
            }
            () = too_slow(tcp, &live.sent, upstream.minimum) => {
                SessionEnd::Broken(CopyError::SinkSlow, Direction::Up)
            }
            () = idle(live, times.idle) => SessionEnd::Idle(times.idle),
            why = live.withdrawn() => SessionEnd::Withdrawn(why),
        }
    };
    if !matches!(end, SessionEnd::Closed) {
        return end;
    }
    for stream in [&*client.stream, &*upstream.stream] {
        reset_on_close(stream.tcp(), false);
    }
    let delivered = tokio::join!(
        delivered(client.stream, to_client, Direction::Down),
        delivered(upstream.stream, to_next, Direction::Up),
    );
    delivered.0.and(delivered.1).err().unwrap_or(end)
}

/// Waits until the peer's system has everything, so that "ended" in the log is true.
async fn delivered(
    stream: &Stream,
    timeouts: IdleTimeouts,
    direction: Direction,
) -> Result<(), SessionEnd> {
    let (mut acks, mut pause) = (AckProgress::new(stream.tcp(), timeouts), LOOK[0]);
    loop {
        let left = acks.look().map_err(|error| SessionEnd::Broken(error, direction))?;
        if left == 0 {
            return Ok(());
        }
        if let Some(error) = failure(stream.tcp()) {
            if left <= MARKS {
                return Ok(());
            }
            return Err(SessionEnd::Broken(CopyError::SinkGone(error), direction));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LOOK[1]);
    }
}

/// Moves one direction to its end and passes that on. Resolves only if one of its connections fails, be
/// it afterwards.
async fn direction(
    ends: Ends<'_, '_, '_>,
    resources: &RelayResources,
    timeouts: IdleTimeouts,
    (progress, most): (&Progress, Option<Bytes>),
    ended: &Ended,
) -> CopyError {
    let Ends { source, ahead, sink } = ends;
    let mut copy: Copy<'_, '_, '_> = Copy::new(
        Ends { source: &mut *source, ahead, sink: &mut *sink },
        resources,
        timeouts,
        progress,
    );
    copy.most = most.map(Bytes::get);
    let moved = match copy.data(None).await {
        Ok(()) => copy.flush().await,
        Err(error) => Err(error),
    };
    copy.end();
    let divided = source.is_striped() || sink.is_striped();
    let moved = match moved {
        Ok(()) if divided => unstripe(source, sink, timeouts.sink_idle).await,
        moved => moved,
    };
    if let Err(error) = moved {
        return error;
    }
    if let Err(error) = sink.shut().await {
        return CopyError::SinkGone(error);
    }
    if ended.directions.fetch_add(1, Relaxed) == 1 {
        ended.both.notify_one();
    }
    CopyError::SourceFailed(failed(source.tcp()).await)
}

/// Ends a direction on all the connections that have joined it.
async fn unstripe(
    source: &mut Source<'_>,
    sink: &mut Sink<'_>,
    time: Duration,
) -> Result<(), CopyError> {
    match timeout(time, source.unstripe()).await {
        Ok(Ok(rest)) if rest.is_empty() => {}
        Ok(Ok(_)) => {
            let error = io::Error::new(io::ErrorKind::InvalidData, "bytes behind the end");
            return Err(CopyError::SourceFailed(error));
        }
        Ok(Err(error)) => return Err(CopyError::SourceFailed(error)),
        Err(_) => return Err(CopyError::SourceStalled),
    }
    match timeout(time, sink.unstripe()).await {
        Ok(ended) => ended.map_err(CopyError::SinkGone),
        Err(_) => Err(CopyError::SinkStalled),
    }
}

/// Resolves once a client has taken too little for too long while the depot waits for it. What it
/// sends is not measured: a session may be silent.
async fn too_slow(client: &TcpStream, towards: &Progress, minimum: Option<MinimumRate>) {
    let Some(minimum) = minimum else { return pending().await };
    let info = || tcp_info(client).unwrap_or_default();
    let mut meter = Meter::new([info().acked.get(), towards.moved()]);
    loop {
        sleep(minimum.pause()).await;
        let info = info();
        let taken = [info.acked.get(), towards.moved()];
        if meter.look(minimum.of_held(info.spacing.rate()), towards.waits_for_sink(), taken) {
            return;
        }
    }
}

/// Resolves once nothing has moved for so long.
async fn idle(live: &Live, time: Duration) {
    let moved = || live.sent.moved() + live.received.moved();
    let pause = (time / 8).clamp(Duration::from_millis(1), Duration::from_secs(5));
    let (mut seen, mut since) = (moved(), Instant::now());
    loop {
        sleep(pause).await;
        let now = moved();
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() >= time {
            return;
        }
    }
}
