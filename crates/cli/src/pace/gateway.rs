// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul pace gateway`: what is routed to its TUN device leaves by a real one, each class at its rate.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
};
use ::wan::pacing_gateway::{Gateway, GatewayClass, NextHop, Options, Summary};
use clap::ArgGroup;
use host::Mac;
use std::{net::IpAddr, os::fd::AsFd};
use units::{Bytes, Rate};

/// Pace what is routed to a TUN device and leaves by a real one, each class at its bottleneck's rate.
///
/// Gap frames keep packets apart, so that the device's own clock does the timing. Runs until Ctrl-C or
/// SIGTERM and then prints what it did; the TUN device and the routes to it go with it.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("next").required(true).args(["via", "next_hop"])))]
pub struct GatewayArgs {
    /// The device that it sends by, as `ip link` calls it.
    device: String,
    /// A class and the networks behind its bottleneck; without networks, all that is in no other
    /// class. May be repeated. The rate is of the link: 1538 bytes for a full packet.
    #[arg(long, value_name = "NAME=RATE[:NETWORK,...]", required = true)]
    class: Vec<GatewayClass>,
    /// The router that packets go to next, a neighbour on the device.
    #[arg(long, value_name = "IP")]
    via: Option<IpAddr>,
    /// Its address of Ethernet, instead.
    #[arg(long, value_name = "MAC")]
    next_hop: Option<Mac>,
    /// The rate of the device's link [default: as its driver says].
    #[arg(long, value_name = "RATE")]
    line: Option<Rate>,
    /// Bytes of the link that a frame takes beyond its length: preamble, check sequence and inter-frame
    /// gap.
    #[arg(long, value_name = "SIZE", default_value = "24")]
    overhead: Bytes,
    /// The name of the TUN device that it makes.
    #[arg(long, value_name = "NAME", default_value = "lhgw0")]
    tun: String,
    /// How much of each class may wait.
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    queue: Bytes,
    /// What the longest gap frame takes on the link; the device's MTU bounds it too.
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
        let next_hop = self.via.map(NextHop::Neighbour).or(self.next_hop.map(NextHop::Mac));
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
        .map_err(|error| Failure::failed(format!("can't watch for signals: {error}")))?;
    let options = args.into_options();
    let (device, tun) = (options.device.clone(), options.tun.clone());
    let gateway = Gateway::open(options)?;
    for warning in gateway.warnings() {
        eprintln!("note: {warning}");
    }
    let (line, next_hop) = (gateway.line(), gateway.next_hop());
    eprintln!(
        "{tun} is up: what is routed there leaves by {device} ({line}) to {next_hop}; Ctrl-C ends it"
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
            "{} packets to groups or the link alone were not carried\n",
            summary.not_carried
        );
    }
    if let Some(dropped) = summary.tun_dropped.filter(|dropped| *dropped > 0) {
        text += &format!("{dropped} packets were lost before they could be read\n");
    }
    if summary.stalls > 0 {
        let (stalls, seconds) = (summary.stalls, summary.stalled_s);
        text +=
            &format!("{stalls} times the wire ran dry with packets waiting, for {seconds:.3} s\n");
    }
    if summary.device_full > 0 {
        text += &format!(
            "{} times the device had no room: is it slower than its line rate?\n",
            summary.device_full
        );
    }
    text
}
