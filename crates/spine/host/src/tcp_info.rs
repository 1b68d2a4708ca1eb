// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel knows of a TCP connection: `struct tcp_info` of linux/tcp.h, of a socket of this process
//! (`TCP_INFO`) or of any in the kernel's list (`sock_diag`).

use crate::sys;
use libc::tcp_info as Kernel;
use limits::{ReceiverSample, SenderSample};
use std::{io, mem::offset_of, os::fd::AsFd, time::Duration};
use units::{Bytes, Rate};

/// What TCP knows of a connection. What it has not measured yet, or this kernel does not tell, is
/// `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpInfo {
    /// The smoothed round trip, in microseconds.
    pub rtt_us: u32,
    /// The shortest round trip seen lately, in microseconds.
    pub min_rtt_us: Option<u32>,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// What may be under way to the peer at once: the congestion window.
    pub cwnd: Bytes,
    /// The congestion window in segments.
    pub cwnd_segments: u32,
    /// The slow-start threshold in segments; none before it was set.
    pub ssthresh_segments: Option<u32>,
    /// How fast the peer was last seen to take bytes.
    pub delivery_rate: Option<Rate>,
    /// The rate at which TCP paces; none while nothing paces.
    pub pacing_rate: Option<Rate>,
    /// How what is sent is spaced.
    pub spacing: SocketPacing,
    /// How long ago the peer last acknowledged anything, while bytes are being sent again; else 0.
    pub unanswered: Duration,
    /// Retransmission timeouts since the peer last acknowledged anything.
    pub timeouts: u8,
    /// Bytes in the send buffer that have not been sent yet.
    pub unsent: Bytes,
    /// Bytes sent since the connection began, and sent again.
    pub sent: Bytes,
    /// Of those, bytes sent again.
    pub resent: Bytes,
    /// Bytes that the peer has acknowledged since the connection began.
    pub acked: Bytes,
    /// Bytes in the segments that have reached the peer since the connection began, by the sender's
    /// segment size now.
    pub delivered: Bytes,
    /// Bytes that have come since the connection began, in order.
    pub received: Bytes,
    /// Segments that have come out of order: some were lost, or overtaken, before them.
    pub out_of_order_segments: u32,
    /// Segments under way that are neither acknowledged nor known to be lost.
    pub in_flight_segments: u32,
    /// Whether losses are being repaired, after a timeout or before one.
    pub recovers: bool,
    /// For how long there was something unacknowledged since the connection began.
    pub busy: Duration,
    /// For how much of that the peer had no room.
    pub rwnd_limited: Duration,
    /// For how much of that sending has waited for room in the send buffer.
    pub sndbuf_limited: Duration,
    /// The most bytes that have been read within a round trip (Linux's receive buffer tuning); before that was
    /// measured, the initial window.
    pub received_per_rtt: Bytes,
    /// How long TCP waits for an acknowledgement before it sends again.
    pub retransmission_timeout: Duration,
    /// The window that the peer is offered while all that comes is read at once.
    pub window: Bytes,
    /// What both ends agreed on at the start of the connection.
    pub options: TcpOptions,
    /// The round trip as the receiving side sees it: for how long a window's bytes take to come. None before it was
    /// measured.
    pub receive_rtt_us: Option<u32>,
    /// Segments that came in another order than they were sent, behind losses too (Linux 5.4).
    pub out_of_order: u32,
    /// Segments with data that have come.
    pub data_segments_in: u32,
    /// The longest segment that came lately, in bytes of payload.
    pub receive_mss: u32,
    /// The longest packet that the path takes, as far as this host knows.
    pub path_mtu: u32,
    /// By how many bits the receive window is shifted: 65535 bytes so shifted are the largest window
    /// that the peer can be offered.
    pub rcv_wscale: u8,
}

/// Options of TCP that are in force only if both ends offered them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the kernel's")]
pub struct TcpOptions {
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Windows beyond 65535 bytes (RFC 7323).
    pub window_scaling: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
}

impl TcpOptions {
    /// `TCPI_OPT_…` of linux/tcp.h.
    fn of_kernel(bits: u8) -> Self {
        Self {
            timestamps: bits & 1 != 0,
            sack: bits & 2 != 0,
            window_scaling: bits & 4 != 0,
            ecn: bits & 8 != 0,
        }
    }
}

/// How TCP spaces what a socket sends (`SO_MAX_PACING_RATE`).
///
/// A rate switches pacing on, and nothing off again: a socket that was paced once is paced by TCP to its end,
/// at least as [`Own`](Self::Own).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SocketPacing {
    /// Not, unless its congestion control wants it.
    #[default]
    Free,
    /// At the rate that TCP makes of window and round trip: twice cwnd / RTT in slow start, then 1.2 times.
    Own,
    /// The same, but at most at this rate.
    AtMost(Rate),
}

impl SocketPacing {
    /// All ones are the kernel's word for no limit. One less is a limit too, though none that is ever met.
    const FREE: u64 = u64::MAX;
    const OWN: u64 = u64::MAX - 1;

    /// As the kernel has it, in bytes a second.
    pub fn to_kernel(self) -> u64 {
        match self {
            Self::Free => Self::FREE,
            Self::Own => Self::OWN,
            Self::AtMost(rate) => (rate.bps() / 8).max(1),
        }
    }

    /// What the kernel's figure means; 0 is that of a kernel which does not tell.
    fn of_kernel(bytes_per_s: u64) -> Self {
        match bytes_per_s {
            0 | Self::FREE => Self::Free,
            Self::OWN => Self::Own,
            _ => Self::AtMost(bytes_per_second(bytes_per_s)),
        }
    }

    /// The rate that is sent at most at.
    pub fn rate(self) -> Option<Rate> {
        if let Self::AtMost(rate) = self { Some(rate) } else { None }
    }
}

/// What a connection has carried, without what TCP itself counts as bytes: its begin and its ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes that were sent, however often. The last ones before a reset need not have reached the peer.
    pub sent: Bytes,
    /// Bytes that have come, in order.
    pub received: Bytes,
}

/// Asks for a socket's `TCP_INFO`.
///
/// # Errors
/// It is no TCP socket.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0; size_of::<Kernel>()];
    sys::tcp_info(socket.as_fd(), &mut bytes)?;
    Ok(TcpInfo::of_kernel(&bytes))
}

/// Which buffers of a socket a program has given a size, so that the kernel does not tune them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetBuffers {
    /// `SO_RCVBUF`.
    pub receive: bool,
    /// `SO_SNDBUF`.
    pub send: bool,
}

/// Asks which buffers of a socket a program has set.
///
/// # Errors
/// It is no socket, or the kernel does not tell (before Linux 5.14).
pub fn set_buffers(socket: impl AsFd) -> io::Result<SetBuffers> {
    let (receive, send) = sys::set_buffers(socket.as_fd())?;
    Ok(SetBuffers { receive, send })
}

/// Whether a TCP socket has neither a connection nor is about to have one, and does not listen.
///
/// # Errors
/// It is no TCP socket.
pub fn is_unconnected(socket: impl AsFd) -> io::Result<bool> {
    /// `TCP_CLOSE` of `linux/tcp_states.h`.
    const CLOSED: u8 = 7;
    let mut bytes = [0; size_of::<Kernel>()];
    sys::tcp_info(socket.as_fd(), &mut bytes)?;
    Ok(bytes[offset_of!(Kernel, tcpi_state)] == CLOSED)
}

impl TcpInfo {
    /// What the connection has carried, if its own end was not a reset, which clears the kernel's counters.
    /// `peer_ended` says whether the end of what the peer sends has come, which counts as a byte.
    pub(crate) fn carried(&self, peer_ended: bool) -> Option<Carried> {
        // Without an acknowledgement there was no connection.
        self.acked.get().checked_sub(1)?;
        let received = self.received.get().saturating_sub(peer_ended.into());
        Some(Carried { sent: Bytes::new(self.payload_sent()), received: Bytes::new(received) })
    }

    /// Whether the peer has acknowledged the end of what this side sends.
    pub(crate) fn own_end_acked(&self) -> bool {
        self.acked.get() > self.payload_sent() + 1
    }

    /// The connection as a sender, at a moment that is counted from any fixed one. `waits_for_room`: whether the application
    /// waits until the send buffer takes more.
    pub fn sender(&self, at: Duration, waits_for_room: bool) -> SenderSample {
        SenderSample {
            at,
            busy: self.busy,
            rwnd_limited: self.rwnd_limited,
            sndbuf_limited: self.sndbuf_limited,
            in_flight_segments: self.in_flight_segments,
            cwnd_segments: self.cwnd_segments,
            ssthresh_segments: self.ssthresh_segments,
            unsent_bytes: self.unsent.get(),
            segment_bytes: self.cwnd.get().checked_div(self.cwnd_segments.into()).unwrap_or(0),
            recovers: self.recovers,
            waits_for_room,
        }
    }

    /// The connection as a receiver, likewise.
    pub fn receiver(&self, at: Duration) -> ReceiverSample {
        ReceiverSample {
            at,
            received_bytes: self.received.get(),
            out_of_order_segments: self.out_of_order_segments,
            rtt: Duration::from_micros(self.min_rtt_us.unwrap_or(self.rtt_us).into()),
            window_bytes: self.window.get(),
        }
    }

    fn payload_sent(&self) -> u64 {
        self.sent.get().saturating_sub(self.resent.get())
    }

    /// Reads `struct tcp_info`. An older kernel's is shorter; what it lacks counts as 0.
    pub(crate) fn of_kernel(bytes: &[u8]) -> Self {
        let byte = |at| bytes.get(at).copied().unwrap_or(0);
        let word = |at: usize| u32::from_ne_bytes(field(bytes, at));
        let long = |at: usize| u64::from_ne_bytes(field(bytes, at));
        let cwnd_segments = word(offset_of!(Kernel, tcpi_snd_cwnd));
        let segments = |count: u32| {
            Bytes::new(u64::from(count) * u64::from(word(offset_of!(Kernel, tcpi_snd_mss))))
        };
        // Without bytes under way the last acknowledgement may be old: there was nothing to answer.
        let timeouts = byte(offset_of!(Kernel, tcpi_retransmits));
        let unanswered_ms =
            if timeouts > 0 { word(offset_of!(Kernel, tcpi_last_ack_recv)) } else { 0 };
        Self {
            rtt_us: word(offset_of!(Kernel, tcpi_rtt)),
            // The kernel's filter begins with the largest number.
            min_rtt_us: Some(word(offset_of!(Kernel, tcpi_min_rtt)))
                .filter(|rtt| !matches!(*rtt, 0 | u32::MAX)),
            retransmits: word(offset_of!(Kernel, tcpi_total_retrans)),
            cwnd: segments(cwnd_segments),
            cwnd_segments,
            ssthresh_segments: Some(word(offset_of!(Kernel, tcpi_snd_ssthresh)))
                .filter(|segments| *segments < INFINITE_SSTHRESH),
            // 0 where the kernel knows none.
            delivery_rate: Some(long(offset_of!(Kernel, tcpi_delivery_rate)))
                .filter(|rate| !matches!(*rate, 0 | u64::MAX))
                .map(bytes_per_second),
            pacing_rate: Some(long(offset_of!(Kernel, tcpi_pacing_rate)))
                .filter(|rate| *rate < u64::MAX)
                .map(bytes_per_second),
            spacing: SocketPacing::of_kernel(long(offset_of!(Kernel, tcpi_max_pacing_rate))),
            unanswered: Duration::from_millis(unanswered_ms.into()),
            timeouts,
            unsent: Bytes::new(word(offset_of!(Kernel, tcpi_notsent_bytes)).into()),
            sent: Bytes::new(long(offset_of!(Kernel, tcpi_bytes_sent))),
            resent: Bytes::new(long(offset_of!(Kernel, tcpi_bytes_retrans))),
            acked: Bytes::new(long(offset_of!(Kernel, tcpi_bytes_acked))),
            delivered: segments(word(offset_of!(Kernel, tcpi_delivered))),
            received: Bytes::new(long(offset_of!(Kernel, tcpi_bytes_received))),
            out_of_order_segments: word(offset_of!(Kernel, tcpi_rcv_ooopack)),
            // As the kernel's `tcp_packets_in_flight`.
            in_flight_segments: (word(offset_of!(Kernel, tcpi_unacked))
                + word(offset_of!(Kernel, tcpi_retrans)))
            .saturating_sub(
                word(offset_of!(Kernel, tcpi_sacked)) + word(offset_of!(Kernel, tcpi_lost)),
            ),
            recovers: byte(offset_of!(Kernel, tcpi_ca_state)) >= CA_RECOVERY,
            busy: Duration::from_micros(long(offset_of!(Kernel, tcpi_busy_time))),
            rwnd_limited: Duration::from_micros(long(offset_of!(Kernel, tcpi_rwnd_limited))),
            sndbuf_limited: Duration::from_micros(long(offset_of!(Kernel, tcpi_sndbuf_limited))),
            received_per_rtt: Bytes::new(word(offset_of!(Kernel, tcpi_rcv_space)).into()),
            retransmission_timeout: Duration::from_micros(
                word(offset_of!(Kernel, tcpi_rto)).into(),
            ),
            window: Bytes::new(word(offset_of!(Kernel, tcpi_rcv_ssthresh)).into()),
            options: TcpOptions::of_kernel(byte(offset_of!(Kernel, tcpi_options))),
            receive_rtt_us: Some(word(offset_of!(Kernel, tcpi_rcv_rtt))).filter(|rtt| *rtt > 0),
            out_of_order: word(offset_of!(Kernel, tcpi_rcv_ooopack)),
            data_segments_in: word(offset_of!(Kernel, tcpi_data_segs_in)),
            receive_mss: word(offset_of!(Kernel, tcpi_rcv_mss)),
            path_mtu: word(offset_of!(Kernel, tcpi_pmtu)),
            // Two bit fields of a byte: the lower is that of the sending side.
            rcv_wscale: byte(offset_of!(Kernel, tcpi_snd_rcv_wscale)) >> 4,
        }
    }
}

/// The first of the kernel's states in which losses are repaired (`TCP_CA_Recovery`, `TCP_CA_Loss`).
const CA_RECOVERY: u8 = 3;

/// What the kernel writes for a threshold that was never set (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

fn bytes_per_second(rate: u64) -> Rate {
    Rate::bits_per_second(rate.saturating_mul(8))
}

/// The `N` bytes at an offset; zeros where they are not all there.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk().copied()).unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    #[test]
    fn tcp_info_of_a_connection_counts_what_it_carried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        server.write_all(&[2; 3]).unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
        let info = tcp_info(&client).unwrap();
        // The SYN counts as one.
        assert_eq!((info.acked.get(), info.sent.get(), info.received.get()), (5001, 5000, 3));
        assert!(info.cwnd_segments > 0 && info.cwnd > Bytes::new(0) && info.rtt_us > 0);
        assert_eq!((info.ssthresh_segments, info.retransmits), (None, 0));
        assert_eq!(info.spacing, SocketPacing::Free);
        let setting = |name| crate::sysctl::read(&format!("net.ipv4.{name}")).unwrap() != "0";
        assert_eq!(info.options.sack, setting("tcp_sack"));
        assert_eq!(info.options.window_scaling, setting("tcp_window_scaling"));
        assert_eq!(info.options.timestamps, setting("tcp_timestamps"));
        assert!(info.data_segments_in >= 1 && info.receive_mss > 0 && info.path_mtu > 0);
        assert!(tcp_info(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn short_tcp_info_of_an_old_kernel_is_read_as_far_as_it_goes() {
        let mut bytes = vec![0; offset_of!(Kernel, tcpi_pacing_rate)];
        bytes[offset_of!(Kernel, tcpi_rtt)..][..4].copy_from_slice(&7u32.to_ne_bytes());
        let info = TcpInfo::of_kernel(&bytes);
        assert_eq!((info.rtt_us, info.min_rtt_us, info.delivery_rate), (7, None, None));
        assert_eq!(info.acked, Bytes::new(0));
    }
}
