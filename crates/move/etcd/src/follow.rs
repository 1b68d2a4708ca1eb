// SPDX-License-Identifier: GPL-2.0-or-later
//! All that is there, and each change.

use crate::{
    PAUSE,
    list::all,
    read,
    settings::{Error, Settings},
};
use etcd_client::{Event, EventType, KeyValue, WatchOptions, WatchResponse};
use tokio::time::sleep;

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// These values are there, and no others: the rest of each key, and the value.
    All(Vec<(String, String)>),
    /// This value is new, or has changed.
    Put(String, String),
    /// This value is there no more.
    Gone(String),
    /// etcd is not reached: what is known may be old. Once for each time.
    Lost(String),
}

/// Tells all that is there, and then each change, until it is dropped. After a lost connection it goes on from the last revision, and
/// tells all again if etcd does not remember that.
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

/// Nothing: a watch lasts until it fails.
enum Never {}

/// By one connection. `revision` is the last one of which all is known; `stood` says that changes were heard of.
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
