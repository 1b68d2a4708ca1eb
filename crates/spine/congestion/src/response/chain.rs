// SPDX-License-Identifier: GPL-2.0-or-later
//! A transfer over a chain of connections: Augusto et al. 2008 (paper 000), section 3.

use units::{Bytes, Duration, Probability};

/// Equation 2 (Mathis et al. 1997): one Reno connection carries `s sqrt(3/2) / (r sqrt(p))`, with
/// the payload `s` of a segment, the round trip `r` and the loss probability `p`. In bits a second.
pub fn mathis_bps(payload: Bytes, rtt: Duration, loss: Probability) -> f64 {
    goodput_bps(super::reno(loss), payload, rtt)
}

/// Goodput in bit/s of a connection with `window` segments of `payload` in flight.
pub fn goodput_bps(window: f64, payload: Bytes, rtt: Duration) -> f64 {
    window * payload.get() as f64 * 8.0 / rtt.as_secs_f64()
}

/// Equations 1 and 3: a chain carries what the worst of its connections carries. Infinite for none.
pub fn chain_bps(connections: impl IntoIterator<Item = f64>) -> f64 {
    connections.into_iter().fold(f64::INFINITY, f64::min)
}

/// Equation 4: what links in series lose, `1 - prod(1 - p_i)`.
pub fn in_series(links: impl IntoIterator<Item = Probability>) -> Probability {
    links.into_iter().fold(Probability::ZERO, Probability::or)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_three_gains_three_and_the_root_of_three() {
        let (payload, loss) = (Bytes::new(1448), Probability::new(0.001).unwrap());
        let direct = mathis_bps(payload, Duration::from_millis(90), loss);
        // By hand: 1448 x 8 x sqrt(1.5 / 0.001) / 0.09.
        assert!((direct / 4_984_963.0 - 1.0).abs() < 1e-4, "{direct}");
        let third = loss.spread_over(3);
        let hop = mathis_bps(payload, Duration::from_millis(30), third);
        assert!((chain_bps([hop, hop, hop]) / direct - 5.196).abs() < 0.004);
        assert!((in_series([third; 3]).get() - 0.001).abs() < 1e-15);
        assert!((chain_bps([hop, direct]) / direct - 1.0).abs() < 1e-12);
    }
}
