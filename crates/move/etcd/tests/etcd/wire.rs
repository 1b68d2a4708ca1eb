// SPDX-License-Identifier: GPL-2.0-or-later
//! A wire to etcd that can be cut and held.

use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp},
    sync::watch,
    task::AbortHandle,
};

/// What a wire does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Passes,
    /// Connections break, and no new one comes about.
    Cut,
    /// Nothing passes, and nothing breaks.
    Held,
}

/// A wire to etcd.
pub struct Wire {
    pub address: SocketAddr,
    mode: Arc<watch::Sender<Mode>>,
    task: AbortHandle,
}

impl Wire {
    pub async fn to(end: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mode = Arc::new(watch::Sender::new(Mode::Passes));
        let modes = Arc::clone(&mode);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let mut mode = modes.subscribe();
                tokio::spawn(async move {
                    if *mode.borrow() == Mode::Cut {
                        return;
                    }
                    let Ok(server) = TcpStream::connect(end).await else { return };
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    let both = async {
                        tokio::select! {
                            () = copy(from_client, to_server, mode.clone()) => (),
                            () = copy(from_server, to_client, mode.clone()) => (),
                        }
                    };
                    let mut cut = mode.clone();
                    tokio::select! {
                        () = both => (),
                        _ = cut.wait_for(|mode| *mode == Mode::Cut) => (),
                    }
                    mode.mark_unchanged();
                });
            }
        });
        Self { address, mode, task: task.abort_handle() }
    }

    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    pub fn hold(&self) {
        self.mode.send_replace(Mode::Held);
    }

    pub fn restore(&self) {
        self.mode.send_replace(Mode::Passes);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn copy(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        while *mode.borrow_and_update() == Mode::Held {
            if mode.changed().await.is_err() {
                return;
            }
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
