// SPDX-License-Identifier: GPL-2.0-or-later
//! A run's links as `netmodel` has them: two directed links each. Every method that
//! moves packets takes them from here, so all lose the same packets of the same seed.

use crate::{
    Action, Direction, Discipline, Heading, Link, Loss, Queue, Run, Thresholds, seeds::fnv_1a,
};
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
            let directed_link = |name, heading, from, to| {
                let name = format!("{}/{name}", link.name);
                let direction = link.direction(heading);
                // A seed of its own, so that none repeats another's losses.
                let mut config = config(direction, fnv_1a(self.seed, name.bytes()));
                if direction.discipline == Discipline::Taildrop && self.changes_rate(link, heading)
                {
                    config.discipline = netmodel::Discipline::TailDropAtDeparture;
                }
                DirectedLink { name, from, to, direction, config }
            };
            [
                directed_link("forward", Heading::Forward, link.a.as_str(), link.b.as_str()),
                directed_link("backward", Heading::Backward, &link.b, &link.a),
            ]
        })
    }

    /// Whether an event changes the rate of a direction of a link.
    fn changes_rate(&self, link: &Link, heading: Heading) -> bool {
        self.events.iter().any(|event| match &event.action {
            Action::Change(change) => {
                change.link == link.name && change.rate.is_some() && change.changes(heading)
            }
            _ => false,
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
