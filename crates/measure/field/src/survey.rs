// SPDX-License-Identifier: GPL-2.0-or-later
//! What all hosts are, before anything is changed there.

use crate::{
    clock::ClockOffset,
    error::FieldError,
    hosts::{Host, Hosts},
    message::Facts,
    remote::{Program, Remote},
};
use std::{io, sync::Arc};
use tokio::{runtime::Builder, task::JoinSet};

/// What a host is.
#[derive(Debug, Clone, PartialEq)]
pub struct Surveyed {
    /// What kind of host.
    pub facts: Facts,
    /// How far its clock is off.
    pub clock: ClockOffset,
    /// Settings that its guard has put back after an earlier one, that was killed together with its keeper.
    pub put_back: usize,
}

/// Asks all hosts at the same time; in their order.
///
/// # Errors
/// No runtime can be set up.
pub fn survey(
    hosts: &Hosts,
    program: Program,
) -> io::Result<Vec<(Host, Result<Surveyed, FieldError>)>> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let (hosts, program) = (Arc::new(hosts.clone()), Arc::new(program));
    let asked = async {
        let mut asked = JoinSet::new();
        for (at, host) in hosts.hosts.iter().cloned().enumerate() {
            let (hosts, program) = (Arc::clone(&hosts), Arc::clone(&program));
            asked.spawn(async move {
                let found = ask(&host, &hosts, &program).await;
                (at, host, found)
            });
        }
        asked.join_all().await
    };
    let mut all = runtime.block_on(asked);
    all.sort_by_key(|(at, ..)| *at);
    Ok(all.into_iter().map(|(_, host, found)| (host, found)).collect())
}

async fn ask(host: &Host, hosts: &Hosts, program: &Program) -> Result<Surveyed, FieldError> {
    let mut remote = Remote::reach(host, hosts, program).await?;
    let (facts, clock) = (remote.facts().await?, remote.clock().await?);
    Ok(Surveyed { facts, clock, put_back: remote.put_back() })
}
