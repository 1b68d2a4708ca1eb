// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run asks for that no closed form has, for any flow: it is refused before a record is made.

use experiment::Obstacle;
use scenario::{Direction, Heading, Run};

const REMEDY: &str = "Use --method sim, or leave it out";

/// Each thing with its cause and remedy.
pub fn of(run: &Run) -> Vec<Obstacle> {
    let traffic = run.traffic.iter().map(|traffic| {
        obstacle("traffic ", &traffic.name, "no closed form knows of other traffic")
    });
    let links = run.links.iter().flat_map(|link| {
        [(Heading::Forward, "forward"), (Heading::Backward, "backward")].into_iter().flat_map(
            move |(heading, way)| {
                let causes = causes(link.direction(heading));
                causes
                    .into_iter()
                    .map(move |cause| obstacle("link ", &format!("{}/{way}", link.name), cause))
            },
        )
    });
    let settings = run.nodes.iter().flat_map(|node| node.sysctl.keys().map(move |key| (node, key)));
    let unknown = settings.filter(|(_, key)| !KNOWN_SETTINGS.contains(&key.as_str()));
    let settings = unknown.map(|(node, key)| {
        let subject = format!("{}: {key}", node.name);
        obstacle("node ", &subject, "no closed form knows of this kernel setting")
    });
    traffic.chain(links).chain(settings).collect()
}

/// Settings that change nothing for what is predicted here.
const KNOWN_SETTINGS: [&str; 2] =
    ["net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_slow_start_after_idle"];

fn obstacle(before: &'static str, subject: &str, cause: &str) -> Obstacle {
    Obstacle { before, subject: subject.to_owned(), after: format!(": {cause}. {REMEDY}") }
}

fn causes(direction: &Direction) -> Vec<&'static str> {
    let impairments = &direction.impairments;
    let found = [
        (direction.rate_over_time.is_some(), "its rate changes, and closed forms are for one rate"),
        (impairments.policer.is_some(), "no closed form knows of a policer"),
        (impairments.reorder.is_some(), "no closed form knows of late packets"),
        (impairments.jitter.is_some(), "no closed form knows of jitter"),
        (impairments.duplicate.get() > 0.0, "no closed form knows of copies"),
        (!impairments.outages.is_empty(), "no closed form knows of outages"),
    ];
    found.into_iter().filter(|(is, _)| *is).map(|(_, cause)| cause).collect()
}
