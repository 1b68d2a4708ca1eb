// SPDX-License-Identifier: GPL-2.0-or-later
//! One flow on the path that all algorithms are compared on: 100 Mb/s with a round trip of 50 ms and a taildrop queue of
//! one bandwidth-delay product, which is what a link of a scenario has by default.

use super::{Bottleneck, Flow, Sample};
use crate::Params;
use units::{Bytes, Duration, Rate, Timestamp};

/// Round trip of the path without its queue.
pub const ROUND_TRIP: Duration = Duration::from_millis(50);
/// How long the flow runs.
pub const LENGTH: Duration = Duration::from_secs(100);
const INTERVAL: Duration = Duration::from_millis(10);

/// The link.
pub fn bottleneck() -> Bottleneck {
    let (rate, packet) = (Rate::bits_per_second(100_000_000), Bytes::new(1500));
    Bottleneck {
        rate,
        packet,
        payload: Bytes::new(1448),
        buffer_packets: (rate.times(ROUND_TRIP).get() / packet.get()) as usize,
    }
}

/// What happens to one flow over a link with that round trip, every 10 ms.
pub fn samples(link: &Bottleneck, params: &Params) -> Vec<Sample> {
    let end = Timestamp::ZERO + LENGTH;
    let flow = Flow {
        params: params.clone(),
        start: Timestamp::ZERO,
        end,
        propagation: ROUND_TRIP,
        known_rtt: None,
    };
    link.run(&[flow], end, INTERVAL)
}
