// SPDX-License-Identifier: GPL-2.0-or-later
//! Cuts this host's own stack off from the cards of a bridge: it must not answer what passes, and nothing of its own may
//! mix with it.
//!
//! A table of nftables drops what comes in at the cards, behind the packet sockets, and what goes out
//! by them without the bridge's mark. Bridges, VLAN devices and sockets above the cards see and send nothing
//! either. The kernel removes the table with the socket that owns it.

use crate::error::WanError;
use host::{Device, Lack, Nftables, NftablesError};

/// The mark of frames that the bridge sends.
pub const MARK: u32 = 0x4c4a_0001;

/// Holds while this host is cut off.
pub struct HostCutOff {
    _table: Nftables,
}

impl HostCutOff {
    /// Cuts the host off from both cards at once.
    pub fn new(cards: [&Device; 2]) -> Result<Self, WanError> {
        let mut nftables = Nftables::open().map_err(lacking)?;
        nftables.run(&table(cards)).map_err(lacking)?;
        Ok(Self { _table: nftables })
    }
}

fn table([a, b]: [&Device; 2]) -> String {
    let name = format!("longhaul_bridge_{}_{}", a.index, b.index);
    let chain = |name: &str, hook: &str, rule: &str| {
        let devices = format!("devices = {{ \"{}\", \"{}\" }}", a.name, b.name);
        // Before whatever else there is at this hook.
        let base = format!("type filter hook {hook} {devices} priority -500; policy drop;");
        format!("chain {name} {{ {base} {rule} }}\n")
    };
    let own = format!("meta mark {MARK:#x} accept;");
    format!(
        "table netdev {name} {{ flags owner;\n{}{}}}\n",
        chain("received", "ingress", ""),
        chain("sent", "egress", &own)
    )
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
