// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul pace`: precise pacing of what leaves by a device.

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

#[derive(clap::Subcommand)]
pub enum Command {
    /// Pace what leaves a device, by gap packets or departure times, until it is deleted or the machine
    /// restarts.
    Add(Box<AddArgs>),
    /// Say what is paced in this network namespace, at what, and what has left.
    Show {
        /// The device [default: all]
        device: Option<String>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Take a rule from a device, or all: then it is as it was before.
    Del {
        /// The device.
        device: String,
        /// The rule's number, as `pace show` has it.
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
    /// The device.
    device: String,
    /// Pace all that matches to this rate of the link, together.
    #[arg(long)]
    rate: Option<Rate>,
    /// Pace each TCP socket to its window over its round trip.
    #[arg(long)]
    auto: bool,
    /// What keeps packets apart: `gap` (gap packets) or `edt` (departure times, which the queueing discipline
    /// fq keeps) [default: what does so already; else edt where the device has fq, gap elsewhere]
    #[arg(long, value_enum)]
    by: Option<PacingChoice>,
    /// Let packets of many segments be, with departure times: each leaves as one burst, and costs less work.
    #[arg(long)]
    super_packets: bool,
    /// How that is estimated: `link` (the smallest round trip, sizes as on the link) or `paper` (the
    /// smoothed one, sizes without headers).
    #[arg(long, value_enum, default_value = "link", conflicts_with = "rate")]
    estimator: EstimatorChoice,
    /// Cut the estimates at this rate of the link.
    #[arg(long, value_name = "RATE", conflicts_with = "rate")]
    max_rate: Option<Rate>,
    /// Cut the estimates at what each socket's path is found to carry.
    #[arg(long, conflicts_with = "rate")]
    find_cap: bool,
    /// Only packets that match: `dst PREFIX`, `dport PORT`, `sport PORT`, or several of these.
    #[arg(long = "match", num_args = 1.., value_names = ["WHAT", "VALUE"])]
    matches: Vec<String>,
    /// The rate of the link [default: what the device says]. Departure times do without
    #[arg(long, value_name = "RATE")]
    line: Option<Rate>,
    /// Bytes of the link that a frame takes beyond its length without the check sequence [default: 24]
    #[arg(long, value_name = "BYTES")]
    overhead: Option<u64>,
    /// The most gap behind one packet, of gap packets [default: 64KB]
    #[arg(long, value_name = "SIZE")]
    max_gap: Option<Bytes>,
    /// The longest gap frame [default: 4KB, or what the device's MTU allows]
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

/// A change is made by a child in a session of its own, so that it is made whole whatever happens to
/// the command: who ends that, ends a process that waits. Returns in the child.
pub fn in_separate_session(apart: bool) -> Result<(), Failure> {
    if apart {
        let left = rustix::process::setsid();
        return left
            .map(drop)
            .map_err(|e| Failure::failed(format!("can't leave the session: {e}")));
    }
    let failed = |e| Failure::failed(format!("can't start this program once more: {e}"));
    let child = process::Command::new("/proc/self/exe")
        .args(env::args_os().skip(1))
        .arg("--apart")
        .stdin(Stdio::null())
        .status();
    let status = child.map_err(failed)?;
    // It has said what there is to say.
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
        (_, true) => return Err(Failure::usage("--super-packets goes with --by edt".to_owned())),
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
        let text = format!("--match {what}: expected dst PREFIX, dport PORT or sport PORT");
        Failure::usage(text)
    };
    let port = |what: &str, value: &str| -> Result<Option<NonZeroU16>, Failure> {
        Ok(Some(value.parse().map_err(|_| refuse(&format!("{what} {value}")))?))
    };
    let mut matches = Match::default();
    // Each may come as two words or as one text.
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
        text += &format!("  not kept at present: {lack}\n");
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
        (counts.at_line_rate, "packets without gap, the targets' sum being the line's rate"),
        (counts.no_rtt, "packets not paced before the first round trip"),
        (counts.lock_failures, "packets not paced, other processors keeping the queue"),
        (counts.super_packets, "packets of several segments, paced as one"),
        (counts.lost_gap_bytes, "bytes of gap lost"),
        (counts.lost_packets, "packets lost, the device's queue being full"),
        (counts.beyond_horizon, "packets dropped, their time being more than 2 s ahead"),
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
