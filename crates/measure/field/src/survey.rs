// SPDX-License-Identifier: GPL-2.0-or-later
//! What all hosts are, before anything is changed there.

use crate::{
    clock::Clocks,
    error::FieldError,
    hosts::{Host, Hosts},
    message::{Facts, PathMeasured},
    path::Path,
    remote::{Program, Remote},
};
use std::{collections::HashMap, io, sync::Arc, time::Duration};
use tokio::{runtime::Builder, task::JoinSet};

/// What a host is.
#[derive(Debug, Clone, PartialEq)]
pub struct Surveyed {
    /// What kind of host.
    pub facts: Facts,
    /// How far its clocks are off.
    pub clocks: Clocks,
    /// Settings that its guard has put back after an earlier one, that was killed together with its keeper.
    pub put_back: usize,
}

/// What was found of a path.
#[derive(Debug)]
pub struct PathFound {
    /// Which.
    pub path: Path,
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
    paths: &[Path],
    time: Duration,
) -> io::Result<Survey> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let asked = ask_all(hosts, Arc::new(program)).await;
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
        for path in paths {
            let found = measure(&mut remotes, hosts, path, time).await;
            measured.push(PathFound { path: path.clone(), measured: found });
        }
        Ok(Survey { hosts: found, paths: measured })
    })
}

pub(crate) async fn ask_all(
    hosts: &Hosts,
    program: Arc<Program>,
) -> Vec<(Host, Result<(Remote, Surveyed), FieldError>)> {
    let hosts = Arc::new(hosts.clone());
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
    let (facts, clocks) = (remote.facts().await?, remote.clocks().await?);
    let put_back = remote.put_back();
    Ok((remote, Surveyed { facts, clocks, put_back }))
}

/// Measures the path between two of the nodes, in so long.
pub(crate) async fn measure(
    remotes: &mut HashMap<String, Remote>,
    hosts: &Hosts,
    path: &Path,
    time: Duration,
) -> Result<PathMeasured, FieldError> {
    let Path { from, to, rate_bps, .. } = path;
    let fails =
        |node: &str, why: &str| FieldError::Path { node: node.to_owned(), why: why.to_owned() };
    let address = |node: &str| {
        let address = hosts.of(node).and_then(|host| host.address);
        address.ok_or_else(|| fails(node, "its address is needed: add address to its [[host]]"))
    };
    let (sender, receiver) = (address(from)?, address(to)?);
    let unreached = |node: &str| fails(node, "it was not reached");
    let token = host::random().map(u64::from_ne_bytes);
    let token = token.map_err(|error| fails(from, &error.to_string()))?;
    let port = remotes.get_mut(to).ok_or_else(|| unreached(to))?.serve(sender, token).await?;
    let remote = remotes.get_mut(from).ok_or_else(|| unreached(from))?;
    remote.measure(((receiver, port).into(), token), *rate_bps, time).await
}
