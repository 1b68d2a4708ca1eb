// SPDX-License-Identifier: GPL-2.0-or-later
//! All that is there.

use crate::{
    LONGEST, MOST, read,
    settings::{Error, Settings},
};
use etcd_client::{Client, GetOptions};
use std::time::Duration;
use tokio::time::timeout;

/// Values of a page: of at most [`LONGEST`] bytes they are a part of what a message may hold.
const PAGE: i64 = 256;
const _: () = assert!(PAGE as usize * LONGEST <= 2 << 20);

/// All values, within this time.
///
/// # Errors
/// Why there are none.
pub async fn list(settings: &Settings, time: Duration) -> Result<Vec<String>, Error> {
    let listed = async {
        let mut client = settings.connect().await?;
        let (all, _) = all(&mut client, &settings.prefix).await?;
        Ok(all.into_iter().map(|(_, value)| value).collect())
    };
    timeout(time, listed).await.unwrap_or(Err(Error::Late(time)))
}

/// Names and values as they were at one moment, and the revision of it.
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
                // The next key there can be.
                from = [last.key(), &[0]].concat();
            }
            _ => {
                values.truncate(MOST);
                return Ok((values, revision));
            }
        }
    }
}

/// The first key behind all that begin with a prefix, which ends in a slash.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
