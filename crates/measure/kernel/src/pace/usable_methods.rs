// SPDX-License-Identifier: GPL-2.0-or-later
//! Which methods of pacing this machine can use, as `longhaul pace methods --json` prints it.

use super::{Method, lacking};
use serde::Serialize;
use units::Rate;

/// The methods of pacing that this machine can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PacingMethods {
    /// The device that was asked about; null for none.
    pub device: Option<String>,
    /// The rate of its link; null where that is not known.
    pub line_bps: Option<u64>,
    /// The methods, better ones first.
    pub methods: Vec<MethodSupport>,
    /// The name of the best one that can be used.
    pub best: &'static str,
}

/// A method of pacing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MethodSupport {
    /// Its name.
    pub name: &'static str,
    /// How it works.
    pub what: &'static str,
    /// Whether it can be used.
    pub can: bool,
    /// The reason why it cannot be used; null if it can.
    pub lacks: Option<String>,
}

impl MethodSupport {
    fn new(name: &'static str, what: &'static str, lacks: Option<String>) -> Self {
        Self { name, what, can: lacks.is_none(), lacks }
    }
}

impl PacingMethods {
    /// Looks at the machine, and at a device with a link of that rate. `gateway_lacks` is what is in the way of a
    /// pacing gateway, which is a process.
    pub fn probe(device: Option<&str>, line: Option<Rate>, gateway_lacks: Option<String>) -> Self {
        let lacks = |method| lacking(method, device).map(|error| error.to_string());
        let methods = vec![
            MethodSupport::new(
                "gap-frames",
                "a program in the kernel sends PAUSE frames behind packets: the wire's clock",
                lacks(Method::Gap),
            ),
            MethodSupport::new(
                "departure-times",
                "fq lets each packet leave at its time (pace add --by edt): the kernel's timers, no gap frames",
                lacks(Method::EDT),
            ),
            MethodSupport::new(
                "gateway",
                "a process sends packets and PAUSE frames (pace gateway): the wire's clock, more work",
                gateway_lacks,
            ),
            MethodSupport::new(
                "tcp",
                "TCP's own pacing: each connection by itself, the kernel's timers",
                None,
            ),
        ];
        let best = methods.iter().find(|method| method.can).map_or("tcp", |method| method.name);
        Self { device: device.map(str::to_owned), line_bps: line.map(Rate::bps), methods, best }
    }
}
