// SPDX-License-Identifier: GPL-2.0-or-later
//! How much of a link its sources could ask for: the congestion level of paper 004 (slides,
//! "Paramètres de charge").
//!
//! Definition 1 is `C_g = N C_a / C`: N sources with access links of rate `C_a` share a link of
//! capacity C. Definition 2 counts a source that is not always on by its part of the time:
//! `C_g = sum (C_a / C) mu_on / (mu_on + mu_off)`. The reverse traffic level R is the same number of
//! the link's other direction.

use crate::{
    routes::{Leg, Routes},
    run::{Burst, Heading, Run, Source},
};
use std::collections::BTreeMap;
use units::{Duration, Rate};

impl Run {
    /// The congestion level of a direction of a link, an index into the run's links: above 1 where
    /// its sources together could send more than it carries.
    ///
    /// A source is a node that a flow or on-off traffic starts from whose data crosses the link in
    /// that direction. Its access rate is that of the first link on its path, and it counts once
    /// however many transfers it has, by the largest of their parts of the time: all of it for a
    /// flow, `on / (on + off)` for on-off traffic, a mean size taken as the time that it needs at
    /// the access rate. Constant-bit-rate traffic and the arrivals of files are background, not
    /// sources.
    ///
    /// `routes` are the run's own. None where the link, or the access of one of its sources, has no
    /// rate.
    pub fn congestion_level(&self, routes: &Routes, link: usize, heading: Heading) -> Option<f64> {
        let capacity = self.links.get(link)?.direction(heading).rate?;
        let crossed = Leg { link, heading };
        // By the leg that a source's data takes first: its access link.
        let mut sources: BTreeMap<(&str, usize), f64> = BTreeMap::new();
        let mut count = |node, legs: &[Leg], part: &dyn Fn(Rate) -> f64| {
            if !legs.contains(&crossed) {
                return Some(());
            }
            let access = self.links[legs[0].link].direction(legs[0].heading).rate?;
            let level = part(access) * access.bps() as f64 / capacity.bps() as f64;
            let most = sources.entry((node, legs[0].link)).or_default();
            *most = most.max(level);
            Some(())
        };
        for flow in &self.flows {
            let hops = flow.hops().filter_map(|hop| routes.legs(hop.from, hop.to));
            count(&flow.from, &hops.flatten().collect::<Vec<_>>(), &|_| 1.0)?;
        }
        for traffic in &self.traffic {
            if let Source::OnOff { on, off } = traffic.source {
                let legs = routes.legs(&traffic.from, &traffic.to).unwrap_or_default();
                count(&traffic.from, &legs, &|access| part_on(on, off, access))?;
            }
        }
        Some(sources.values().sum())
    }
}

fn part_on(on: Burst, off: Duration, access: Rate) -> f64 {
    let on = match on {
        Burst::Time(time) => time.as_secs_f64(),
        Burst::Bytes(bytes) => bytes.get() as f64 * 8.0 / access.bps() as f64,
    };
    on / (on + off.as_secs_f64())
}
