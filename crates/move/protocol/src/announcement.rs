// SPDX-License-Identifier: GPL-2.0-or-later
//! Announcements: what a depot tells others of itself, signed with a key of its own.
//!
//! An announcement is a JSON Web Signature (RFC 7515) with Ed25519. Its header has the kind (`typ`), so that no ticket passes for one,
//! and as the key's name (`kid`) the depot's own address: a depot speaks for itself alone. The time is an argument.
//!
//! Limits: what a depot says of its load, rules and hops may be a lie. Readers may prefer other depots by it, and believe nothing that
//! makes this one better than it was seen to be.

use crate::{
    Authority, DepotAddress, Host,
    http::{Method, RequestHead, load::Load},
    ticket::{KeySet, LEEWAY_S, Signer, UnixTime},
};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Path of the request for all that a depot has heard.
pub const ANNOUNCEMENTS: &str = "/lh1/depots";
/// The most depots of a list.
pub const MAX_ANNOUNCEMENTS: usize = 1024;
/// The longest announcement, in bytes.
pub const MAX_ANNOUNCEMENT: usize = 4 << 10;
/// The longest body of an answer with all announcements, in bytes.
pub const MAX_ANNOUNCEMENTS_BODY: usize = MAX_ANNOUNCEMENTS * (MAX_ANNOUNCEMENT + 4) + 64;
/// The longest validity, in seconds.
pub const LONGEST_S: u32 = 3600;

/// The kind of token, in its header.
const KIND: &str = "lh-depot";
/// The most rules, and next depots, of an announcement.
const MOST_RULES: usize = 48;
const MOST_HOPS: usize = 8;

/// Whether a request asks for all announcements.
pub fn asks_announcements(request: &RequestHead) -> bool {
    request.target == ANNOUNCEMENTS && matches!(request.method, Method::Get | Method::Head)
}

/// What a depot tells of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// Where it is asked.
    pub address: DepotAddress,
    /// Where it stands, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// When it was signed.
    #[serde(rename = "iat")]
    pub signed: UnixTime,
    /// Until when it counts.
    #[serde(rename = "exp")]
    pub expires: UnixTime,
    /// How busy it is.
    pub load: Load,
    /// The rules for its next hops, as in `allow.upstreams`; none if it does not tell, or if these are too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admits: Option<Vec<String>>,
    /// Its connections to other depots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopFacts>,
}

/// What a depot has seen of its connections to another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HopFacts {
    /// The other depot.
    pub to: DepotAddress,
    /// The shortest round trip, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u32>,
    /// The share of segments to it that were sent again, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// What moves to it and from it now, in bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Connections that are open ahead of need.
    #[serde(default)]
    pub warm: u32,
}

/// A place on Earth, in degrees: latitude, then longitude.
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

/// Why an announcement does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncementError {
    /// It is no announcement.
    #[error("no announcement: {0}")]
    Malformed(&'static str),
    /// No trusted key has this depot's name.
    #[error("no key of {0} is trusted")]
    Unknown(String),
    /// It is not signed with the depot's key.
    #[error("it is not signed with the key of {0}")]
    Altered(String),
    /// It is signed with the key of another depot.
    #[error("it is about {about}, and signed with the key of {signer}")]
    Foreign {
        /// The depot that it is about.
        about: String,
        /// Whose key has signed it.
        signer: String,
    },
    /// It counts at another time.
    #[error("it counts from {from} until {until}, and it is {now}")]
    Time {
        /// When it was signed.
        from: UnixTime,
        /// Until when it counts.
        until: UnixTime,
        /// The time by this host's clock.
        now: UnixTime,
    },
}

impl Announcement {
    /// Signs it with the key of this depot. Of rules and hops as much is said as fits.
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

    /// Reads one without asking who has signed it.
    ///
    /// # Errors
    /// It is no announcement.
    pub fn read_unverified(token: &str) -> Result<Self, AnnouncementError> {
        if token.len() > MAX_ANNOUNCEMENT {
            return Err(AnnouncementError::Malformed("it is too long"));
        }
        KeySet::unverified_claims(token).ok_or(AnnouncementError::Malformed("it has other members"))
    }

    /// Reads one that the depot's own key has signed, whatever the time.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn verify_signature(token: &str, keys: &KeySet) -> Result<Self, AnnouncementError> {
        let about = Self::read_unverified(token)?.address.to_string();
        let (kind, signer) =
            KeySet::kind_and_key(token).ok_or(AnnouncementError::Malformed("its header"))?;
        if kind.as_deref() != Some(KIND) {
            return Err(AnnouncementError::Malformed("it is a token of another kind"));
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

    /// Reads one that the depot's own key has signed, and that counts now.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn verify(token: &str, keys: &KeySet, now: UnixTime) -> Result<Self, AnnouncementError> {
        let read = Self::verify_signature(token, keys)?;
        if read.counts(now) {
            return Ok(read);
        }
        Err(AnnouncementError::Time { from: read.signed, until: read.expires, now })
    }

    /// Whether it counts at this time.
    pub fn counts(&self, now: UnixTime) -> bool {
        self.signed <= now.plus(LEEWAY_S)
            && now <= self.expires.plus(LEEWAY_S)
            && self.expires <= self.signed.plus(LONGEST_S)
    }

    /// Whether its rules may admit this server, as far as it tells.
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
    fn depot_speaks_for_itself_alone() {
        let (a, b) = (signer("a:3880", 1), signer("https:b:443", 2));
        let keys = KeySet::parse(&a.public_set_with(&b.public_set()).unwrap()).unwrap();
        let of_a = announcement("a");
        let token = of_a.clone().sign(&a).unwrap();
        assert_eq!(Announcement::verify(&token, &keys, time(NOW)), Ok(of_a.clone()));
        // With another's key, under another's name, and under one's own name with another's key.
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
    fn no_ticket_is_an_announcement_and_none_of_these_a_ticket() {
        let signer = signer("a:3880", 1);
        let keys = KeySet::parse(&signer.public_set()).unwrap();
        let token = announcement("a").sign(&signer).unwrap();
        assert!(matches!(keys.verify_signature(&token), Err(TicketError::Claims { .. })));
    }

    #[test]
    fn time_is_checked() {
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
    fn rules_tell_what_is_not_admitted() {
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
    fn longest_fits() {
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
