// SPDX-License-Identifier: GPL-2.0-or-later
//! A wire between two ends: it passes bytes on, and breaks or changes them if asked to.

use super::bytes;
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::AbortHandle,
    time::sleep,
};

/// What the wire does to a connection.
#[derive(Debug, Clone, Copy)]
pub enum Mishap {
    /// Nothing.
    None,
    /// It breaks after this number of bytes to the acceptor.
    Cut(u64),
    /// A bit of the byte at this offset to the acceptor is turned.
    Flip(u64),
    /// A bit of the byte at this offset from the acceptor is turned.
    FlipBack(u64),
    /// It takes connections, and passes nothing on.
    Hole,
    /// It stays, and passes nothing on after this number of bytes to the acceptor.
    Silent(u64),
    /// It passes this number of bytes a millisecond to the acceptor.
    Slow(u64),
}

/// A wire.
pub struct Wire {
    pub address: SocketAddr,
    /// Bytes that have come to the acceptor's end.
    pub carried: Arc<AtomicU64>,
    /// Connections so far.
    pub connections: Arc<AtomicU64>,
    /// What each connection carried to the acceptor, and back.
    pub seen: Arc<Seen>,
    task: AbortHandle,
}

/// Bytes of both directions of each connection.
pub type Seen = Mutex<Vec<[Vec<u8>; 2]>>;

impl Wire {
    /// A wire to an address, which does to its n-th connection what `mishap` says.
    pub async fn to(end: SocketAddr, mishap: impl Fn(u64) -> Mishap + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let carried = Arc::new(AtomicU64::new(0));
        let connections = Arc::new(AtomicU64::new(0));
        let counts = (Arc::clone(&carried), Arc::clone(&connections));
        let seen = Arc::new(Seen::default());
        let shown = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let mishap = mishap(counts.1.fetch_add(1, Relaxed));
                shown.lock().unwrap().push([Vec::new(), Vec::new()]);
                let number = shown.lock().unwrap().len() - 1;
                let watched = (Arc::clone(&shown), number);
                tokio::spawn(pass(client, end, mishap, Arc::clone(&counts.0), watched));
            }
        });
        Self { address, carried, connections, seen, task: task.abort_handle() }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(
    client: TcpStream,
    end: SocketAddr,
    mishap: Mishap,
    carried: Arc<AtomicU64>,
    (seen, number): (Arc<Seen>, usize),
) {
    let Ok(server) = TcpStream::connect(end).await else { return };
    if matches!(mishap, Mishap::Hole) {
        let _held = (client, server);
        return std::future::pending().await;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let see = |direction: usize| {
        let seen = Arc::clone(&seen);
        move |piece: &[u8]| seen.lock().unwrap()[number][direction].extend_from_slice(piece)
    };
    let up = copy(from_client, to_server, mishap, carried, see(0));
    let back = match mishap {
        Mishap::FlipBack(at) => Mishap::Flip(at),
        _ => Mishap::None,
    };
    let down = copy(from_server, to_client, back, Arc::default(), see(1));
    if let Mishap::Cut(_) = mishap {
        // Where one direction breaks, both do.
        let down = async {
            let _ = down.await;
            std::future::pending::<()>().await;
        };
        tokio::select! { _ = up => (), () = down => () }
    } else {
        let _ = tokio::join!(up, down);
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mishap: Mishap,
    carried: Arc<AtomicU64>,
    see: impl Fn(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut passed = 0;
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let mut piece = &mut buffer[..read];
        match mishap {
            Mishap::Cut(at) if passed + read as u64 > at => {
                let rest = (at - passed) as usize;
                piece = &mut piece[..rest];
                to.write_all(piece).await?;
                return Ok(());
            }
            Mishap::Flip(at) if (passed..passed + read as u64).contains(&at) => {
                piece[(at - passed) as usize] ^= 1 << (at % 8);
            }
            Mishap::Silent(at) if passed + read as u64 > at => return std::future::pending().await,
            Mishap::Slow(rate) => sleep(Duration::from_millis(1 + read as u64 / rate)).await,
            _ => {}
        }
        passed += piece.len() as u64;
        carried.fetch_add(piece.len() as u64, Relaxed);
        see(piece);
        to.write_all(piece).await?;
    }
}

/// Numbers that depend on a seed alone.
pub fn number(seed: u64, below: u64) -> u64 {
    u64::from_le_bytes(bytes(8, seed)[..].try_into().unwrap()) % below.max(1)
}
