// SPDX-License-Identifier: GPL-2.0-or-later
//! A measured path: what a download over one connection shows of it.
//!
//! ```text
//! request     which server, which document
//! connection  to the server, over TLS if it is asked for
//! download    a GET with this host's own settings, sampled until it ends or a bound is met
//! upload      a PUT, cut off
//! bursts      short downloads until their first loss: whether a shallow buffer loses bursts
//! shape       from samples to limits: losses, a rate, the peer's window
//! ```
//! Bounds: 10 s and 1 GB for a download, 16 KiB for the header section, 8 connections in all.

mod bursts;
mod connection;
mod download;
mod request;
mod shape;
mod upload;

pub use self::{
    bursts::Burst,
    connection::{NoTls, PathError, Secure, Stream, round_trip_us},
    download::Prober,
    request::{Request, RequestError},
    shape::{Sample, Shape},
    upload::{Sent, upload},
};

use crate::outside_limit::Limit;
use serde::Serialize;

/// How a download ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The server had no more.
    #[default]
    Whole,
    /// A bound was met.
    Bound,
    /// Nothing came for three seconds.
    Stalled,
}

/// A path to a server, in the direction from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each option is in force or not")]
pub struct Path {
    /// The server's address.
    pub peer: String,
    /// The round trip of the handshake.
    pub handshake_rtt_us: u32,
    /// Whether both ends agreed on windows beyond 65535 bytes.
    pub window_scaling: bool,
    /// Whether they agreed on selective acknowledgements.
    pub sack: bool,
    /// Whether they agreed on timestamps.
    pub timestamps: bool,
    /// Payload of the longest segments that came.
    pub receive_mss: u32,
    /// Segments with data that came.
    pub segments: u32,
    /// How it ended.
    pub end: End,
    /// Whether a second connection with segments of 536 bytes got through where the first one stalled.
    pub small_segments_pass: Option<bool>,
    /// Where bursts of the server are lost at a shallow buffer.
    pub burst: Option<Burst>,
    /// This host's own settings at that time: whether it offers window scaling, selective acknowledgements, timestamps.
    pub offered: [bool; 3],
    /// The mean rate over the whole download.
    pub mean_bps: Option<u64>,
    /// What the samples show.
    pub shape: Shape,
    /// The share of segments at which losses begin, as the model takes it; none if too little was received.
    pub loss: Option<f64>,
    /// What the path lets through, if that was seen.
    pub rate_bps: Option<u64>,
    /// What the peer had under way at most, if that was its limit.
    pub peer_window_bytes: Option<u64>,
    /// Whether windows were held to 65535 bytes against this host's setting.
    pub is_unscaled: bool,
    /// The largest packet that came, if it is smaller than this host's device takes.
    pub packet_bytes: Option<u32>,
}

impl Path {
    /// The path without a limit.
    pub fn lift(&mut self, limit: Limit) {
        match limit {
            Limit::PeerWindow => self.peer_window_bytes = None,
            Limit::Loss => (self.loss, self.burst) = (None, None),
            Limit::Rate => {
                self.rate_bps = None;
                self.loss = None;
            }
            Limit::Options => self.is_unscaled = false,
            Limit::PacketSize => self.packet_bytes = None,
            Limit::LineRate
            | Limit::SentLoss
            | Limit::SentRate
            | Limit::Acknowledgements
            | Limit::ProgramSendBuffer
            | Limit::ProgramReceiveBuffer => {}
        }
    }
}
