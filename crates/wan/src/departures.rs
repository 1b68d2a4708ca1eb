// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether this kernel can let packets leave at set times: that takes the queueing discipline fq.

use crate::Namespace;
use std::{io, process::Command};

/// Why packets can't leave at set times, if so. Tried out in a network namespace that is made for it
/// and gone afterwards; a kernel that has fq as a module loads that.
pub fn departures_lacking() -> Option<String> {
    let Ok(namespace) = Namespace::new() else {
        return Some("trying it takes root: run this with sudo".to_owned());
    };
    let mut command = Command::new("tc");
    command.args(["qdisc", "add", "dev", "lo", "root", "fq"]);
    match namespace.run(|| command.output()) {
        Ok(output) if output.status.success() => None,
        Ok(_) => Some("this kernel has no fq: it needs CONFIG_NET_SCH_FQ".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some("there is no program tc: install the package iproute2".to_owned())
        }
        Err(error) => Some(format!("could not run tc: {error}")),
    }
}
