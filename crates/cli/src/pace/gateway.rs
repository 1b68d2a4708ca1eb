// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul pace gateway`: paces packets that are routed to its TUN device, each class at its own rate.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
};
use ::wan::pacing_gateway::{Gateway, GatewayClass, NextHop, Options, Summary};
use clap::ArgGroup;
use host::Mac;
use std::{net::IpAddr, os::fd::AsFd};
use units::{Bytes, Rate};

const EXAMPLES: &str = "\
Examples:
  sudo longhaul pace gateway eth0 --class far=400mbit:198.51.100.0/24 --router 192.0.2.1
  sudo longhaul pace gateway eth0 --class far=400mbit:198.51.100.0/24 --class rest=1gbit --next-hop 02:00:5e:00:53:01";

/// Pace packets that are routed to a TUN device and leave by a real device, each class at its own rate. Needs root.
///
/// Gap frames separate the packets, so that the device's own clock times them. Runs until Ctrl-C or SIGTERM and then
/// prints counters. The TUN device and the routes to it are removed with it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("next").required(true).args(["router", "next_hop"])))]
pub struct GatewayArgs {
    /// Network device to send by, as `ip link` names it.
    device: String,
    /// Class with its rate and the networks behind its bottleneck. Without networks it takes all packets of no other
    /// class. The rate is that on the link, where a full packet takes 1538 bytes. May be repeated.
    #[arg(long, value_name = "NAME=RATE[:NETWORK,...]", required = true)]
    class: Vec<GatewayClass>,
    /// Next router, a neighbour on the device.
    #[arg(long, value_name = "IP")]
    router: Option<IpAddr>,
    /// Ethernet address of the next router, instead of --router.
    #[arg(long, value_name = "MAC")]
    next_hop: Option<Mac>,
    /// Link rate of the device, as in 1gbit [default: the rate that the driver reports].
    #[arg(long, value_name = "RATE")]
    line: Option<Rate>,
    /// Bytes on the link per frame in addition to its length: preamble, check sequence and inter-frame gap.
    #[arg(long, value_name = "SIZE", default_value = "24")]
    overhead: Bytes,
    /// Name of the TUN device to make.
    #[arg(long, value_name = "NAME", default_value = "lhgw0")]
    tun: String,
    /// Maximum size of each class's queue.
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    queue: Bytes,
    /// Maximum size of a gap frame on the link. The device's MTU limits it too.
    #[arg(long, value_name = "SIZE", default_value = "4KB")]
    max_frame: Bytes,
    /// Release packets by a timer instead of sending gap frames between them.
    #[arg(long, conflicts_with = "max_frame")]
    no_gap_frames: bool,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

impl GatewayArgs {
    fn into_options(self) -> Options {
        let next_hop = self.router.map(NextHop::Neighbour).or(self.next_hop.map(NextHop::Mac));
        let next_hop = next_hop.expect("one of them is required");
        Options {
            tun: self.tun,
            line: self.line,
            overhead: self.overhead,
            classes: self.class,
            queue: self.queue,
            gap_frames: (!self.no_gap_frames).then_some(self.max_frame),
            ..Options::of(&self.device, next_hop)
        }
    }
}

pub fn run(args: GatewayArgs) -> Result<(), Failure> {
    let json = args.json;
    let stopped = host::stop_socket()
        .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
    let options = args.into_options();
    let (device, tun) = (options.device.clone(), options.tun.clone());
    let gateway = Gateway::open(options)?;
    for warning in gateway.warnings() {
        errln!("note: {warning}");
    }
    let (line, next_hop) = (gateway.line(), gateway.next_hop());
    errln!(
        "{tun} is up: packets routed there leave by {device} ({line}) to {next_hop}. End it with Ctrl-C"
    );
    let summary = gateway.run(stopped.as_fd())?;
    if json {
        print_json(&summary);
    } else {
        print_text(&text(&summary));
    }
    Ok(())
}

fn text(summary: &Summary) -> String {
    let mut text = format!(
        "{:<14} {:>10} {:>12} {:>16} {:>9} {:>9}\n",
        "class", "rate", "packets", "bytes on link", "dropped", "not sent"
    );
    for class in &summary.classes {
        let rate = class.rate_bps.map(|bps| Rate::bits_per_second(bps).to_string());
        text += &format!(
            "{:<14} {:>10} {:>12} {:>16} {:>9} {:>9}\n",
            class.name,
            rate.as_deref().unwrap_or("-"),
            class.packets,
            class.link_bytes,
            class.dropped_packets,
            class.left_packets
        );
    }
    text += &format!(
        "{:<14} {:>10} {:>12} {:>16}\n",
        "gap frames", "-", summary.gap_frames, summary.gap_link_bytes
    );
    text += &remarks(summary);
    text
}

fn remarks(summary: &Summary) -> String {
    let mut text = String::new();
    if summary.not_carried > 0 {
        text += &format!(
            "{} packets to multicast or link-local addresses were not forwarded\n",
            summary.not_carried
        );
    }
    if let Some(dropped) = summary.tun_dropped.filter(|dropped| *dropped > 0) {
        text += &format!("{dropped} packets were lost before they could be read\n");
    }
    if summary.stalls > 0 {
        let (stalls, seconds) = (summary.stalls, summary.stalled_s);
        text += &format!(
            "{stalls} times the link was idle while packets waited, for {seconds:.3} s in total\n"
        );
    }
    if summary.device_full > 0 {
        text += &format!(
            "{} times the device's queue was full: it may be slower than its line rate. Set --line\n",
            summary.device_full
        );
    }
    text
}
