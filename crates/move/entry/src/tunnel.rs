// SPDX-License-Identifier: GPL-2.0-or-later
//! Bytes between a client and a server, in both directions, to the end of each.

use bytes::BytesMut;
use relay::{
    copy::{CopyError, CopyMode, IdleTimeouts, Progress, RelayResources, copy_to_end, pipe::Pipes},
    tcp::{Stream, info::reset_on_close},
};
use std::time::Duration;

/// How long nothing may pass. Nobody here is to end what the depots would keep.
const IDLE: Duration = Duration::from_secs(24 * 3600);
/// What a pipe holds, and what all of them may.
const PIPE: usize = 1 << 20;
const ALL_PIPES: usize = 256 << 20;

/// What bytes move through.
pub(crate) fn resources() -> RelayResources {
    RelayResources { mode: CopyMode::Splice, pipes: Pipes::new(PIPE, ALL_PIPES) }
}

/// How much has passed.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// From the client.
    pub up: Progress,
    /// To the client.
    pub down: Progress,
}

/// Passes bytes on until both directions have ended. `ahead` is what the client has sent already. If one side fails, the
/// other is reset, so that a part is not taken for the whole.
pub(crate) async fn tunnel(
    (mut client, ahead): (Stream, BytesMut),
    mut server: Stream,
    resources: &RelayResources,
    passed: &Passed,
) -> Result<(), CopyError> {
    reset_on_close(client.tcp(), true);
    {
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.split(), server.split());
        let idle = IdleTimeouts { source_idle: IDLE, sink_idle: IDLE, ..IdleTimeouts::default() };
        let Passed { up, down } = passed;
        let up = copy_to_end(&mut from_client, ahead, &mut to_server, resources, idle, up);
        let none = BytesMut::new();
        let down = copy_to_end(&mut from_server, none, &mut to_client, resources, idle, down);
        tokio::try_join!(up, down)?;
    }
    // Both have ended in good order.
    reset_on_close(client.tcp(), false);
    reset_on_close(server.tcp(), false);
    Ok(())
}
