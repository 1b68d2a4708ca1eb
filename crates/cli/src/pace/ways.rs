// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul pace ways`: which ways of pacing this machine can do, and the best of them.

use crate::{
    failure::Failure,
    results::{print_json, print_text},
};
use ::kernel::pace::{Way as Kept, lacking};
use ::wan::gateway::{self, Look};
use serde::Serialize;

/// Tell which ways of pacing this machine can do, and the best of them.
#[derive(Debug, clap::Args)]
pub struct WaysArgs {
    /// A device, to tell what speaks against them on it.
    device: Option<String>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    device: Option<String>,
    /// Of the device; null where that is not known.
    line_bps: Option<u64>,
    /// Better ones first.
    ways: Vec<Way>,
    best: &'static str,
}

#[derive(Debug, Serialize)]
struct Way {
    name: &'static str,
    what: &'static str,
    can: bool,
    /// Why not.
    lacks: Option<String>,
}

impl Way {
    fn new(name: &'static str, what: &'static str, lacks: Option<String>) -> Self {
        Self { name, what, can: lacks.is_none(), lacks }
    }
}

pub fn run(args: &WaysArgs) -> Result<(), Failure> {
    let look = args.device.as_deref().map(gateway::look).transpose()?;
    let document = document(args.device.clone(), look.as_ref());
    if args.json {
        print_json(&document);
    } else {
        print_text(&text(&document));
    }
    Ok(())
}

fn document(device: Option<String>, look: Option<&Look>) -> Document {
    let disorder = || look.and_then(|look| look.disorder.clone());
    let lacks = |way| lacking(way, device.as_deref()).map(|error| error.to_string());
    let ways = vec![
        Way::new(
            "gap-frames",
            "a program in the kernel sends PAUSE frames behind packets: the wire's clock",
            lacks(Kept::Gap),
        ),
        Way::new(
            "departure-times",
            "fq lets each packet leave at its time (pace add --by edt): the kernel's timers, no gap frames",
            lacks(Kept::EDT),
        ),
        Way::new(
            "gateway",
            "a process sends packets and PAUSE frames (pace gateway): the wire's clock, more work",
            gateway::lacking().or_else(disorder),
        ),
        Way::new("tcp", "TCP's own pacing: each connection by itself, the kernel's timers", None),
    ];
    let best = ways.iter().find(|way| way.can).map_or("tcp", |way| way.name);
    let line_bps = look.and_then(|look| look.line).map(units::Rate::bps);
    Document { device, line_bps, ways, best }
}

fn text(document: &Document) -> String {
    let mut text = String::new();
    for Way { name, what, can, lacks } in &document.ways {
        let (can, why) = (if *can { "yes" } else { "no" }, lacks.as_deref().unwrap_or(what));
        text += &format!("{name:<16} {can:<4} {why}\n");
    }
    text += &format!("best here: {}\n", document.best);
    match (&document.device, document.line_bps) {
        (Some(device), Some(bps)) => {
            text += &format!("{device}: line rate {}\n", units::Rate::bits_per_second(bps));
        }
        (Some(device), None) => {
            text += &format!("{device} does not tell its line rate: gap frames need it given\n");
        }
        (None, _) => {}
    }
    text
}
