// SPDX-License-Identifier: GPL-2.0-or-later
//! What this build can do, for `longhaul --version`.

use congestion::Algorithm;
use experiment::Method;
use std::sync::LazyLock;

/// The version, and what is in it.
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let sources = [
            ("emu", ::lab::part::SOURCES),
            ("field", field::SOURCES),
            ("model", model::Modelled.source_hash()),
            ("sim", sim::Simulated.source_hash()),
        ];
        let methods = sources.map(|(name, hash)| format!("  {name:<7}{hash}")).join("\n");
        let names: Vec<String> = Algorithm::all().iter().map(Algorithm::kernel_name).collect();
        format!(
            "{}\n\
             methods of running scenarios, and the SHA-256 of their sources:\n{methods}\n\
             congestion controls, in the simulator and by eBPF:\n  {}\n\
             records: schema {}",
            env!("CARGO_PKG_VERSION"),
            names.join(" "),
            record::SCHEMA,
        )
    });
    &TEXT
}
