// SPDX-License-Identifier: GPL-2.0-or-later
//! The queueing discipline that lets packets leave at set times.

use super::{Refusal, device::run};
use crate::Error;
use host::Namespace;
use std::{io, process::Command};

/// Makes fq a device's queueing discipline, in the calling thread's network namespace.
///
/// # Errors
/// The kernel has none, or refused.
pub fn install_fq(device: &str) -> Result<(), Error> {
    let arguments = ["qdisc", "replace", "dev", device, "root", "fq"];
    let result = run("tc", &[&arguments[..], &LIMITS].concat()).map(drop);
    // Why comes after whether.
    result.or_else(|error| require_fq().and(Err(error)))
}

/// Room for a socket's packets where they are single segments: TCP's small queues let it have a millisecond
/// of its rate there, and fq drops the hundred and first packet of a flow unless told otherwise.
const LIMITS: [&str; 2] = ["flow_limit", "1000"];

/// Refuses to pace by departure times where no device can have fq. Tried out in a network namespace that is
/// made for it and gone afterwards; a kernel that has fq as a module loads that.
pub(super) fn require_fq() -> Result<(), Error> {
    let add_fq = || Command::new("tc").args(["qdisc", "add", "dev", "lo", "root", "fq"]).output();
    let tried = Namespace::new().and_then(|namespace| namespace.run(add_fq));
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err(Refusal::KernelWithoutFq.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Refusal::NoIproute.into()),
        Err(error) => Err(Error::system("try out fq in a network namespace", error)),
    }
}
