// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul pace methods`: the pacing methods that this machine supports, and the best of them.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
};
use ::kernel::pace::{MethodSupport, PacingMethods};
use ::wan::pacing_gateway;

const EXAMPLES: &str = "\
Examples:
  longhaul pace methods
  longhaul pace methods eth0 --json";

/// Show which pacing methods this machine supports, and which is the best.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct MethodsArgs {
    /// Network device for which to check the methods [default: none, only the machine is checked].
    device: Option<String>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &MethodsArgs) -> Result<(), Failure> {
    let look = args.device.as_deref().map(pacing_gateway::inspect).transpose()?;
    let disorder = || look.as_ref().and_then(|look| look.disorder.clone());
    let gateway_lacks = pacing_gateway::lacking().map(|lack| lack.to_string()).or_else(disorder);
    let line = look.as_ref().and_then(|look| look.line);
    let methods = PacingMethods::probe(args.device.as_deref(), line, gateway_lacks);
    if args.json {
        print_json(&methods);
    } else {
        print_text(&text(&methods));
    }
    Ok(())
}

fn text(methods: &PacingMethods) -> String {
    let mut text = String::new();
    for MethodSupport { name, what, can, lacks } in &methods.methods {
        let (can, why) = (if *can { "yes" } else { "no" }, lacks.as_deref().unwrap_or(what));
        text += &format!("{name:<16} {can:<4} {why}\n");
    }
    text += &format!("best here: {}\n", methods.best);
    match (&methods.device, methods.line_bps) {
        (Some(device), Some(bps)) => {
            text += &format!("{device}: line rate {}\n", units::Rate::bits_per_second(bps));
        }
        (Some(device), None) => {
            text += &format!(
                "{device}: the driver reports no link rate. Gap packets need it: --line RATE\n"
            );
        }
        (None, _) => {}
    }
    text
}
