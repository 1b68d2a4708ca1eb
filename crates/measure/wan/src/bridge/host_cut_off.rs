// SPDX-License-Identifier: GPL-2.0-or-later
//! Cuts this host's own stack off from the cards of a bridge: it must not answer what passes, and nothing of its own may
//! mix with it.
//!
//! A table of nftables for each card drops what comes in at it, behind the packet socket, and what goes out by it
//! without the bridge's mark. Bridges, VLAN devices and sockets above the card see and send nothing either. The
//! kernel removes the tables with the socket that owns them. Until then it lets nobody else make one of the same name, so
//! no two bridges have the same card.

use crate::error::WanError;
use host::{Device, Lack, Nftables, NftablesError};

/// The mark of frames that the bridge sends.
pub const MARK: u32 = 0x4c4a_0001;

/// Holds while this host is cut off.
pub struct HostCutOff {
    _tables: Nftables,
}

impl HostCutOff {
    /// Cuts the host off from both cards at once.
    pub fn new(cards: [&Device; 2]) -> Result<Self, WanError> {
        let mut nftables = Nftables::open().map_err(lacking)?;
        let tables = cards.map(table).concat();
        if let Err(error) = nftables.run(&tables) {
            return Err(in_use(cards, &mut nftables).unwrap_or_else(|| lacking(error)));
        }
        Ok(Self { _tables: nftables })
    }
}

fn table_name(card: &Device) -> String {
    format!("longhaul_bridge_{}", card.index)
}

fn table(card: &Device) -> String {
    let chain = |name: &str, hook: &str, rule: &str| {
        // Before whatever else there is at this hook.
        let base = format!("type filter hook {hook} device \"{}\" priority -500;", card.name);
        format!("chain {name} {{ {base} policy drop; {rule} }}\n")
    };
    let own = format!("meta mark {MARK:#x} accept;");
    let (received, sent) = (chain("received", "ingress", ""), chain("sent", "egress", &own));
    format!("table netdev {} {{ flags owner;\n{received}{sent}}}\n", table_name(card))
}

/// The card that another bridge has, if that is why there are no tables.
fn in_use(cards: [&Device; 2], nftables: &mut Nftables) -> Option<WanError> {
    let tables = nftables.run("list tables netdev").ok()?;
    let is_there = |card: &&&Device| {
        let line = format!("table netdev {}", table_name(card));
        tables.lines().any(|shown| shown.trim() == line)
    };
    let card = cards.iter().find(is_there)?;
    Some(WanError::Usage(format!(
        "{} is in use by another `longhaul wan bridge`: end that one, or name another card",
        card.name
    )))
}

fn lacking(error: NftablesError) -> WanError {
    match error {
        NftablesError::Missing(lack) => WanError::Lacks(lack),
        NftablesError::Refused(text) => WanError::Lacks(Lack::new(
            format_args!("nftables cannot cut this host off from the cards ({text})"),
            "that takes Linux 5.16 with CONFIG_NF_TABLES_NETDEV and CONFIG_NETFILTER_EGRESS, and nftables 1.0.1",
        )),
    }
}
