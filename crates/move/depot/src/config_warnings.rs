// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings that are valid but rarely intended. The depot warns of them at the start and at each reload, and
//! so does `depot check`.

use crate::{certificate::Problem, config::Config, tls::Tls};
use ipnet::IpNet;
use protocol::{DepotAddress, Scheme};

/// Warns of each of them.
pub(crate) fn warn(config: &Config, tls: &Tls) {
    for Finding { setting, effect, remedy } in findings(config, tls) {
        tracing::warn!(setting, remedy, "{effect}");
    }
}

/// A doubtful setting.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    setting: &'static str,
    effect: String,
    remedy: String,
}

impl Finding {
    fn new(setting: &'static str, effect: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { setting, effect: effect.into(), remedy: remedy.into() }
    }
}

fn findings(config: &Config, tls: &Tls) -> Vec<Finding> {
    let mut found: Vec<Finding> = closed(config).into_iter().collect();
    found.extend(open_to_all(config));
    found.extend(shown_to_others(config));
    found.extend(networks(config).into_iter().filter_map(|(setting, net)| host_bits(setting, net)));
    // Otherwise TLS ends before the depot, and the names are those of what is there.
    if !config.tls.listen.is_empty() {
        found.extend(config.names.iter().filter_map(|name| refused_name(name, tls)));
        found.extend(refused_certificates(tls));
    }
    found
}

/// A depot that serves no client.
fn closed(config: &Config) -> Option<Finding> {
    let listed = !config.allow.clients.is_empty();
    let by_ticket = config.trust.keys.is_some();
    let is_open = by_ticket || (listed && !config.trust.required) || !config.sites.is_empty();
    if is_open {
        return None;
    }
    Some(if listed {
        let effect = "this depot serves no client: it requires tickets and trusts no key";
        Finding::new(
            "trust.keys",
            effect,
            "name a file with public keys, or leave `trust.required` out",
        )
    } else {
        let effect = "this depot serves no client: it lists no clients, trusts no key for tickets and has no [[site]]";
        Finding::new("allow.clients", effect, "list the clients' networks, or set `trust.keys`")
    })
}

/// A depot by which everybody reaches everything.
fn open_to_all(config: &Config) -> Option<Finding> {
    let is_all = |net: &IpNet| net.prefix_len() == 0;
    let upstreams = config.allow.upstreams.iter().map(|rule| ("allow.upstreams", rule));
    let servers = config.allow.servers.iter().map(|rule| ("allow.servers", rule));
    let to_all =
        upstreams.chain(servers).find(|(_, rule)| rule.network().is_some_and(|n| is_all(&n)));
    let (setting, rule) =
        to_all.filter(|_| config.allow.clients.iter().any(is_all) && !config.trust.required)?;
    let effect =
        format!("any client can reach any host through this depot (`{setting}` has {rule})");
    Some(Finding::new(
        "allow.clients",
        effect,
        "list the clients' networks, or the hosts that they need",
    ))
}

/// An admin page that others than this host's users may reach.
fn shown_to_others(config: &Config) -> Option<Finding> {
    let address =
        config.admin.listen.filter(|address| !address.ip().to_canonical().is_loopback())?;
    let reach = if address.ip().is_unspecified() {
        "everyone who can reach any address of this host".to_owned()
    } else {
        format!("everyone who can reach {}", address.ip())
    };
    let effect = format!("{reach} sees at port {} which client fetches what", address.port());
    let remedy = format!(
        "listen on 127.0.0.1:{0}, or let a firewall pass only operators to port {0}",
        address.port()
    );
    Some(Finding::new("admin.listen", effect, remedy))
}

/// All networks of the configuration, with their settings.
fn networks(config: &Config) -> Vec<(&'static str, IpNet)> {
    let of =
        |setting, nets: &[IpNet]| nets.iter().map(move |net| (setting, *net)).collect::<Vec<_>>();
    let rules =
        [("allow.upstreams", &config.allow.upstreams), ("allow.servers", &config.allow.servers)];
    let mut all = of("allow.clients", &config.allow.clients);
    for (setting, rules) in rules {
        all.extend(rules.iter().filter_map(|rule| Some((setting, rule.network()?))));
    }
    all.extend(of("trust.depots", &config.trust.depots));
    all.extend(config.hops.iter().map(|hop| ("hop.peer", hop.peer)));
    all.extend(config.sites.iter().flat_map(|site| of("site.clients", &site.clients)));
    all
}

/// A network that is written with an address in it, as 10.0.0.5/8.
fn host_bits(setting: &'static str, net: IpNet) -> Option<Finding> {
    if net.trunc() == net {
        return None;
    }
    let effect = format!(
        "{net} means all of {}, from {} to {}",
        net.trunc(),
        net.network(),
        net.broadcast()
    );
    let remedy = format!(
        "write {}, or for the one address {}/{}",
        net.trunc(),
        net.addr(),
        net.max_prefix_len()
    );
    Some(Finding::new(setting, effect, remedy))
}

/// A name of the depot for which clients refuse its certificate.
fn refused_name(name: &DepotAddress, tls: &Tls) -> Option<Finding> {
    if name.scheme != Scheme::Https {
        return None;
    }
    let objection = tls.objection(&name.authority.host)?;
    let effect = format!("clients that ask for {name} refuse the certificate: {objection}");
    Some(Finding::new(
        "names",
        effect,
        "get a certificate that covers the name, or correct the name",
    ))
}

/// Certificates that clients refuse whatever they call the depot by. Their time is spoken of each day.
fn refused_certificates(tls: &Tls) -> impl Iterator<Item = Finding> {
    let is_said = |problem: &Problem| {
        matches!(problem, Problem::Expired | Problem::NotYet | Problem::Name(_))
    };
    tls.problems().flat_map(move |(file, problems)| {
        let file = file.display().to_string();
        problems.into_iter().filter(move |problem| !is_said(problem)).map(move |problem| {
            let effect =
                format!("clients, such as other depots, refuse the certificate {file}: {problem}");
            Finding::new("tls.certificate", effect, problem.remedy())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Finding> {
        let config = Config::from_toml(text, "x").unwrap();
        let tls = Tls::new(&config).unwrap();
        findings(&config, &tls)
    }

    /// The settings that are warned of, and all texts.
    fn said(text: &str) -> (Vec<&'static str>, String) {
        let found = found(text);
        let texts: Vec<_> =
            found.iter().map(|it| format!("{} ({})", it.effect, it.remedy)).collect();
        (found.iter().map(|it| it.setting).collect(), texts.join("\n"))
    }

    const OPEN: &str = "allow.clients = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n";

    #[test]
    fn sound_config_gives_no_warning() {
        for text in [
            OPEN,
            "admin.listen = \"127.0.0.1:1\"\nallow.clients = [\"192.0.2.1/32\"]",
            "admin.listen = \"[::1]:1\"\nallow.clients = [\"0.0.0.0/0\"]\nallow.upstreams = [\"o:*\"]",
            "[[site]]\nname = \"d.example\"\norigin = \"http://o\"",
            // Behind a proxy that speaks TLS.
            "names = [\"https:d.example\"]\nallow.clients = [\"10.0.0.0/8\"]",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn depot_without_clients_gives_a_warning() {
        assert_eq!(said("").0, ["allow.clients"]);
        let (settings, text) = said(&format!("{OPEN}trust.required = true"));
        assert!(settings == ["trust.keys"] && text.contains("requires tickets"), "{text}");
    }

    #[test]
    fn open_depot_gives_a_warning() {
        let all = "allow.clients = [\"0.0.0.0/0\"]\nallow.upstreams = [\"::/0:80\"]\n";
        let (settings, text) = said(all);
        assert!(settings == ["allow.clients"] && text.contains("::/0:80"), "{text}");
        // Sessions need no password, also where a proxy's users do.
        let (settings, text) = said(&all.replace("upstreams", "servers"));
        assert!(settings == ["allow.clients"] && text.contains("`allow.servers` has"), "{text}");
    }

    #[test]
    fn reachable_admin_page_gives_a_warning() {
        for (listen, part) in [
            ("0.0.0.0:3881", "any address of this host sees at port 3881"),
            ("[::]:3881", "any address of this host"),
            ("192.0.2.7:3881", "everyone who can reach 192.0.2.7 sees"),
        ] {
            let (settings, text) = said(&format!("{OPEN}admin.listen = \"{listen}\""));
            assert!(settings == ["admin.listen"] && text.contains(part), "{listen}: {text}");
        }
    }

    #[test]
    fn host_bits_of_every_network_are_explained() {
        let text = "allow.clients = [\"10.0.0.5/8\"]\n\
                    allow.upstreams = [\"10.0.0.5/8:80\", \"o:80\", \"10.0.0.5:80\"]\n\
                    allow.servers = [\"10.0.0.5/8:80\"]\ntrust.depots = [\"2001:db8::1/32\"]\n\
                    [[hop]]\npeer = \"10.0.0.5/8\"\n\
                    [[site]]\nname = \"d.example\"\norigin = \"http://o\"\nclients = [\"10.0.0.5/8\"]";
        let (settings, text) = said(text);
        let all = [
            "allow.clients",
            "allow.upstreams",
            "allow.servers",
            "trust.depots",
            "hop.peer",
            "site.clients",
        ];
        assert_eq!(settings, all);
        for part in [
            "10.0.0.5/8 means all of 10.0.0.0/8, from 10.0.0.0 to 10.255.255.255",
            "for the one address 10.0.0.5/32",
            "2001:db8::1/32 means all of 2001:db8::/32",
            "for the one address 2001:db8::1/128",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
