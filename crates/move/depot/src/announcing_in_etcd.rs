// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot in etcd: what it tells of itself stands there under a lease, and what others tell there is heard at once.
//!
//! Signatures count here as elsewhere. If etcd is away, what is known stays until it expires, and the rounds of questions go on.

use crate::{config::Register, register_keys::RegisterKeys, state::Shared};
use etcd::Change;
use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};
use tokio::{sync::watch, task::AbortHandle};

/// The two tasks, which end with this. What this depot tells vanishes from etcd when its lease runs out.
#[derive(Debug)]
pub(crate) struct InEtcd {
    settings: etcd::Settings,
    name: String,
    tell: watch::Sender<String>,
    following: AbortHandle,
}

impl Drop for InEtcd {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl InEtcd {
    /// Has what this depot tells in etcd, if that is configured.
    pub(crate) fn keep(
        current: &mut Option<Self>,
        shared: &Arc<Shared>,
        register: &Register,
        lease: Duration,
        told: Option<String>,
    ) {
        let (Some(settings), Some(told)) = (&register.etcd, told) else {
            *current = None;
            return;
        };
        let name = register.address.to_string();
        match current {
            Some(kept) if kept.settings == *settings && kept.name == name => {
                kept.tell.send_replace(told);
            }
            _ => *current = Some(Self::begin(shared, settings.clone(), name, lease, told)),
        }
    }

    fn begin(
        shared: &Arc<Shared>,
        settings: etcd::Settings,
        name: String,
        lease: Duration,
        told: String,
    ) -> Self {
        let (tell, values) = watch::channel(told);
        let (own, key) = (settings.clone(), name.clone());
        tokio::spawn(async move { etcd::announce(&own, &key, values, lease).await });
        let (of, shared) = (settings.clone(), Arc::downgrade(shared));
        let following = tokio::spawn(async move {
            etcd::follow(&of, |change| heard(&shared, change)).await;
        });
        Self { settings, name, tell, following: following.abort_handle() }
    }
}

fn heard(shared: &Weak<Shared>, change: Change) {
    let Some(shared) = shared.upgrade() else { return };
    let settings = shared.settings();
    let Some(keys) = settings.register.as_ref().map(RegisterKeys::trusted) else { return };
    let (registered, now) = (&shared.next_hops.registered, SystemTime::now().into());
    match change {
        Change::All(values) => {
            for (_, token) in values {
                registered.hear_one(&token, &keys, now);
            }
        }
        Change::Put(_, token) => registered.hear_one(&token, &keys, now),
        Change::Gone(name) => {
            if let Ok(depot) = name.parse() {
                registered.forget(&depot);
            }
        }
        Change::Lost(why) => {
            tracing::warn!(why, "etcd is away: what is known of other depots may be old");
        }
    }
}
