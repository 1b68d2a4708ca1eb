// SPDX-License-Identifier: GPL-2.0-or-later
//! The queueing discipline that lets packets leave at set times.

use super::Refusal;
use crate::Error;
use host::{IprouteError, Namespace, iproute};

/// Makes fq a device's queueing discipline, in the calling thread's network namespace.
///
/// # Errors
/// The kernel has none, or refused.
pub fn install_fq(device: &str) -> Result<(), Error> {
    let arguments = ["qdisc", "replace", "dev", device, "root", "fq"];
    let result = iproute::tc(&[&arguments[..], &LIMITS].concat()).map(drop);
    // Why comes after whether.
    result.or_else(|error| require_fq().and(Err(error.into())))
}

/// Room for a socket's packets where they are single segments: TCP's small queues let it have a millisecond
/// of its rate there, and fq drops the hundred and first packet of a flow unless told otherwise.
const LIMITS: [&str; 2] = ["flow_limit", "1000"];

/// Refuses to pace by departure times where no device can have fq. Tried out in a network namespace that is
/// made for it and gone afterwards; a kernel that has fq as a module loads that.
pub(super) fn require_fq() -> Result<(), Error> {
    let add_fq = || Ok(iproute::tc(&["qdisc", "add", "dev", "lo", "root", "fq"]));
    let tried = Namespace::new().and_then(|namespace| namespace.run(add_fq));
    match tried.map_err(|e| Error::system("try out fq in a network namespace", e))? {
        Ok(_) => Ok(()),
        Err(IprouteError::Refused { .. }) => Err(Refusal::KernelWithoutFq.into()),
        Err(error) => Err(error.into()),
    }
}
