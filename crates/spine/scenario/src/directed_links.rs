// SPDX-License-Identifier: GPL-2.0-or-later
//! A run's links as `netmodel` has them: two directed links each. Every method that
//! moves packets takes them from here, so all lose the same packets of the same seed.

use crate::{Direction, Discipline, Loss, Queue, Run, Thresholds, seeds::fnv_1a};
use netmodel::{
    LinkConfig, LossModel, QueueLimit,
    queue::{codel, fq_codel, pie, red},
};
use units::Bytes;

/// One direction of one link.
#[derive(Debug)]
pub struct DirectedLink<'r> {
    /// The link's name and the direction: `client-depot/forward`.
    pub name: String,
    /// The node that it leads from.
    pub from: &'r str,
    /// The node that it leads to.
    pub to: &'r str,
    /// As the scenario has it.
    pub direction: &'r Direction,
    /// As the network model takes it.
    pub config: LinkConfig,
}

impl Run {
    /// Both directions of all links, forward first, in the order of the file.
    pub fn directed_links(&self) -> impl Iterator<Item = DirectedLink<'_>> {
        self.links.iter().flat_map(|link| {
            let directed_link = |name, direction, from, to| {
                let name = format!("{}/{name}", link.name);
                // A seed of its own, so that none repeats another's losses.
                let config = config(direction, fnv_1a(self.seed, name.bytes()));
                DirectedLink { name, from, to, direction, config }
            };
            [
                directed_link("forward", &link.forward, link.a.as_str(), link.b.as_str()),
                directed_link("backward", &link.backward, &link.b, &link.a),
            ]
        })
    }
}

fn config(direction: &Direction, seed: u64) -> LinkConfig {
    LinkConfig {
        rate: match &direction.rate_over_time {
            Some(changing) => Some(changing.model()),
            None => direction.rate.map(Into::into),
        },
        delay: direction.delay,
        queue: direction.queue.map_or(QueueLimit::Unlimited, limit),
        discipline: discipline(direction),
        loss: direction.loss.model(),
        impairments: direction.impairments.model(),
        mtu: Bytes::new(direction.mtu.into()),
        overhead: Bytes::new(direction.overhead.into()),
        monitor: direction.monitor,
        spacing: direction.spacing,
        seed,
    }
}

fn limit(queue: Queue) -> QueueLimit {
    match queue {
        Queue::Packets(packets) => QueueLimit::Packets(packets),
        Queue::Bytes(bytes) => QueueLimit::Bytes(bytes),
    }
}

fn discipline(direction: &Direction) -> netmodel::Discipline {
    match direction.discipline {
        Discipline::Taildrop => netmodel::Discipline::TailDrop { mark: direction.mark.map(limit) },
        Discipline::Red { thresholds, probability, weight, avpkt, gentle, ecn } => {
            let thresholds = match thresholds {
                Thresholds::Packets { min, max } => red::Thresholds::Packets { min, max },
                Thresholds::Bytes { min, max } => red::Thresholds::Bytes { min, max },
            };
            let params = red::Params { thresholds, probability, weight, avpkt, gentle, ecn };
            netmodel::Discipline::Red(params)
        }
        Discipline::Pie { target, tupdate, alpha, beta, burst, ecn, ecn_limit } => {
            let params = pie::Params { target, tupdate, alpha, beta, burst, ecn, ecn_limit };
            netmodel::Discipline::Pie(params)
        }
        Discipline::Codel { target, interval, ecn } => {
            netmodel::Discipline::Codel(codel::Params { target, interval, ecn })
        }
        Discipline::FqCodel { target, interval, flows, quantum, ecn } => {
            let codel = codel::Params { target, interval, ecn };
            netmodel::Discipline::FqCodel(fq_codel::Params { codel, flows, quantum })
        }
    }
}

impl Loss {
    /// As links know it.
    pub fn model(&self) -> LossModel {
        match *self {
            Self::None => LossModel::None,
            Self::Uniform { probability } => LossModel::Uniform(probability),
            Self::Periodic { every } => LossModel::Periodic(every),
            Self::GilbertElliott { p, r, loss_bad, loss_good } => {
                LossModel::GilbertElliott { p, r, loss_bad, loss_good }
            }
        }
    }
}
