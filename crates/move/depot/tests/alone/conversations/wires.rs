// SPDX-License-Identifier: GPL-2.0-or-later
//! Stretches between depots that divide, delay and cut what passes. A wire that cuts resets: one that
//! ended a connection in good order could not be told from the depot behind it.

use super::dice::Dice;
use socket2::SockRef;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};

/// Has a connection end by a reset once it is dropped.
pub fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// A way to `to`, for as long as the runtime lives.
pub async fn start(to: SocketAddr, seed: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut dice = Dice::new(seed);
        while let Ok((near, _)) = listener.accept().await {
            let cut = dice
                .often(150)
                .then(|| if dice.often(500) { dice.below(3000) } else { dice.below(200_000) });
            let bits = dice.often(100);
            tokio::spawn(async move {
                let mut near = near;
                let Ok(mut far) = TcpStream::connect(to).await else { return reset(&near) };
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let passed = {
                    let ((from_near, to_near), (from_far, to_far)) = (near.split(), far.split());
                    let forth = pass(from_near, to_far, usize::MAX, false);
                    let back = pass(from_far, to_near, cut.unwrap_or(usize::MAX), bits);
                    tokio::try_join!(forth, back)
                };
                if passed.is_err() {
                    reset(&near);
                    reset(&far);
                }
            });
        }
    });
    address
}

/// Passes bytes on, up to a maximum. After an error both connections must be reset.
async fn pass(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut left: usize,
    bits: bool,
) -> Result<(), ()> {
    let mut buffer = vec![0; if bits { 700 } else { 65_536 }];
    loop {
        let read = from.read(&mut buffer).await;
        let passed = match read {
            Ok(0) => {
                let _ = to.shutdown().await;
                return Ok(());
            }
            Ok(length) if length <= left => {
                left -= length;
                to.write_all(&buffer[..length]).await.is_ok()
            }
            Ok(_) => {
                let _ = to.write_all(&buffer[..left]).await;
                false
            }
            Err(_) => false,
        };
        if !passed {
            return Err(());
        }
        if bits {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
