// SPDX-License-Identifier: GPL-2.0-or-later
//! What all hosts are, before anything is changed there.

use crate::{
    clock::ClockOffset,
    error::FieldError,
    hosts::{Host, Hosts},
    message::{Facts, PathMeasured},
    remote::{Program, Remote},
};
use std::{collections::HashMap, io, sync::Arc, time::Duration};
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

/// What was found of a path.
#[derive(Debug)]
pub struct PathFound {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// What it gave.
    pub measured: Result<PathMeasured, FieldError>,
}

/// What was found.
#[derive(Debug)]
pub struct Survey {
    /// Of hosts, in their order.
    pub hosts: Vec<(Host, Result<Surveyed, FieldError>)>,
    /// Of paths between them.
    pub paths: Vec<PathFound>,
}

/// Asks all hosts at the same time. Then the paths between these nodes are measured, one after the other, each for so long.
///
/// # Errors
/// No runtime can be set up.
pub fn survey(
    hosts: &Hosts,
    program: Program,
    paths: &[(String, String)],
    time: Duration,
) -> io::Result<Survey> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let asked = ask_all(hosts, program).await;
        let mut remotes: HashMap<String, Remote> = HashMap::new();
        let mut found = Vec::with_capacity(asked.len());
        for (host, asked) in asked {
            let asked = asked.map(|(remote, surveyed)| {
                remotes.insert(host.node.clone(), remote);
                surveyed
            });
            found.push((host, asked));
        }
        let mut measured = Vec::with_capacity(paths.len());
        for (from, to) in paths {
            let path = measure(&mut remotes, hosts, (from, to), time).await;
            measured.push(PathFound { from: from.clone(), to: to.clone(), measured: path });
        }
        Ok(Survey { hosts: found, paths: measured })
    })
}

async fn ask_all(
    hosts: &Hosts,
    program: Program,
) -> Vec<(Host, Result<(Remote, Surveyed), FieldError>)> {
    let (hosts, program) = (Arc::new(hosts.clone()), Arc::new(program));
    let mut asked = JoinSet::new();
    for (at, host) in hosts.hosts.iter().cloned().enumerate() {
        let (hosts, program) = (Arc::clone(&hosts), Arc::clone(&program));
        asked.spawn(async move {
            let found = ask(&host, &hosts, &program).await;
            (at, host, found)
        });
    }
    let mut all = asked.join_all().await;
    all.sort_by_key(|(at, ..)| *at);
    all.into_iter().map(|(_, host, found)| (host, found)).collect()
}

async fn ask(
    host: &Host,
    hosts: &Hosts,
    program: &Program,
) -> Result<(Remote, Surveyed), FieldError> {
    let mut remote = Remote::reach(host, hosts, program).await?;
    let (facts, clock) = (remote.facts().await?, remote.clock().await?);
    let put_back = remote.put_back();
    Ok((remote, Surveyed { facts, clock, put_back }))
}

async fn measure(
    remotes: &mut HashMap<String, Remote>,
    hosts: &Hosts,
    (from, to): (&str, &str),
    time: Duration,
) -> Result<PathMeasured, FieldError> {
    let fails =
        |node: &str, why: &str| FieldError::Path { node: node.to_owned(), why: why.to_owned() };
    let address = |node: &str| {
        let address = hosts.of(node).and_then(|host| host.address);
        address.ok_or_else(|| fails(node, "its address is needed: add address to its [[host]]"))
    };
    let (sender, receiver) = (address(from)?, address(to)?);
    let unreached = |node: &str| fails(node, "it was not reached");
    let port = remotes.get_mut(to).ok_or_else(|| unreached(to))?.serve(sender).await?;
    let remote = remotes.get_mut(from).ok_or_else(|| unreached(from))?;
    remote.send((receiver, port).into(), time).await
}
