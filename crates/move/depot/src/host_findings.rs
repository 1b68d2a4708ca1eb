// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings of this host that slow transfers: the start on connections that depots keep for each other, and all of them once
//! the kernel is short of memory for TCP.

use crate::config::{Buffers, Config};
use host::{Pressure, sysctl};
use ipnet::IpNet;

/// Begins again with a small window after idleness, where the congestion control leaves that to TCP.
const RESTART: &str = "net.ipv4.tcp_slow_start_after_idle";
/// The congestion control of connections that no hop speaks of.
const DEFAULT: &str = "net.ipv4.tcp_congestion_control";
/// Least, first and largest size of a buffer that the kernel tunes.
const BUFFERS: [&str; 2] = ["net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"];
/// Where the kernel is short of memory for TCP, in pages.
const MEMORY: &str = "net.ipv4.tcp_mem";
/// No warning if the maximum size is at least this many bytes.
const ENOUGH: u64 = 16 << 20;
/// What is advised: 5 Gb/s over 100 ms.
const ADVISED: u64 = 64 << 20;

/// Warns of each host setting that slows connections between depots, and says what to do about it. Each is named once,
/// for however many networks it matters.
pub fn warn_of_host_settings(config: &Config) {
    findings_here(config).into_iter().for_each(Finding::warn);
}

/// Warns of those that did not matter under the settings `before`.
pub(crate) fn warn_of_new(before: &Config, config: &Config) {
    let known = findings_here(before);
    let new = findings_here(config).into_iter().filter(|new| !new.is_among(&known));
    new.for_each(Finding::warn);
}

fn findings_here(config: &Config) -> Vec<Finding> {
    findings(config, |key| sysctl::read(key).ok())
}

/// A setting that costs time.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    setting: &'static str,
    value: String,
    effect: String,
    remedy: String,
}

impl Finding {
    fn warn(self) {
        let Self { setting, value, effect, remedy } = self;
        tracing::warn!(setting, value, remedy, "{effect}");
    }

    fn is_among(&self, known: &[Self]) -> bool {
        known.iter().any(|known| known.setting == self.setting && known.value == self.value)
    }
}

/// Networks as a message names them: one, and how many more.
fn named(nets: &[&IpNet]) -> String {
    match nets {
        [] => String::new(),
        [net] => net.to_string(),
        [net, more @ ..] => format!("{net} and {} more", more.len()),
    }
}

/// What the settings, as `read` gives them, mean for this depot's connections.
fn findings(config: &Config, read: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let page = rustix::param::page_size() as u64;
    let mut found = findings_between_depots(config, &read);
    found.extend(read(MEMORY).and_then(|value| short_of_memory(config, value, page)));
    found
}

/// Whether the kernel is short of memory for TCP before transfers hold all of `limits.memory`.
fn short_of_memory(config: &Config, value: String, page: u64) -> Option<Finding> {
    let (begins, limit) = (Pressure::parse(&value, page)?.begins, config.limits.memory);
    let pages = limit.get().div_ceil(page);
    (begins < limit).then(|| Finding {
        setting: MEMORY,
        value,
        effect: format!(
            "the kernel is short of memory for TCP with more than {begins}, before transfers hold limits.memory = {limit}: \
             then no window grows, and connections creep. The depot saves before"
        ),
        remedy: format!(
            "sysctl -w {MEMORY}=\"{} {} {}\", if the machine has the memory, or a lower limits.memory",
            pages,
            pages + pages / 4,
            pages + pages / 2
        ),
    })
}

/// What they mean for connections with the depots that this one trusts.
fn findings_between_depots(
    config: &Config,
    read: &impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let depots = &config.trust.depots;
    let default = read(DEFAULT).unwrap_or_default();
    let congestion = |net: &IpNet| {
        let hop = config.hop_around(net).and_then(|hop| hop.congestion.clone());
        hop.unwrap_or_else(|| default.clone())
    };
    let restarts = |net: &&IpNet| !decides_every_window(&congestion(net));
    if let Some(value) = read(RESTART).filter(|value| value != "0")
        && let restarting = depots.iter().filter(restarts).collect::<Vec<_>>()
        && let Some(net) = restarting.first()
    {
        let (name, nets) = (congestion(net), named(&restarting));
        found.push(Finding {
            setting: RESTART,
            value,
            effect: format!(
                "{name} towards {nets} begins with a small window after idleness, also on warm connections"
            ),
            remedy: format!("sysctl -w {RESTART}=0"),
        });
    }
    let is_tuned = |net: &&IpNet| {
        let hop = config.hop_around(net);
        hop.is_none_or(|hop| hop.sndbuf.is_none() && hop.rcvbuf.is_none())
    };
    let tuned: Vec<&IpNet> = depots.iter().filter(is_tuned).collect();
    let Some(net) = tuned.first() else { return found };
    let raises = config.hop_around(net).is_none_or(|hop| hop.buffers == Buffers::Auto);
    let until = if raises { " until the depot has raised the buffer" } else { "" };
    for setting in BUFFERS {
        let Some(value) = read(setting) else { continue };
        let words: Vec<u64> = value.split(' ').filter_map(|word| word.parse().ok()).collect();
        let &[least, first, largest] = words.as_slice() else { continue };
        if largest < ENOUGH {
            // Over 100 ms, of which a second has ten.
            let mb_per_s = largest as f64 * 10.0 / 1e6;
            found.push(Finding {
                setting,
                effect: format!(
                    "a connection with {} moves {mb_per_s:.0} MB/s at most over 100 ms{until}",
                    named(&tuned)
                ),
                remedy: format!("sysctl -w {setting}=\"{least} {first} {ADVISED}\""),
                value,
            });
        }
    }
    found
}

/// Whether a congestion control sets the window at each acknowledgement (`cong_control`): then TCP
/// does not make it smaller after idleness.
fn decides_every_window(name: &str) -> bool {
    name.starts_with("bbr") || matches!(name, "lh_bbr" | "lh_fast" | "lh_libra")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "trust.depots = [\"10.1.0.0/16\"]";

    fn found(text: &str, restart: &str, default: &str, largest: &str) -> Vec<Finding> {
        let config = Config::from_toml(text, "x").unwrap();
        findings(&config, |key| {
            Some(match key {
                RESTART => restart.to_owned(),
                DEFAULT => default.to_owned(),
                MEMORY => "288459 384612 576918".to_owned(),
                _ => format!("4096 16384 {largest}"),
            })
        })
    }

    #[test]
    fn slow_host_settings_are_named_with_remedy() {
        let all = found(TEXT, "1", "cubic", "4194304");
        let settings: Vec<_> = all.iter().map(|finding| finding.setting).collect();
        assert_eq!(settings, [RESTART, BUFFERS[0], BUFFERS[1]]);
        assert_eq!(all[0].remedy, "sysctl -w net.ipv4.tcp_slow_start_after_idle=0");
        assert!(all[0].effect.starts_with("cubic towards 10.1.0.0/16"), "{:?}", all[0]);
        assert_eq!(all[1].remedy, "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 67108864\"");
        assert!(all[1].effect.contains("42 MB/s at most over 100 ms until"), "{:?}", all[1]);
    }

    #[test]
    fn host_setting_is_named_once_for_many_networks() {
        let text = "trust.depots = [\"10.1.0.0/16\", \"10.2.0.0/16\", \"10.3.0.0/16\"]\n\
                    [[hop]]\npeer = \"10.2.0.0/16\"\n[[hop]]\npeer = \"10.3.0.0/16\"";
        let all = found(text, "1", "cubic", "4194304");
        let settings: Vec<_> = all.iter().map(|finding| finding.setting).collect();
        assert_eq!(settings, [RESTART, BUFFERS[0], BUFFERS[1]]);
        for finding in &all {
            assert!(finding.effect.contains("10.1.0.0/16 and 2 more"), "{finding:?}");
        }
        // After a reload, only what is new.
        let before = found(TEXT, "0", "cubic", "4194304");
        let new: Vec<_> = all.iter().filter(|finding| !finding.is_among(&before)).collect();
        assert!(matches!(new[..], [Finding { setting: RESTART, .. }]), "{new:?}");
    }

    #[test]
    fn kernel_that_saves_before_the_depot_is_named() {
        let short = |limit: &str, tcp_mem: &str| {
            let config = Config::from_toml(&format!("limits.memory = \"{limit}\""), "x").unwrap();
            short_of_memory(&config, tcp_mem.to_owned(), 4096)
        };
        // Of a machine with 4 GB.
        let found = short("1GB", "46000 61440 92000").unwrap();
        assert_eq!(found.setting, MEMORY);
        assert!(found.effect.contains("more than 240MB"), "{found:?}");
        let remedy = "sysctl -w net.ipv4.tcp_mem=\"262144 327680 393216\"";
        assert!(found.remedy.starts_with(remedy), "{found:?}");
        assert_eq!(short("1GB", "262144 327680 393216"), None);
        assert_eq!([short("200MB", "46000 61440 92000"), short("1GB", "?")], [None, None]);
    }

    #[test]
    fn good_host_settings_give_no_warning() {
        assert!(found("", "1", "cubic", "4194304").is_empty(), "no depot");
        assert!(found(TEXT, "0", "cubic", "67108864").is_empty());
        assert!(found(TEXT, "1", "bbr", "67108864").is_empty());
        let hop = "\n[[hop]]\npeer = \"10.0.0.0/8\"\n";
        let paced = format!("{TEXT}{hop}congestion = \"lh_bbr\"");
        assert!(found(&paced, "1", "cubic", "67108864").is_empty());
        let window = format!("{TEXT}{hop}congestion = \"lh_htcp\"");
        assert_eq!(found(&window, "1", "bbr", "67108864").len(), 1);
        let fixed = format!("{TEXT}{hop}sndbuf = \"64MB\"");
        assert!(found(&fixed, "0", "cubic", "4194304").is_empty());
        let kernel = format!("{TEXT}{hop}buffers = \"kernel\"");
        assert!(!found(&kernel, "0", "cubic", "4194304")[0].effect.contains("until"));
    }
}
