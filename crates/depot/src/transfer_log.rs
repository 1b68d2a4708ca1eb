// SPDX-License-Identifier: GPL-2.0-or-later
//! One line for each request: who asked for what, and how it ended.

use crate::{relay::End, tune::InForce};
use http::StatusCode;
use session::message::{Fault, Framing};
use std::{net::SocketAddr, time::Instant};
use tokio::net::TcpStream;

/// What is known of a request so far. Its line is written when it ends, and also when it is
/// dropped because the depot stops.
#[derive(Debug)]
pub(crate) struct Entry {
    client: SocketAddr,
    start: Instant,
    /// What was asked for, as on the request line.
    pub target: String,
    /// The next hop.
    pub upstream: String,
    /// The status sent to the client, once there is one.
    pub status: u16,
    /// Bytes of body handed to the client's connection.
    pub bytes: u64,
    /// How long the body should be.
    pub framing: Framing,
    written: bool,
}

impl Entry {
    pub(crate) fn new(client: SocketAddr) -> Self {
        Self {
            client,
            start: Instant::now(),
            target: "-".to_owned(),
            upstream: "-".to_owned(),
            status: 0,
            bytes: 0,
            framing: Framing::Empty,
            written: false,
        }
    }

    /// The client was led on.
    pub(crate) fn led(mut self, to: &str) {
        self.written = true;
        tracing::info!(client = %self.client, target = self.target, to, status = 302, "led on");
    }

    /// The request was refused, or could not be passed on.
    pub(crate) fn refused(mut self, fault: &Fault) {
        self.written = true;
        /// The line is the same at both levels; the level is part of a macro's name.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    client = %self.client,
                    upstream = self.upstream,
                    target = self.target,
                    status = fault.status.as_u16(),
                    error = fault.error.token(),
                    seconds = self.seconds(),
                    "refused: {fault}"
                )
            };
        }
        // What browsers ask for unasked is nobody's mistake.
        if fault.status == StatusCode::NOT_FOUND { line!(debug) } else { line!(warn) }
    }

    /// The client went away before it was answered.
    pub(crate) fn abandoned(mut self, reason: &dyn std::fmt::Display) {
        self.written = true;
        tracing::warn!(
            client = %self.client,
            upstream = self.upstream,
            target = self.target,
            seconds = self.seconds(),
            "client gone: {reason}"
        );
    }

    /// The answer was passed on, as far as `end` says.
    pub(crate) fn relayed(
        mut self,
        end: &End,
        mode: &str,
        client: &TcpStream,
        upstream: &TcpStream,
    ) {
        self.written = true;
        let (c, u) = (InForce::read(client), InForce::read(upstream));
        let outcome = self.outcome(end);
        /// The line is the same at both levels; the level is part of a macro's name.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    client = %self.client,
                    upstream = self.upstream,
                    target = self.target,
                    status = self.status,
                    bytes = self.bytes,
                    seconds = self.seconds(),
                    relay = mode,
                    client_cc = c.congestion,
                    client_rtt_us = c.rtt_us,
                    client_retransmits = c.retransmits,
                    client_sndbuf_bytes = c.sndbuf_bytes,
                    upstream_cc = u.congestion,
                    upstream_rtt_us = u.rtt_us,
                    upstream_retransmits = u.retransmits,
                    upstream_rcvbuf_bytes = u.rcvbuf_bytes,
                    "{outcome}"
                )
            };
        }
        if matches!(end, End::Complete) { line!(info) } else { line!(warn) }
    }

    /// How it ended, in words.
    fn outcome(&self, end: &End) -> String {
        let so_far = match self.framing {
            Framing::Length(length) => format!("at {} of {length} bytes", self.bytes),
            _ => format!("after {} bytes", self.bytes),
        };
        match end {
            End::Complete => match self.framing {
                Framing::Empty | Framing::Length(_) => "complete".to_owned(),
                // Whether that was all of it, only the client sees.
                Framing::Chunked | Framing::UntilClose => "ended".to_owned(),
            },
            End::ClientGone(error) => format!("client gone {so_far}: {error}"),
            End::ClientStalled => format!("client stalled {so_far}"),
            End::UpstreamCutOff => format!("upstream cut off {so_far}"),
            End::UpstreamFailed(error) => format!("upstream failed {so_far}: {error}"),
            End::UpstreamStalled => format!("upstream stalled {so_far}"),
        }
    }

    /// Seconds since the client was accepted, in milliseconds' precision.
    fn seconds(&self) -> f64 {
        self.start.elapsed().as_millis() as f64 / 1e3
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // A client that never asked anything is no request.
        if !self.written && self.target != "-" {
            tracing::warn!(
                client = %self.client,
                upstream = self.upstream,
                target = self.target,
                status = self.status,
                bytes = self.bytes,
                seconds = self.seconds(),
                "cut off: the depot stops"
            );
        }
    }
}
