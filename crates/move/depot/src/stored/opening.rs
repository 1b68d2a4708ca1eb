// SPDX-License-Identifier: GPL-2.0-or-later
//! The store is opened: at the start, or as soon as the process that has it lets go of it. Then sessions expire.

use super::shared::Stored;
use crate::config;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};
use store::{Job, Limits, OpenError, Report, Store, disk::RealDisk};
use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep},
};

/// How often a store that another process has is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How often sessions that have expired are removed.
const EXPIRE: Duration = Duration::from_secs(60);
/// Lines in the log about damage, so that a store of damaged files does not fill it.
const MOST_LINES: usize = 20;

/// Opens the store of a configuration, if it has one. If another process has it, [`keep`] tries again. Needs a runtime.
///
/// # Errors
/// It cannot be opened, for another reason.
pub(crate) fn open(config: Option<&config::Store>) -> Result<Arc<Stored>, OpenError> {
    let stored = Arc::new(Stored::new(config));
    let Some(path) = stored.path() else { return Ok(stored) };
    match try_to_open(path, stored.limits()) {
        Ok(store) => stored.opens(store),
        Err(error @ OpenError::InUse { .. }) => {
            stored.does_not_open(error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(stored)
}

/// Checks whether the store of a configuration could be opened, without changing anything.
///
/// # Errors
/// It could not.
pub(crate) fn check(config: Option<&config::Store>) -> Result<(), OpenError> {
    let Some(config) = config else { return Ok(()) };
    RealDisk::look(&config.path)?.map_or(Ok(()), |disk| Store::check(&disk))
}

fn try_to_open(path: &Path, limits: Limits) -> Result<Store, OpenError> {
    let disk = RealDisk::open(path)?;
    let handle = Handle::current();
    let run = move |job: Job| drop(handle.spawn_blocking(job));
    let (store, report) = Store::open(Arc::new(disk), limits, run, SystemTime::now())?;
    tell(path, &report);
    Ok(store)
}

fn tell(path: &Path, report: &Report) {
    let Report { sessions, unrecorded, damage, .. } = report;
    tracing::info!(path = %path.display(), sessions, unrecorded, "store opened");
    for damage in damage.iter().take(MOST_LINES) {
        tracing::warn!(file = damage.file, what = damage.what, "damage in the store");
    }
    if damage.len() > MOST_LINES {
        tracing::warn!(files = damage.len(), "more damage in the store");
    }
}

/// Opens the store if that is still to be done, and removes sessions that have expired, for as long as the depot runs.
pub(crate) async fn keep(stored: Arc<Stored>) {
    let Some(path) = stored.path().cloned() else { return };
    tokio::select! {
        () = stored.handed_over() => {}
        () = open_and_expire(&stored, path.clone()) => {}
    }
}

async fn open_and_expire(stored: &Arc<Stored>, path: std::path::PathBuf) {
    while stored.opened().is_none() {
        let (path, limits) = (path.clone(), stored.limits());
        match spawn_blocking(move || try_to_open(&path, limits)).await {
            Ok(Ok(store)) => stored.opens(store),
            Ok(Err(error)) => {
                if stored.does_not_open(error.to_string()) {
                    tracing::warn!(%error, "the store is not open yet");
                }
                sleep(RETRY).await;
            }
            Err(_) => sleep(RETRY).await,
        }
    }
    let mut minutes = interval(EXPIRE);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        minutes.tick().await;
        let Some(store) = stored.opened() else { return };
        let (found, removed) = store.expire(SystemTime::now());
        match removed.await {
            Ok(()) if found > 0 => {
                stored.count_expired(found);
                tracing::info!(sessions = found, "stored sessions have expired");
            }
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "expired sessions cannot be removed"),
        }
    }
}
