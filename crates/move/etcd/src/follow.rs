// SPDX-License-Identifier: GPL-2.0-or-later
//! Watches all values.

use crate::{
    PAUSE,
    list::all,
    read,
    settings::{Error, Settings},
};
use etcd_client::{Event, EventType, KeyValue, WatchOptions, WatchResponse};
use tokio::time::sleep;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// All values: each key without the prefix, and the value.
    All(Vec<(String, String)>),
    /// A new or changed value.
    Put(String, String),
    /// A removed value.
    Gone(String),
    /// The connection is lost, so values may be stale. Reported once per outage.
    Lost(String),
}

/// Reports all values, then each change, until dropped. After a lost connection it resumes at the last revision, or reports all values
/// again if that was compacted.
pub async fn follow(settings: &Settings, mut tell: impl FnMut(Change)) {
    let (mut revision, mut failures) = (None, 0);
    loop {
        let mut stood = false;
        let Err(error) = watch(settings, &mut revision, &mut tell, &mut stood).await;
        if stood {
            failures = 0;
        }
        if failures == 0 {
            tell(Change::Lost(error.to_string()));
        }
        failures += 1;
        sleep(PAUSE.after(failures)).await;
    }
}

/// A watch lasts until it fails.
enum Never {}

/// Uses one connection. `revision` is the last fully reported one. `stood` is set once the watch is established.
async fn watch(
    settings: &Settings,
    revision: &mut Option<i64>,
    tell: &mut impl FnMut(Change),
    stood: &mut bool,
) -> Result<Never, Error> {
    let mut client = settings.connect().await?;
    let known = if let Some(known) = *revision {
        known
    } else {
        let (values, known) = all(&mut client, &settings.prefix).await?;
        tell(Change::All(values));
        *revision = Some(known);
        known
    };
    let options = WatchOptions::new().with_prefix().with_start_revision(known + 1);
    let mut changes = client.watch(settings.prefix.as_str(), Some(options)).await?;
    loop {
        let ended = || Error::Ended("it has ended the watch".to_owned());
        let answer = changes.message().await?.ok_or_else(ended)?;
        if answer.compact_revision() > 0 {
            *revision = None;
        }
        *stood |= !answer.canceled();
        if answer.canceled() {
            return Err(Error::Ended(format!(
                "it has ended the watch: {}",
                answer.cancel_reason()
            )));
        }
        take(&answer, &settings.prefix, tell);
        // Events of one revision come in one answer.
        let last = answer.events().iter().filter_map(Event::kv).map(KeyValue::mod_revision);
        *revision = last.max().max(*revision);
    }
}

fn take(answer: &WatchResponse, prefix: &str, tell: &mut impl FnMut(Change)) {
    for event in answer.events() {
        let Some(value) = event.kv() else { continue };
        match event.event_type() {
            EventType::Put => {
                if let Some((name, text)) = read(prefix, value) {
                    tell(Change::Put(name, text));
                }
            }
            EventType::Delete => {
                if let Some(name) = value.key_str().ok().and_then(|key| key.strip_prefix(prefix)) {
                    tell(Change::Gone(name.to_owned()));
                }
            }
        }
    }
}
