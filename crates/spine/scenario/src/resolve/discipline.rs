// SPDX-License-Identifier: GPL-2.0-or-later
//! Queue disciplines: RED's thresholds sized, and what can't go together refused.

use super::length::length;
use crate::{
    diagnostics::{Location, Problems},
    fields::Located,
    network::{DirectionSpec, DisciplineSpec, LinkSpec, QueueSize, RedSpec},
    run::{Direction, Discipline, Queue, Thresholds},
};
use units::{Bytes, Duration};

/// The upper threshold's part of the queue's limit: tc-red(8) has the limit at "a few times" the threshold.
const LIMIT_OF_MAX: u64 = 4;
/// The lower threshold's part of the upper one (S. Floyd, "RED: Discussions of Setting Parameters", 1997).
const MAX_OF_MIN: u64 = 3;
/// Minimum of the upper threshold in full packets, so that the lower one is at least five (ibid.).
const LEAST_MAX: u64 = 15;

/// What of a link's disciplines does not go together.
pub(super) fn check(spec: &LinkSpec, problems: &Problems) {
    let directions = [&spec.forward, &spec.backward];
    let report = |location: &Location, message: String| {
        problems.report(location, format!("link \"{}\", {message}", spec.name.as_str()));
    };
    for direction in directions {
        let discipline = &direction.discipline;
        if !discipline.value.is_taildrop() && directions.iter().all(|d| d.rate.is_none()) {
            report(&discipline.location, "discipline: without a rate there is no queue".to_owned());
        }
        if !discipline.value.is_taildrop()
            && let Some(mark) = &direction.mark
        {
            let message = "mark: is of taildrop alone; other disciplines mark with ecn = true";
            report(&mark.location, message.to_owned());
        }
    }
}

/// The discipline of a direction whose queue is sized. A direction without a rate has no queue.
pub(super) fn of_direction(
    name: &str,
    direction: &Direction,
    spec: &DirectionSpec,
    longest: Duration,
    problems: &Problems,
) -> Discipline {
    let (Some(limit), Some(_)) = (direction.queue, spec.rate) else { return Discipline::Taildrop };
    match &spec.discipline.value {
        DisciplineSpec::Known(discipline) => *discipline,
        DisciplineSpec::Red(red) => {
            let thresholds = thresholds(red, limit, spec, longest);
            let thresholds = thresholds.unwrap_or_else(|message| {
                let location = &spec.discipline.location;
                problems.report(location, format!("link \"{name}\", discipline: {message}"));
                Thresholds::Packets { min: 0, max: 1 }
            });
            let RedSpec { probability, weight, avpkt, gentle, ecn, .. } = *red;
            Discipline::Red { thresholds, probability, weight, avpkt, gentle, ecn }
        }
    }
}

fn thresholds(
    red: &RedSpec,
    limit: Queue,
    spec: &DirectionSpec,
    longest: Duration,
) -> Result<Thresholds, String> {
    let sized = |size: &Option<Located<QueueSize>>| {
        size.as_ref().and_then(|size| length(size.value, 1, spec, longest))
    };
    let (min, max) = (sized(&red.min), sized(&red.max));
    let in_packets = matches!(max.or(min).unwrap_or(limit), Queue::Packets(_));
    let number = |queue: Queue| match queue {
        Queue::Packets(packets) => (in_packets, packets),
        Queue::Bytes(bytes) => (!in_packets, bytes.get()),
    };
    let full = u64::from(spec.mtu.value) + u64::from(spec.overhead);
    let (min, max) = match (min.map(number), max.map(number)) {
        (Some((false, _)), _) => {
            return Err("min and max are both given in packets, or both in bytes".to_owned());
        }
        (Some((_, min)), Some((_, max))) => (min, max),
        (Some((_, min)), None) => (min, min.saturating_mul(MAX_OF_MIN)),
        (None, Some((_, max))) => (max / MAX_OF_MIN, max),
        (None, None) => {
            let (_, limit) = number(limit);
            let least = LEAST_MAX * if in_packets { 1 } else { full };
            let max = (limit / LIMIT_OF_MAX).max(least).min(limit);
            (max / MAX_OF_MIN, max)
        }
    };
    if min >= max {
        return Err(format!("min is not below max ({min} and {max})"));
    }
    let (has_same_unit, limit) = number(limit);
    // Full packets: of shorter ones a limit in bytes holds more than the thresholds need.
    let fits = match (has_same_unit, in_packets) {
        (true, _) => max <= limit,
        (false, true) => max.saturating_mul(full) <= limit,
        (false, false) => max <= limit.saturating_mul(full),
    };
    if !fits {
        let [of_max, of_limit] = [in_packets, has_same_unit == in_packets]
            .map(|packets| if packets { "packets" } else { "bytes" });
        return Err(format!(
            "max ({max} {of_max}) is beyond the queue's limit ({limit} {of_limit})"
        ));
    }
    Ok(if in_packets {
        Thresholds::Packets { min, max }
    } else {
        Thresholds::Bytes { min: Bytes::new(min), max: Bytes::new(max) }
    })
}
