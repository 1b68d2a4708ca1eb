// SPDX-License-Identifier: GPL-2.0-or-later
//! Requirements of pacing on a device and its queueing discipline.

use super::{Method, Refusal, fq, rules::HORIZON};
use crate::Error;
use host::{Device, Qdisc};

/// Disciplines that send packets in the order in which they came, of one transmit queue. `pfifo_fast` does so
/// within a band, and the program puts all that it paces into one. "noop" is what a device has that is down.
const IN_ORDER: [&str; 9] =
    ["noqueue", "noop", "pfifo_fast", "pfifo", "bfifo", "tbf", "mq", "clsact", "ingress"];

/// The device of that name, if it might be paced.
pub fn find(name: &str) -> Result<Device, Error> {
    let device = Device::find(name)?.ok_or_else(|| Refusal::NoDevice { name: name.to_owned() })?;
    if !device.is_ethernet() {
        return Err(Refusal::NotEthernet { name: name.to_owned(), kind: device.kind }.into());
    }
    Ok(device)
}

/// The method of pacing that goes with how a device queues packets.
pub fn method_for(device: &Device) -> Result<Method, Error> {
    let has_fq = device.qdiscs()?.iter().any(|qdisc| qdisc.kind == "fq");
    Ok(if has_fq { Method::EDT } else { Method::Gap })
}

/// Refuses a method of pacing that does not go with how a device queues packets.
pub fn require(device: &Device, method: Method) -> Result<(), Error> {
    match method {
        Method::Gap => require_order(device),
        Method::Edt { .. } => require_times(device),
    }
}

fn require_order(device: &Device) -> Result<(), Error> {
    let name = || device.name.clone();
    let queues = device.transmit_queues();
    let queues = queues.map_err(|e| Error::system("read a device's queues", e))?;
    if queues > 1 {
        return Err(Refusal::Queues { name: name(), queues }.into());
    }
    for Qdisc { kind, .. } in device.qdiscs()? {
        if !IN_ORDER.contains(&kind.as_str()) {
            return Err(Refusal::Discipline { name: name(), kind }.into());
        }
    }
    Ok(())
}

/// Several transmit queues do no harm: each flow keeps to one, and all have their times from one program.
fn require_times(device: &Device) -> Result<(), Error> {
    let name = || device.name.clone();
    let qdiscs = device.qdiscs()?;
    let other = qdiscs.iter().find(|qdisc| !keeps_times(qdisc));
    if other.is_some() || !qdiscs.iter().any(|qdisc| qdisc.kind == "fq") {
        fq::require_fq()?;
        let kind = other.map_or("none", |qdisc| &qdisc.kind).to_owned();
        return Err(Refusal::NotFq { name: name(), kind }.into());
    }
    match qdiscs.iter().filter_map(Qdisc::horizon).min() {
        Some(horizon) if horizon < HORIZON => {
            Err(Refusal::Horizon { name: name(), horizon, least: HORIZON }.into())
        }
        _ => Ok(()),
    }
}

/// Whether a discipline lets packets wait for their time, or has others below it for that.
fn keeps_times(qdisc: &Qdisc) -> bool {
    matches!(qdisc.kind.as_str(), "fq" | "mq" | "clsact" | "ingress")
}

/// The number of the calling thread's network namespace.
pub fn namespace() -> Result<u64, Error> {
    host::Namespace::current_inode().map_err(|e| Error::system("look at the network namespace", e))
}
