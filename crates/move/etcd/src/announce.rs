// SPDX-License-Identifier: GPL-2.0-or-later
//! Keeps one value under a lease.

use crate::{
    PAUSE,
    settings::{Error, Settings},
};
use etcd_client::{Client, LeaseKeepAliveStream, LeaseKeeper, PutOptions};
use std::time::Duration;
use tokio::{
    sync::watch,
    time::{Instant, interval, sleep, timeout},
};

/// Minimum lease, in seconds.
const LEAST_S: i64 = 2;

/// Writes the latest value under a name until the sender of values is dropped, then revokes the lease. If this is aborted, or etcd is
/// unreachable, the value expires after `lease`.
pub async fn announce(
    settings: &Settings,
    name: &str,
    mut values: watch::Receiver<String>,
    lease: Duration,
) {
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        match keep(settings, name, &mut values, lease).await {
            Ok(()) => return,
            Err(error) => {
                tracing::debug!(%error, "cannot announce in etcd");
            }
        }
        failures = if begun.elapsed() > lease { 1 } else { failures + 1 };
        sleep(PAUSE.after(failures)).await;
    }
}

/// Uses one connection, until it fails.
async fn keep(
    settings: &Settings,
    name: &str,
    values: &mut watch::Receiver<String>,
    lease: Duration,
) -> Result<(), Error> {
    let mut client = settings.connect().await?;
    let seconds = i64::try_from(lease.as_secs()).unwrap_or(i64::MAX).max(LEAST_S);
    let lease_id = client.lease_grant(seconds, None).await?.id();
    let (mut keeper, mut answers) = client.lease_keep_alive(lease_id).await?;
    let key = format!("{}{name}", settings.prefix);
    let mut renewals = interval(Duration::from_secs(seconds.unsigned_abs()) / 3);
    values.mark_changed();
    loop {
        tokio::select! {
            changed = values.changed() => {
                if changed.is_err() {
                    // Watchers learn it at once.
                    let _ = client.lease_revoke(lease_id).await;
                    return Ok(());
                }
                let value = values.borrow_and_update().clone();
                put(&mut client, &key, value, lease_id).await?;
            }
            _ = renewals.tick() => renew(&mut keeper, &mut answers, lease).await?,
        }
    }
}

async fn put(client: &mut Client, key: &str, value: String, lease_id: i64) -> Result<(), Error> {
    client.put(key, value, Some(PutOptions::new().with_lease(lease_id))).await?;
    Ok(())
}

async fn renew(
    keeper: &mut LeaseKeeper,
    answers: &mut LeaseKeepAliveStream,
    lease: Duration,
) -> Result<(), Error> {
    keeper.keep_alive().await?;
    let answer = timeout(lease, answers.message()).await.map_err(|_| Error::Late(lease))??;
    match answer {
        Some(answer) if answer.ttl() > 0 => Ok(()),
        _ => Err(Error::Ended("the lease has run out".to_owned())),
    }
}
