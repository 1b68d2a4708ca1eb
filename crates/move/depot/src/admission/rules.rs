// SPDX-License-Identifier: GPL-2.0-or-later
//! For whom, and to where, a depot relays.
//!
//! A client must come from a listed network, and the next hop must match a listed rule. A rule
//! with a name admits whatever addresses that name has; a rule with a network admits addresses,
//! also those that a name resolves to. A ticket admits its own next hop, whatever the rules say.
//! Addresses of this host itself (loopback, link-local, its own) are refused unless `allow.local` is
//! set, and those of private networks unless `allow.private` is, or a rule names the network, or the hop is one that
//! the configuration itself has a site lead to:
//! services that trust those would otherwise be open to every client. The addresses that were checked
//! are the ones connected to, so that a name that changes its address meanwhile gains nothing.

use crate::{
    admission::{
        address_class::AddressClass,
        verdict::{Grant, Objection, Verdict},
    },
    config::{Allow, UpstreamRule},
};
use http::StatusCode;
use protocol::{
    Authority, Host,
    http::{Fault, ProxyError},
};
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};

impl Allow {
    /// Whether the depot works for this client.
    pub(crate) fn client(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.clients.iter().any(|net| net.contains(&ip))
    }

    /// What the rules say of a next hop.
    pub(crate) fn upstream(&self, hop: &Authority, grant: Grant) -> Verdict {
        let any = |rule: &dyn Fn(&UpstreamRule) -> bool| self.rules(grant).iter().any(rule);
        let by_rules = matches!(grant, Grant::Rules | Grant::ServerRules);
        match &hop.host {
            Host::Ip(ip) if any(&|r| r.admits_ip(*ip, hop.port)) => Verdict::Listed,
            Host::Name(name) if any(&|r| r.admits_name(name, hop.port)) => Verdict::Listed,
            Host::Name(_) if by_rules && any(&|r| r.may_admit_address(hop.port)) => {
                Verdict::ByAddress
            }
            Host::Ip(_)
                if grant == Grant::ServerRules && self.server_names(hop.port).next().is_some() =>
            {
                Verdict::ByListedName
            }
            _ if grant == Grant::Ticket => Verdict::Granted,
            _ => Verdict::Refused,
        }
    }

    /// Names of servers that are listed with this port.
    pub(crate) fn server_names(&self, port: u16) -> impl Iterator<Item = &str> {
        self.servers.iter().filter_map(move |rule| rule.name_for(port))
    }

    /// The rules that permit connections under this grant.
    fn rules(&self, grant: Grant) -> &[UpstreamRule] {
        if grant == Grant::ServerRules { &self.servers } else { &self.upstreams }
    }

    /// Of a next hop's addresses those that the depot may connect to, or why there is none.
    pub(crate) fn addresses(
        &self,
        (grant, verdict): (Grant, Verdict),
        resolved: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Objection> {
        let mut refusal = ("the name has no address".to_owned(), None);
        let mut addresses = Vec::new();
        for address in resolved {
            let ip = address.ip();
            let listed = self.rules(grant).iter().any(|r| r.admits_ip(ip, address.port()));
            let named = self.rules(grant).iter().any(|r| r.names_private(ip, address.port()));
            if verdict == Verdict::OfSite {
                addresses.push(address);
                continue;
            }
            match (verdict, self.objection(ip, named).map_err(Objection::Unjudged)?) {
                (Verdict::Refused, _) => refusal = (not_listed(grant).to_owned(), None),
                (Verdict::ByListedName, _) => {
                    refusal = (NO_LISTED_NAME.to_owned(), None);
                }
                (Verdict::ByAddress, _) if !listed => {
                    refusal = ("its address is in no listed network".to_owned(), Some(ip));
                }
                (_, Some((what, remedy))) => {
                    refusal = (format!("its address is {what}: {remedy}"), Some(ip));
                }
                _ => addresses.push(address),
            }
        }
        let (reason, ip) = refusal;
        if addresses.is_empty() { Err(Objection::Rules(reason, ip)) } else { Ok(addresses) }
    }

    /// Why the depot refuses this address to every client, and what an operator can do about it.
    fn objection(
        &self,
        ip: IpAddr,
        named: bool,
    ) -> Result<Option<(&'static str, &'static str)>, Errno> {
        if self.local {
            return Ok(None);
        }
        Ok(match AddressClass::of(ip)? {
            AddressClass::Local(what) => Some((what, "allow.local opens these")),
            AddressClass::Private(what) if !(self.private || named) => {
                Some((what, "set allow.private, or list the network in allow.upstreams"))
            }
            _ => None,
        })
    }
}

/// Why an address is refused that none of the listed names has.
const NO_LISTED_NAME: &str = "`allow.servers` does not list it, and this depot's own look-ups of the names there do not find it: \
     have the client ask for the name (`--match NAME`), or list the address";

/// Why a next hop is refused that no rule of this grant lists.
pub(crate) fn not_listed(grant: Grant) -> &'static str {
    match grant {
        Grant::ServerRules => "`allow.servers` does not list it",
        Grant::Rules | Grant::Ticket | Grant::Site => "it is not listed",
    }
}

/// The answer to unlisted clients.
pub(crate) fn not_listed_client(client: IpAddr) -> Fault {
    let reason = format!("this depot is not open for clients from {client}");
    Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(upstreams: &[&str]) -> Allow {
        let upstreams = upstreams.iter().map(|r| r.parse().unwrap()).collect();
        Allow { clients: vec!["10.0.0.0/8".parse().unwrap()], upstreams, ..Allow::default() }
    }

    #[test]
    fn rules_are_read_and_printed() {
        for (text, printed) in [
            ("O.example:80", "o.example:80"),
            ("o:*", "o:*"),
            ("10.1.2.3/8:80", "10.0.0.0/8:80"),
            ("10.1.2.3:*", "10.1.2.3/32:*"),
            ("[::1]:80", "::1/128:80"),
            ("2001:db8::/32:*", "2001:db8::/32:*"),
        ] {
            assert_eq!(text.parse::<UpstreamRule>().unwrap().to_string(), printed);
        }
        for text in ["", "o", "o:", "o:0", "o:+1", "o:http", ":80", "*:80", "10.0.0.0/8", "::1:80"]
        {
            assert!(text.parse::<UpstreamRule>().is_err(), "{text}");
        }
    }

    #[test]
    fn default_rules_admit_no_client() {
        let none = Allow::default();
        assert!(!none.client("10.0.0.1".parse().unwrap()));
        assert_eq!(none.upstream(&"o:80".parse().unwrap(), Grant::Rules), Verdict::Refused);
    }

    #[test]
    fn clients_match_by_network() {
        let allow = allow(&[]);
        assert!(allow.client("10.9.9.9".parse().unwrap()));
        assert!(allow.client("::ffff:10.9.9.9".parse().unwrap()));
        assert!(!allow.client("11.0.0.1".parse().unwrap()));
    }

    #[test]
    fn upstreams_match_by_name_or_address_and_port() {
        let allow = allow(&["o.example:80", "10.0.0.0/8:3880"]);
        for (hop, verdict) in [
            ("O.EXAMPLE:80", Verdict::Listed),
            ("o.example:81", Verdict::Refused),
            ("o.example:3880", Verdict::ByAddress),
            ("10.2.3.4:3880", Verdict::Listed),
            ("[::ffff:10.2.3.4]:3880", Verdict::Listed),
            ("10.2.3.4:80", Verdict::Refused),
            ("11.2.3.4:3880", Verdict::Refused),
        ] {
            assert_eq!(allow.upstream(&hop.parse().unwrap(), Grant::Rules), verdict, "{hop}");
        }
    }

    #[test]
    fn connections_use_only_checked_addresses() {
        let allow = allow(&["10.0.0.0/8:80"]);
        let resolved: Vec<SocketAddr> =
            ["192.0.2.1:80", "10.255.255.254:80"].map(|a| a.parse().unwrap()).into();
        let by_address =
            allow.addresses((Grant::Rules, Verdict::ByAddress), resolved.iter().copied());
        assert_eq!(by_address, Ok(resolved[1..].to_vec()));
        assert_eq!(
            allow.addresses((Grant::Rules, Verdict::Listed), resolved.iter().copied()),
            Ok(resolved.clone())
        );
        assert!(
            allow
                .addresses((Grant::Rules, Verdict::ByAddress), resolved[..1].iter().copied())
                .is_err()
        );
        assert!(allow.addresses((Grant::Rules, Verdict::Listed), std::iter::empty()).is_err());
    }

    #[test]
    fn private_addresses_are_refused_unless_allowed() {
        let one = |ip: &str| std::iter::once(SocketAddr::new(ip.parse().unwrap(), 80));
        let mut allow = allow(&["o.example:80", "0.0.0.0/0:80", "::/0:80"]);
        for verdict in [Verdict::Listed, Verdict::ByAddress, Verdict::Granted] {
            assert!(allow.addresses((Grant::Rules, verdict), one("127.0.0.1")).is_err());
        }
        allow.local = true;
        assert!(allow.addresses((Grant::Rules, Verdict::Listed), one("127.0.0.1")).is_ok());

        let mut allow = self::allow(&["o.example:80", "10.0.0.0/8:80"]);
        assert!(
            allow.addresses((Grant::Rules, Verdict::Listed), one("10.1.2.3")).is_ok(),
            "the rule names it"
        );
        for verdict in [Verdict::Listed, Verdict::Granted] {
            assert!(allow.addresses((Grant::Rules, verdict), one("192.168.1.1")).is_err());
            assert!(allow.addresses((Grant::Rules, verdict), one("192.0.2.1")).is_ok());
        }
        allow.private = true;
        assert!(allow.addresses((Grant::Rules, Verdict::Granted), one("192.168.1.1")).is_ok());
    }

    #[test]
    fn session_servers_have_their_own_list() {
        let allow = Allow { servers: vec!["10.0.0.0/8:5432".parse().unwrap()], ..allow(&["o:80"]) };
        for (hop, rules, servers) in [
            ("o:80", Verdict::Listed, Verdict::Refused),
            ("10.1.2.3:5432", Verdict::Refused, Verdict::Listed),
            ("db.example:5432", Verdict::Refused, Verdict::ByAddress),
        ] {
            let hop = hop.parse().unwrap();
            assert_eq!(allow.upstream(&hop, Grant::Rules), rules, "{hop}");
            assert_eq!(allow.upstream(&hop, Grant::ServerRules), servers, "{hop}");
        }
        let named = Allow { servers: vec!["db.example:5432".parse().unwrap()], ..Allow::default() };
        for (hop, verdict) in [
            ("192.0.2.7:5432", Verdict::ByListedName),
            ("192.0.2.7:5433", Verdict::Refused),
            ("db.example:5432", Verdict::Listed),
            ("other.example:5432", Verdict::Refused),
        ] {
            let hop = hop.parse().unwrap();
            assert_eq!(named.upstream(&hop, Grant::ServerRules), verdict, "{hop}");
            assert_eq!(named.upstream(&hop, Grant::Rules), Verdict::Refused, "{hop}");
        }
        // Until the names have been looked up, it is not allowed.
        let one = || std::iter::once("192.0.2.7:5432".parse().unwrap());
        let refused = named.addresses((Grant::ServerRules, Verdict::ByListedName), one());
        assert!(
            matches!(refused, Err(Objection::Rules(why, _)) if why.contains("`allow.servers`"))
        );
        let one = || std::iter::once("10.1.2.3:5432".parse().unwrap());
        let by = |grant| allow.addresses((grant, Verdict::ByAddress), one()).is_ok();
        assert!(by(Grant::ServerRules) && !by(Grant::Rules));
    }
}
