// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists all values.

use crate::{
    LONGEST, MOST, read,
    settings::{Error, Settings},
};
use etcd_client::{Client, GetOptions};
use std::time::Duration;
use tokio::time::timeout;

/// Values per page. With values of [`LONGEST`] bytes a page is below the message limit.
const PAGE: i64 = 256;
const _: () = assert!(PAGE as usize * LONGEST <= 2 << 20);

/// All values, within a time limit.
///
/// # Errors
/// etcd is unreachable, refuses, or is too slow.
pub async fn list(settings: &Settings, time: Duration) -> Result<Vec<String>, Error> {
    let listed = async {
        let mut client = settings.connect().await?;
        let (all, _) = all(&mut client, &settings.prefix).await?;
        Ok(all.into_iter().map(|(_, value)| value).collect())
    };
    timeout(time, listed).await.unwrap_or(Err(Error::Late(time)))
}

/// Names and values at one revision, and that revision.
pub(crate) async fn all(
    client: &mut Client,
    prefix: &str,
) -> Result<(Vec<(String, String)>, i64), Error> {
    let (mut from, end) = (prefix.as_bytes().to_vec(), after(prefix));
    let (mut values, mut revision) = (Vec::new(), 0);
    loop {
        let options =
            GetOptions::new().with_range(end.clone()).with_limit(PAGE).with_revision(revision);
        let answer = client.get(from, Some(options)).await?;
        if revision == 0 {
            revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        }
        values.extend(answer.kvs().iter().filter_map(|value| read(prefix, value)));
        match answer.kvs().last() {
            Some(last) if answer.more() && values.len() < MOST => {
                // The smallest key after the last one.
                from = [last.key(), &[0]].concat();
            }
            _ => {
                values.truncate(MOST);
                return Ok((values, revision));
            }
        }
    }
}

/// The smallest key after all keys with this prefix, which ends in a slash.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
