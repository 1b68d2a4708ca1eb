// SPDX-License-Identifier: GPL-2.0-or-later
//! Announcements in etcd: this depot's under a lease, and those of others by a watch.
//!
//! Signatures are verified as elsewhere. If etcd is unreachable, stored announcements stay until they expire, and the rounds of
//! `announcing` continue.

use crate::{config::Register, register_keys::RegisterKeys, state::Shared};
use etcd::Change;
use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};
use tokio::{sync::watch, task::AbortHandle};

/// The tasks that announce and follow. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct InEtcd {
    settings: etcd::Settings,
    name: String,
    tokens: watch::Sender<String>,
    following: AbortHandle,
}

impl Drop for InEtcd {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl InEtcd {
    /// Starts, updates or ends the tasks, as the configuration says.
    pub(crate) fn keep(
        current: &mut Option<Self>,
        shared: &Arc<Shared>,
        register: &Register,
        lease: Duration,
        token: Option<String>,
    ) {
        let (Some(settings), Some(token)) = (&register.etcd, token) else {
            *current = None;
            return;
        };
        let name = register.address.to_string();
        match current {
            Some(kept) if kept.settings == *settings && kept.name == name => {
                kept.tokens.send_replace(token);
            }
            _ => *current = Some(Self::begin(shared, settings.clone(), name, lease, token)),
        }
    }

    fn begin(
        shared: &Arc<Shared>,
        settings: etcd::Settings,
        name: String,
        lease: Duration,
        token: String,
    ) -> Self {
        let (tokens, values) = watch::channel(token);
        let (own, key) = (settings.clone(), name.clone());
        tokio::spawn(async move { etcd::announce(&own, &key, values, lease).await });
        let (of, shared) = (settings.clone(), Arc::downgrade(shared));
        let following = tokio::spawn(async move {
            etcd::follow(&of, |change| apply(&shared, change)).await;
        });
        Self { settings, name, tokens, following: following.abort_handle() }
    }
}

fn apply(shared: &Weak<Shared>, change: Change) {
    let Some(shared) = shared.upgrade() else { return };
    let settings = shared.settings();
    let Some(keys) = settings.register.as_ref().map(RegisterKeys::trusted) else { return };
    let (announcements, now) = (&shared.next_hops.announcements, SystemTime::now().into());
    match change {
        Change::All(values) => {
            for (_, token) in values {
                announcements.accept(&token, &keys, now);
            }
        }
        Change::Put(_, token) => announcements.accept(&token, &keys, now),
        Change::Gone(name) => {
            if let Ok(depot) = name.parse() {
                announcements.remove(&depot);
            }
        }
        Change::Lost(why) => {
            tracing::warn!(why, "etcd is unreachable: announcements of other depots may be stale");
        }
    }
}
