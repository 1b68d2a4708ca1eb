// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul pace`: paces the packets that leave by a device.

mod gateway;
mod methods;

use crate::{
    failure::Failure,
    print::{print_json, print_text},
};
use ::kernel::pace::{
    self, Frames, Match, Method, Options, PacedDevice, PacingStatus, Rule, Setup, Target,
    estimator_name,
};
use netmodel::pacing::Estimator;
use std::{
    env,
    net::IpAddr,
    num::NonZeroU16,
    process::{self, Stdio},
};
use units::{Bytes, Rate};

const ADD_EXAMPLES: &str = "\
Examples:
  sudo longhaul pace add eth0 --rate 400mbit --match dst 192.0.2.0/24
  sudo longhaul pace add eth0 --auto --by edt --max-rate 2gbit";
const SHOW_EXAMPLES: &str = "\
Examples:
  sudo longhaul pace show
  sudo longhaul pace show eth0 --json";
const DEL_EXAMPLES: &str = "\
Examples:
  sudo longhaul pace del eth0
  sudo longhaul pace del eth0 2";

#[derive(clap::Subcommand)]
pub enum Command {
    /// Add a pacing rule to a device, which stays until it is deleted or the machine restarts. Needs root.
    #[command(after_help = ADD_EXAMPLES)]
    Add(Box<AddArgs>),
    /// Show the pacing rules, targets and counters of this network namespace. Needs root.
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Network device, as `ip link` names it [default: all]
        device: Option<String>,
        /// Print one JSON document instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Delete one pacing rule of a device, or all of them. Needs root.
    #[command(after_help = DEL_EXAMPLES)]
    Del {
        /// Network device, as `ip link` names it.
        device: String,
        /// Number of the rule, as `pace show` prints it [default: all].
        rule: Option<u32>,
        #[arg(long, hide = true)]
        apart: bool,
    },
    Gateway(gateway::GatewayArgs),
    Methods(methods::MethodsArgs),
}

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("target").required(true).args(["rate", "auto"])))]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct AddArgs {
    /// Network device, as `ip link` names it.
    device: String,
    /// Pace all matching packets together to this rate on the link, as in 400mbit.
    #[arg(long)]
    rate: Option<Rate>,
    /// Pace each TCP socket to its congestion window per round trip.
    #[arg(long)]
    auto: bool,
    /// Pacing method: `gap` (gap packets) or `edt` (departure times, by the queueing discipline fq) [default: the
    /// method in use on the device, otherwise edt if the device has fq, otherwise gap]
    #[arg(long, value_enum)]
    by: Option<PacingChoice>,
    /// With --by edt: do not split packets of many segments. Each leaves as one burst, which saves processor time.
    #[arg(long)]
    super_packets: bool,
    /// With --auto: how rates are estimated, `link` (smallest round trip, sizes on the link) or `paper` (smoothed
    /// round trip, sizes without headers).
    #[arg(long, value_enum, default_value = "link", conflicts_with = "rate")]
    estimator: EstimatorChoice,
    /// With --auto: limit estimates to this rate on the link, as in 2gbit.
    #[arg(long, value_name = "RATE", conflicts_with = "rate")]
    max_rate: Option<Rate>,
    /// With --auto: limit estimates to the rate that each socket's path is measured to carry.
    #[arg(long, conflicts_with = "rate")]
    find_cap: bool,
    /// Pace only packets that match `dst PREFIX`, `dport PORT`, `sport PORT`, or several of these [default: all
    /// packets].
    #[arg(long = "match", num_args = 1.., value_names = ["WHAT", "VALUE"])]
    matches: Vec<String>,
    /// Link rate, which --by gap needs [default: the rate that the driver reports]
    #[arg(long, value_name = "RATE")]
    line: Option<Rate>,
    /// Bytes on the link per frame in addition to its length without the check sequence [default: 24]
    #[arg(long, value_name = "BYTES")]
    overhead: Option<u64>,
    /// With --by gap: maximum gap after one packet, as bytes on the link [default: 64KB]
    #[arg(long, value_name = "SIZE")]
    max_gap: Option<Bytes>,
    /// With --by gap: maximum size of a gap frame [default: 4KB, or what the device's MTU allows]
    #[arg(long, value_name = "SIZE")]
    max_frame: Option<Bytes>,
    #[arg(long, hide = true)]
    apart: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum PacingChoice {
    Gap,
    Edt,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum EstimatorChoice {
    Link,
    Paper,
}

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Add(args) => add(*args),
        Command::Show { device, json } => show(device.as_deref(), json),
        Command::Del { device, rule, apart } => {
            in_separate_session(apart)?;
            Ok(pace::delete(&device, rule)?)
        }
        Command::Gateway(args) => gateway::run(args),
        Command::Methods(args) => methods::run(&args),
    }
}

/// Runs a change in a child process with its own session, so that ending the command cannot interrupt the
/// change. The parent only waits and exits. Returns in the child.
pub fn in_separate_session(apart: bool) -> Result<(), Failure> {
    if apart {
        let left = rustix::process::setsid();
        return left.map(drop).map_err(|e| Failure::failed(format!("cannot start a session: {e}")));
    }
    let failed = |e| Failure::failed(format!("cannot start this program again: {e}"));
    let child = process::Command::new("/proc/self/exe")
        .args(env::args_os().skip(1))
        .arg("--apart")
        .stdin(Stdio::null())
        .status();
    let status = child.map_err(failed)?;
    // The child has printed all messages.
    process::exit(status.code().unwrap_or(1));
}

fn add(args: AddArgs) -> Result<(), Failure> {
    let matches = parse_matches(&args.matches)?;
    let estimator = match args.estimator {
        EstimatorChoice::Link => Estimator::LINK,
        EstimatorChoice::Paper => Estimator::PAPER,
    };
    let estimator = Estimator { max_rate: args.max_rate, find_cap: args.find_cap, ..estimator };
    let target = args.rate.map_or(Target::Auto(estimator), Target::Rate);
    let frames = Frames {
        line: args.line,
        overhead: args.overhead.map(Bytes::new),
        max_gap: args.max_gap,
        max_frame: args.max_frame,
    };
    let method = match (args.by, args.super_packets) {
        (by, false) => {
            by.map(|by| if matches!(by, PacingChoice::Gap) { Method::Gap } else { Method::EDT })
        }
        (Some(PacingChoice::Edt), true) => Some(Method::Edt { super_packets: true }),
        (_, true) => {
            return Err(Failure::usage(
                "--super-packets needs departure times: add --by edt".to_owned(),
            ));
        }
    };
    in_separate_session(args.apart)?;
    let rules = vec![Rule { matches, target }];
    for number in pace::add(&Options { device: args.device, rules, frames, method })? {
        print_text(&format!("{number}\n"));
    }
    Ok(())
}

fn parse_matches(words: &[String]) -> Result<Match, Failure> {
    let refuse = |what: &str| {
        let text = format!(
            "--match {what}: expected dst PREFIX, dport PORT or sport PORT, as in --match dst 192.0.2.0/24"
        );
        Failure::usage(text)
    };
    let port = |what: &str, value: &str| -> Result<Option<NonZeroU16>, Failure> {
        Ok(Some(value.parse().map_err(|_| refuse(&format!("{what} {value}")))?))
    };
    let mut matches = Match::default();
    // A match may be two words or one.
    let words: Vec<_> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    for pair in words.chunks(2) {
        let &[what, value] = pair else { return Err(refuse(pair[0])) };
        match what {
            "dst" => {
                let address = || value.parse::<IpAddr>().map(ipnet::IpNet::from).ok();
                let net = value.parse().ok().or_else(address);
                matches.destination = Some(net.ok_or_else(|| refuse(&pair.join(" ")))?);
            }
            "dport" => matches.to_port = port(what, value)?,
            "sport" => matches.from_port = port(what, value)?,
            _ => return Err(refuse(&pair.join(" "))),
        }
    }
    Ok(matches)
}

fn show(device: Option<&str>, json: bool) -> Result<(), Failure> {
    let mut attached = pace::list()?;
    if let Some(device) = device {
        attached.retain(|one| one.device == device);
        if attached.is_empty() {
            return Err(
                ::kernel::Error::from(pace::Refusal::NotPaced { name: device.into() }).into()
            );
        }
    }
    if json {
        print_json(&PacingStatus::new(&attached));
    } else {
        print_text(&attached.iter().map(as_text).collect::<String>());
    }
    Ok(())
}

fn as_text(attached: &PacedDevice) -> String {
    let PacedDevice { device, setup, lack, counts, senders } = attached;
    let mut text = format!("{device}: {}\n", setup_text(setup));
    if let Some(lack) = lack {
        text += &format!("  not in force: {lack}\n");
    }
    for (number, rule) in &setup.rules {
        let whose = if setup.owners.contains_key(number) { " (of a depot)" } else { "" };
        let (target, matched) = (target_text(&rule.target), matches_text(&rule.matches));
        text += &format!("  rule {number}: {target}{matched}{whose}\n");
    }
    text += &format!("  paced {} packets, {} bytes", counts.packets, counts.bytes);
    if setup.method == Method::Gap {
        text += &format!("; gaps {} frames, {} bytes", counts.gap_frames, counts.gap_bytes);
    }
    text += "\n";
    for (count, what) in [
        (counts.at_line_rate, "packets without gap, because the sum of targets is the line rate"),
        (counts.no_rtt, "packets not paced before the first round trip"),
        (counts.lock_failures, "packets not paced, because other processors held the queue"),
        (counts.super_packets, "packets of several segments, paced as one"),
        (counts.lost_gap_bytes, "bytes of gap lost"),
        (counts.lost_packets, "packets lost, because the device's queue was full"),
        (
            counts.beyond_horizon,
            "packets dropped, because their departure time was more than 2 s ahead",
        ),
    ] {
        if count > 0 {
            text += &format!("  {count} {what}\n");
        }
    }
    if !senders.is_empty() {
        let head = ["target", "achieved", "bytes", "rule  sender"];
        text += &format!("  {:>12} {:>12} {:>15}  {}\n", head[0], head[1], head[2], head[3]);
    }
    for sender in senders {
        let achieved = sender.achieved().map_or_else(|| "-".to_owned(), megabits);
        let (target, bytes, rule) = (megabits(sender.target), sender.bytes.get(), sender.rule);
        text += &format!(
            "  {target:>12} {achieved:>12} {bytes:>15}  {rule:>4}  {} {} > {}\n",
            sender.protocol_name(),
            sender.source,
            sender.destination
        );
    }
    text
}

fn setup_text(setup: &Setup) -> String {
    let line = setup.line.map(|line| format!(", line {line}")).unwrap_or_default();
    let overhead = setup.overhead.get();
    let mut text = format!("{}{line}, {overhead} bytes beyond a frame's length", setup.method);
    if setup.method == Method::Gap {
        text += &format!(", gaps to {}, gap frames to {}", setup.max_gap, setup.max_frame);
    }
    text
}

fn megabits(rate: Rate) -> String {
    format!("{:.3} Mb/s", rate.bps() as f64 / 1e6)
}

fn target_text(target: &Target) -> String {
    match target {
        Target::Rate(rate) => rate.to_string(),
        Target::Auto(estimator) => {
            let most = estimator.max_rate.map(|rate| format!(", at most {rate}"));
            let found = if estimator.find_cap { ", at most what its path carries" } else { "" };
            let (name, most) = (estimator_name(*estimator), most.unwrap_or_default());
            format!("each TCP socket by {name}{most}{found}")
        }
    }
}

fn matches_text(matches: &Match) -> String {
    let destination = matches.destination.map(|net| format!(" dst {net}"));
    let to_port = matches.to_port.map(|port| format!(" dport {port}"));
    let from_port = matches.from_port.map(|port| format!(" sport {port}"));
    [destination, to_port, from_port].into_iter().flatten().collect()
}
