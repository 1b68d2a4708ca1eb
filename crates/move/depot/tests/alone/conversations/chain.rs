// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots of each kind, wires between them, and routes through some of them to an origin.

use super::{
    dice::{Dice, mix},
    ledger::Ledger,
    origin, wires,
};
use crate::common::{pki::Pki, process::Daemon};
use rustix::process::Signal;
use std::{fs, net::SocketAddr, sync::Arc};
use tempfile::TempDir;

/// Impatient, so that what stalls is soon given up.
const SETTINGS: &str = "timeouts.connect = \"500ms\"\ntimeouts.request_head = \"500ms\"\n\
    timeouts.keep_alive = \"500ms\"\ntimeouts.response_head = \"300ms\"\n\
    timeouts.idle = \"300ms\"\ntimeouts.client_idle = \"500ms\"\n\
    timeouts.half_closed = \"200ms\"\nlimits.connections = 20000\nlimits.per_client = 20000\n\
    log.access = \"/dev/null\"\nidle_connections.idle = \"2s\"\n\
    allow.clients = [\"127.0.0.0/8\"]\nallow.upstreams = [\"127.0.0.0/8:*\"]\nallow.local = true\n\
    allow.methods = [\"GET\", \"HEAD\", \"PUT\", \"POST\", \"OPTIONS\"]\n";

/// What each depot is made of: its first lines and its tables.
const KINDS: [(&str, &str); 4] = [
    ("copy = \"splice\"", ""),
    ("copy = \"copy\"\nlimits.pipe = \"64KB\"", ""),
    ("digest = \"sha-256\"", "[[hop]]\npeer = \"127.0.0.0/8\"\nstreams = 4\n"),
    ("limits.pipe = \"64KB\"", ""),
];
/// The number of the one that speaks TLS alone, so that clients do not ask it.
const SECURE: usize = 3;

pub struct Chain {
    pub depots: Vec<Daemon>,
    texts: Vec<String>,
    dir: TempDir,
    _pki: Pki,
    /// How depots are asked by others: directly, and over a wire.
    ways: Vec<[String; 2]>,
    origins: Vec<SocketAddr>,
}

impl Chain {
    pub async fn start(ledger: &Arc<Ledger>, seed: u64) -> Self {
        let (pki, dir) = (Pki::new(), tempfile::tempdir().unwrap());
        let roots = format!("[tls]\nroots = {:?}\n", pki.roots().display().to_string());
        let text = |n: usize| {
            let (first, tables) = KINDS[n];
            let own = format!("id = \"d{n}\"\n{SETTINGS}{first}\n");
            if n == SECURE {
                pki.settings("own", &own)
            } else {
                format!("listen = [\"127.0.0.1:0\"]\n{own}{roots}{tables}")
            }
        };
        let texts: Vec<_> = (0..KINDS.len()).map(text).collect();
        let file = |n: usize| dir.path().join(format!("d{n}.toml"));
        let depots: Vec<_> =
            texts.iter().enumerate().map(|(n, text)| Daemon::of_file(&file(n), text)).collect();
        let (mut ways, mut origins) = (Vec::new(), Vec::new());
        for (n, depot) in depots.iter().enumerate() {
            let wire = wires::start(depot.address, mix(&[seed, n as u64])).await;
            let scheme = if n == SECURE { "https:" } else { "" };
            ways.push([depot.address, wire].map(|address| format!("{scheme}{address}")));
        }
        for at in 2..5 {
            origins.push(origin::start(&format!("127.0.0.{at}:0"), Arc::clone(ledger)).await);
        }
        Self { depots, texts, dir, _pki: pki, ways, origins }
    }

    /// Where a client connects, and what it asks for there.
    pub fn route(&self, dice: &mut Dice) -> (SocketAddr, String) {
        let mut left: Vec<usize> = (0..self.depots.len()).collect();
        let first = dice.below(SECURE);
        left.retain(|n| *n != first);
        let mut chain = Vec::new();
        for _ in 0..dice.below(3) {
            let next = left.swap_remove(dice.below(left.len()));
            chain.push(self.ways[next][usize::from(dice.often(400))].clone());
        }
        let chain = if chain.is_empty() { "-".to_owned() } else { chain.join(",") };
        let origin = dice.pick(&self.origins);
        (self.depots[first].address, format!("/lh1/fetch/{chain}/http:{origin}"))
    }

    /// Has one of the depots read its settings again, a little changed.
    pub fn reload(&self, dice: &mut Dice) {
        let n = dice.below(self.depots.len());
        let per_hop = *dice.pick(&[1, 2, 16, 256]);
        let text = format!("idle_connections.per_hop = {per_hop}\n{}", self.texts[n]);
        // Renamed, so that no half of it is read.
        let file = self.dir.path().join(format!("d{n}.toml"));
        let new = file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &file).unwrap();
        self.depots[n].signal(Signal::HUP);
    }
}
