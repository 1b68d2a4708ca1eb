// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction of a plain relay.

use crate::{
    copy::{Copy, CopyError, Ends, IdleTimeouts, Progress, RelayResources},
    tcp::{Sink, Source},
};
use bytes::BytesMut;

/// Copies until the source's end, what was read of it already first, and then ends the sink's direction. `progress` counts
/// the bytes.
///
/// # Errors
/// It broke off; [`CopyError`] says where.
pub async fn copy_to_end(
    source: &mut Source<'_>,
    mut ahead: BytesMut,
    sink: &mut Sink<'_>,
    resources: &RelayResources,
    timeouts: IdleTimeouts,
    progress: &Progress,
) -> Result<(), CopyError> {
    let ends = Ends { source, ahead: &mut ahead, sink };
    let mut copy: Copy<'_, '_, '_> = Copy::new(ends, resources, timeouts, progress);
    let copied = match copy.data(None).await {
        Ok(()) => copy.flush().await,
        Err(error) => Err(error),
    };
    copy.end();
    copied?;
    sink.shut().await.map_err(CopyError::SinkGone)
}
