// SPDX-License-Identifier: GPL-2.0-or-later
//! A congestion control that is changed on a connection at work: no state of one is taken for
//! another's, and every hook of the new one works in whatever phase it finds the connection.

use crate::common::{Pair, in_own_network, loaded};
use congestion::Algorithm;
use longhaul_kernel::cc::Options;
use testkit::with_kernel_names;

#[test]
fn every_algorithm_takes_over_from_every_other_under_loss() {
    let _turn = with_kernel_names();
    let held: Vec<_> =
        Algorithm::all().iter().map(|a| loaded(a.name, &Options::default())).collect();
    in_own_network(|| {
        let pair = Pair::connect("reno");
        pair.transfer(1_000_000);
        pair.drop_share(2_000);
        for first in &held {
            for second in &held {
                for held in [first, second] {
                    pair.choose(held.name());
                    pair.transfer(300_000);
                    assert_eq!(pair.congestion_control(), held.name());
                }
            }
        }
    });
}
