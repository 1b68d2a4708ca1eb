// SPDX-License-Identifier: GPL-2.0-or-later
//! Announcements: signed statements of a depot about its address, location, load, rules and connections to other depots.
//!
//! An announcement is a JSON Web Signature (RFC 7515) with Ed25519. Its header has a kind (`typ`), which distinguishes it from tickets,
//! and the depot's address as the name of the key (`kid`), so a depot can only speak for itself. The time is an argument.
//!
//! Limits: a depot may lie about its load, rules and hops. Readers must not prefer a depot for what it announces.

use crate::{
    Authority, DepotAddress, Host,
    http::{Method, RequestHead, load::Load},
    ticket::{KeySet, LEEWAY_S, Signer, UnixTime},
};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Path of the request for all announcements that a depot has.
pub const ANNOUNCEMENTS: &str = "/lh1/depots";
/// Maximum number of announcements in a list.
pub const MAX_ANNOUNCEMENTS: usize = 1024;
/// Maximum length of an announcement, in bytes.
pub const MAX_ANNOUNCEMENT: usize = 4 << 10;
/// Maximum length of a response body with announcements, in bytes.
pub const MAX_ANNOUNCEMENTS_BODY: usize = MAX_ANNOUNCEMENTS * (MAX_ANNOUNCEMENT + 4) + 64;
/// Maximum validity, in seconds.
pub const LONGEST_S: u32 = 3600;

/// The value of `typ` in the header.
const KIND: &str = "lh-depot";
/// Maximum numbers of rules and of hops in an announcement.
const MOST_RULES: usize = 48;
const MOST_HOPS: usize = 8;

/// Whether this is a request for announcements.
pub fn asks_announcements(request: &RequestHead) -> bool {
    request.target == ANNOUNCEMENTS && matches!(request.method, Method::Get | Method::Head)
}

/// Statements of a depot about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// Its address.
    pub address: DepotAddress,
    /// Its location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// When it was signed.
    #[serde(rename = "iat")]
    pub signed: UnixTime,
    /// End of validity.
    #[serde(rename = "exp")]
    pub expires: UnixTime,
    /// Its load.
    pub load: Load,
    /// Its rules for next hops, as in `allow.upstreams`. `None`: not announced, or too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admits: Option<Vec<String>>,
    /// Statistics of its connections to other depots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopFacts>,
}

/// Statistics of a depot's connections to another depot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HopFacts {
    /// The other depot.
    pub to: DepotAddress,
    /// Minimum round trip, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u32>,
    /// Share of retransmitted segments, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Current rate in both directions together, in bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Number of warm connections.
    #[serde(default)]
    pub warm: u32,
}

/// A location, in degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "[f64; 2]", into = "[f64; 2]")]
pub struct Place {
    /// North is positive.
    pub latitude: f64,
    /// East is positive.
    pub longitude: f64,
}

impl TryFrom<[f64; 2]> for Place {
    type Error = String;

    fn try_from([latitude, longitude]: [f64; 2]) -> Result<Self, String> {
        if latitude.abs() <= 90.0 && longitude.abs() <= 180.0 {
            return Ok(Self { latitude, longitude });
        }
        Err(format!(
            "[{latitude}, {longitude}] is no place: latitude is -90 to 90, longitude -180 to 180"
        ))
    }
}

impl From<Place> for [f64; 2] {
    fn from(place: Place) -> Self {
        [place.latitude, place.longitude]
    }
}

/// Why an announcement is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncementError {
    /// It is not an announcement.
    #[error("not an announcement: {0}")]
    Malformed(&'static str),
    /// There is no trusted key for this depot.
    #[error("there is no trusted key for depot {0}")]
    Unknown(String),
    /// The signature is not valid for the depot's key.
    #[error("the signature is not valid for the key of depot {0}")]
    Altered(String),
    /// It names the key of another depot.
    #[error("it is about depot {about} and names the key {signer}")]
    Foreign {
        /// The announced depot.
        about: String,
        /// The named key.
        signer: String,
    },
    /// It is not valid at this time.
    #[error("it is valid from {from} until {until}, and it is {now}")]
    Time {
        /// When it was signed.
        from: UnixTime,
        /// End of validity.
        until: UnixTime,
        /// The time by this host's clock.
        now: UnixTime,
    },
}

impl Announcement {
    /// Signs it with the depot's key. Rules and hops that do not fit are left out.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub fn sign(mut self, signer: &Signer) -> Result<String, AnnouncementError> {
        let rules = self.admits.as_ref().map_or(0, Vec::len);
        self.admits = self.admits.filter(|_| rules <= MOST_RULES);
        self.hops.truncate(MOST_HOPS);
        let sign = |of: &Self| {
            let signed = signer.sign_as(KIND, &of.address.to_string(), of);
            signed.ok_or(AnnouncementError::Malformed("it cannot be signed"))
        };
        let token = sign(&self)?;
        if token.len() <= MAX_ANNOUNCEMENT {
            return Ok(token);
        }
        // Long names.
        self.admits = None;
        self.hops.clear();
        sign(&self)
    }

    /// Parses an announcement without verification.
    ///
    /// # Errors
    /// It is not an announcement.
    pub fn read_unverified(token: &str) -> Result<Self, AnnouncementError> {
        if token.len() > MAX_ANNOUNCEMENT {
            return Err(AnnouncementError::Malformed("it is too long"));
        }
        KeySet::unverified_claims(token).ok_or(AnnouncementError::Malformed("it has other members"))
    }

    /// Parses an announcement and verifies its signature, but not its validity in time.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn verify_signature(token: &str, keys: &KeySet) -> Result<Self, AnnouncementError> {
        let about = Self::read_unverified(token)?.address.to_string();
        let (kind, signer) =
            KeySet::kind_and_key(token).ok_or(AnnouncementError::Malformed("its header"))?;
        if kind.as_deref() != Some(KIND) {
            return Err(AnnouncementError::Malformed("its typ is not lh-depot"));
        }
        if signer.as_deref() != Some(&about) {
            let signer = signer.unwrap_or_default().chars().take(128).collect();
            return Err(AnnouncementError::Foreign { about, signer });
        }
        if !keys.has(&about) {
            return Err(AnnouncementError::Unknown(about));
        }
        keys.verified_claims(token, &about).ok_or(AnnouncementError::Altered(about))
    }

    /// Parses an announcement and verifies its signature and validity.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn verify(token: &str, keys: &KeySet, now: UnixTime) -> Result<Self, AnnouncementError> {
        let read = Self::verify_signature(token, keys)?;
        if read.is_valid_at(now) {
            return Ok(read);
        }
        Err(AnnouncementError::Time { from: read.signed, until: read.expires, now })
    }

    /// Whether it is valid at this time.
    pub fn is_valid_at(&self, now: UnixTime) -> bool {
        self.signed <= now.plus(LEEWAY_S)
            && now <= self.expires.plus(LEEWAY_S)
            && self.expires <= self.signed.plus(LONGEST_S)
    }

    /// Whether its announced rules may admit this server.
    pub fn may_admit(&self, server: &Authority) -> bool {
        let admits = |rules: &Vec<String>| rules.iter().any(|rule| may_admit(rule, server));
        self.admits.as_ref().is_none_or(admits)
    }
}

fn may_admit(rule: &str, server: &Authority) -> bool {
    let Some((host, port)) = rule.rsplit_once(':') else { return false };
    if port != "*" && port.parse() != Ok(server.port) {
        return false;
    }
    match (host.parse::<IpNet>(), &server.host) {
        (Ok(net), Host::Ip(ip)) => net.contains(&ip.to_canonical()),
        // A name may have any address.
        (Ok(_), Host::Name(_)) => true,
        (Err(_), named) => host.parse::<Host>().as_ref() == Ok(named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::TicketError;
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    const NOW: u64 = 1_800_000_000;

    fn time(seconds: u64) -> UnixTime {
        UnixTime::try_from(seconds).unwrap()
    }

    fn signer(depot: &str, seed: u8) -> Signer {
        Signer::from_seed([seed; 32]).unwrap().named(depot)
    }

    fn announcement(depot: &str) -> Announcement {
        Announcement {
            address: depot.parse().unwrap(),
            place: Some(Place { latitude: 48.9, longitude: 2.4 }),
            signed: time(NOW),
            expires: time(NOW + 60),
            load: Load {
                connections: 3,
                connections_limit: 100,
                leaving: false,
                transfers: 2,
                rate_bps: 1,
                highest_rate_bps: 2,
            },
            admits: Some(vec!["o.example:80".to_owned(), "10.0.0.0/8:*".to_owned()]),
            hops: vec![HopFacts {
                to: "b".parse().unwrap(),
                rtt_us: Some(90_000),
                loss: Some(0.001),
                rate_bps: None,
                warm: 2,
            }],
        }
    }

    #[test]
    fn announcement_needs_the_key_of_its_depot() {
        let (a, b) = (signer("a:3880", 1), signer("https:b:443", 2));
        let keys = KeySet::parse(&a.public_set_with(&b.public_set()).unwrap()).unwrap();
        let of_a = announcement("a");
        let token = of_a.clone().sign(&a).unwrap();
        assert_eq!(Announcement::verify(&token, &keys, time(NOW)), Ok(of_a.clone()));
        // Signed with another key, for an unknown depot, with a changed key name, and with a changed kind.
        let forged = of_a.clone().sign(&b).unwrap();
        let verify = |token: &str| Announcement::verify(token, &keys, time(NOW)).unwrap_err();
        assert_eq!(verify(&forged), AnnouncementError::Altered("a:3880".to_owned()));
        let unknown = announcement("c").sign(&a).unwrap();
        assert_eq!(verify(&unknown), AnnouncementError::Unknown("c:3880".to_owned()));
        let (header, rest) = token.split_once('.').unwrap();
        let header = String::from_utf8(URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        let renamed = header.replace("a:3880", "https:b:443");
        let renamed = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(renamed));
        assert!(matches!(verify(&renamed), AnnouncementError::Foreign { .. }));
        let of_other_kind = header.replace(KIND, "JWT");
        let of_other_kind = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(of_other_kind));
        assert!(matches!(verify(&of_other_kind), AnnouncementError::Malformed(_)));
        for text in ["", ".", "a.b.c", &token[..token.len() / 2], &"x".repeat(MAX_ANNOUNCEMENT + 1)]
        {
            assert!(matches!(verify(text), AnnouncementError::Malformed(_)), "{text}");
        }
    }

    /// Even where the same key is trusted for both.
    #[test]
    fn announcement_is_not_a_ticket() {
        let signer = signer("a:3880", 1);
        let keys = KeySet::parse(&signer.public_set()).unwrap();
        let token = announcement("a").sign(&signer).unwrap();
        assert!(matches!(keys.verify_signature(&token), Err(TicketError::Claims { .. })));
    }

    #[test]
    fn expired_announcement_is_rejected() {
        let signer = signer("a:3880", 1);
        let keys = KeySet::parse(&signer.public_set()).unwrap();
        let verify = |change: &dyn Fn(&mut Announcement), now: u64| {
            let mut of = announcement("a");
            change(&mut of);
            Announcement::verify(&of.sign(&signer).unwrap(), &keys, time(now)).is_ok()
        };
        let same = |_: &mut Announcement| ();
        for (now, counts) in
            [(NOW - 31, false), (NOW - 30, true), (NOW + 90, true), (NOW + 91, false)]
        {
            assert_eq!(verify(&same, now), counts, "{now}");
        }
        let for_ever = |of: &mut Announcement| of.expires = time(NOW + 3601);
        assert!(!verify(&for_ever, NOW));
    }

    #[test]
    fn announced_rules_exclude_servers() {
        let of = announcement("a");
        for (server, admitted) in [
            ("o.example:80", true),
            ("O.EXAMPLE:80", true),
            ("o.example:443", true),
            ("10.1.2.3:9", true),
            ("192.0.2.1:80", false),
        ] {
            // A name may have an address in 10.0.0.0/8.
            assert_eq!(of.may_admit(&server.parse().unwrap()), admitted, "{server}");
        }
        let names = Announcement { admits: Some(vec!["o.example:80".to_owned()]), ..of.clone() };
        assert!(!names.may_admit(&"o.example:443".parse().unwrap()));
        assert!(!names.may_admit(&"p.example:80".parse().unwrap()));
        assert!(Announcement { admits: None, ..of }.may_admit(&"x:1".parse().unwrap()));
    }

    #[test]
    fn long_announcement_is_cut_to_its_limit() {
        let signer = signer("a:3880", 1);
        let keys = KeySet::parse(&signer.public_set()).unwrap();
        let hop = announcement("a").hops[0].clone();
        for (rules, length) in [(48, 10), (49, 10), (48, 200)] {
            let of = Announcement {
                admits: Some(vec!["x".repeat(length) + ":80"; rules]),
                hops: vec![hop.clone(); 20],
                ..announcement("a")
            };
            let token = of.sign(&signer).unwrap();
            assert!(token.len() <= MAX_ANNOUNCEMENT, "{}", token.len());
            let read = Announcement::verify(&token, &keys, time(NOW)).unwrap();
            assert_eq!(read.admits.is_some(), (rules, length) == (48, 10));
        }
    }
}
