// SPDX-License-Identifier: GPL-2.0-or-later
//! The input files that a configuration names.

use crate::config::Config;
use host::SettingFile;
use std::path::PathBuf;

impl Config {
    /// All of them, with their settings.
    pub(crate) fn files(&self) -> Vec<SettingFile> {
        let of_depot = [
            ("tls.certificate", &self.tls.certificate),
            ("tls.key", &self.tls.key),
            ("tls.roots", &self.tls.roots),
            ("trust.keys", &self.trust.keys),
            ("trust.revoked", &self.trust.revoked),
            ("proxy.passwords", self.proxy.as_ref().map_or(&None, |proxy| &proxy.passwords)),
        ];
        let of_sites = self
            .sites
            .iter()
            .flat_map(|site| [("site.certificate", &site.certificate), ("site.key", &site.key)]);
        let named = |(setting, path): (&'static str, &Option<PathBuf>)| {
            Some(SettingFile::new(setting, path.as_deref()?))
        };
        of_depot.into_iter().chain(of_sites).filter_map(named).collect()
    }
}
