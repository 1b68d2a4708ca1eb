// SPDX-License-Identifier: GPL-2.0-or-later
//! Limits that no change of this host lifts.

/// A limit that no change of this host lifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The rate of this host's own link.
    LineRate,
    /// The send buffer that a program has set.
    ProgramSendBuffer,
    /// The receive buffer that a program has set.
    ProgramReceiveBuffer,
    /// The peer's window.
    PeerWindow,
    /// Losses of the path.
    Loss,
    /// A link, shaper or policer of the path.
    Rate,
    /// Losses of the path to the peer.
    SentLoss,
    /// A link, shaper or policer of the path to the peer.
    SentRate,
    /// Options that a middlebox or the peer removes.
    Options,
    /// The rate of acknowledgements, in the other direction.
    Acknowledgements,
    /// The size of packets.
    PacketSize,
}
