// SPDX-License-Identifier: GPL-2.0-or-later
//! OPEN: which session, by which route, to what (docs/lsl.md, section 2).

use crate::{
    Authority, DepotAddress, DepotId, Host, Scheme,
    http::{Fault, ProxyError},
    session::{
        Malformed, SessionId,
        fields::{self, Field},
        header::{MAX_FIELDS, UnknownField, put_unknown, take, take_counted, text},
        stripes,
    },
};
use http::StatusCode;
use std::{fmt, net::IpAddr, str::FromStr, time::Duration};
use units::Rate;

/// The most hops of a route, and the most depots that may have passed an OPEN on.
pub const MAX_HOPS: usize = 16;
/// The most connections that a hop may use.
pub(super) const MAX_STREAMS: u8 = 16;
/// The longest name of a congestion control, as in Linux.
const MAX_CONGESTION: usize = 15;

const SESSION: u8 = 1;
const HOP: u8 = 2;
const TARGET: u8 = 3;
const TICKET: u8 = 4;
const PASSED: u8 = 5;
const CLIENT: u8 = 6;
const STREAMS: u8 = 7;
/// Of the types that older depots forward unchanged.
const ANSWER_WITHIN: u8 = 128;
/// Of the time for which a sender waits for its ANSWER, the part (one in this many) that it does not leave to the next
/// depot, so that the depot next to a failure answers first (2.10).
const KEPT_OF_ANSWER_TIME: u32 = 8;

/// A flag of a TCP target: the server is to be sent a PROXY protocol header.
const PROXY_PROTOCOL: u8 = 1;

/// A request for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The session's name.
    pub session: SessionId,
    /// The peers still to be connected to, the nearest first.
    pub hops: Vec<Hop>,
    /// The end of the route.
    pub target: Target,
    /// The ticket that authorises the session.
    pub ticket: Option<TicketText>,
    /// The depots that have passed it on, the latest last.
    pub passed: Vec<DepotId>,
    /// The client for which a depot has vouched.
    pub client: Option<IpAddr>,
    /// Over how many connections the bytes between the sender of this and its receiver may come. If it is 2 or more,
    /// they come in blocks.
    pub streams: u8,
    /// How long its sender waits for the final ANSWER, in whole milliseconds. A depot that connects to nothing in that
    /// time answers before.
    pub answer_within: Option<Duration>,
    /// Fields that this version does not know, and passes on.
    pub unknown: Vec<UnknownField>,
}

/// A peer to be connected to, and how: all but the address are wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Where.
    pub address: DepotAddress,
    /// Over how many connections, 1 to 16; 0: as the depot is configured.
    pub streams: u8,
    /// To what rate it is held at most.
    pub pacing: Option<Rate>,
    /// By which congestion control.
    pub congestion: Option<Congestion>,
}

/// The name of a congestion control: 1 to 15 of `a` to `z`, digits and `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Congestion(String);

/// The end of a session's route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The last hop is the acceptor.
    End,
    /// A server that knows nothing of sessions.
    Tcp {
        /// Where.
        server: Authority,
        /// Whether it is sent a PROXY protocol header.
        proxy_protocol: bool,
    },
    /// The last depot joins this connection to another one.
    Meeting(Role),
    /// The last depot is the acceptor: it keeps sessions.
    Store,
}

/// Which end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that has opened the session.
    Initiator,
    /// The other one.
    Acceptor,
}

/// A ticket, not verified, and which of its depots is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketText {
    hop: u8,
    token: String,
}

/// The action of a depot on an OPEN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenStep {
    /// Connects to the hop and sends it `open`.
    Connect {
        /// The next hop.
        hop: Hop,
        /// The OPEN to send to it.
        open: Box<Open>,
    },
    /// Connects to a server.
    Tcp {
        /// Where.
        server: Authority,
        /// Whether it is sent a PROXY protocol header.
        proxy_protocol: bool,
    },
    /// Waits for the other end, or joins it.
    Meeting(Role),
    /// Is the acceptor, and keeps sessions.
    Store,
}

impl Open {
    /// The `answer_within` of an OPEN whose sender waits for ANSWER for so long itself.
    pub fn time_for_next(left: Duration) -> Duration {
        left.saturating_sub(left / KEPT_OF_ANSWER_TIME)
    }

    /// An OPEN as the initiator sends it.
    pub fn new(session: SessionId, hops: Vec<Hop>, target: Target) -> Self {
        let (ticket, passed, client, unknown) = (None, Vec::new(), None, Vec::new());
        let answer_within = None;
        Self { session, hops, target, ticket, passed, client, streams: 1, answer_within, unknown }
    }

    /// The action of the depot `own` (rules 2.3 and 2.5). A verified client is removed
    /// (2.7): the caller sets it again where it applies.
    ///
    /// # Errors
    /// It runs in a circle (508), or leads nowhere (400).
    pub fn step(mut self, own: &DepotId) -> Result<OpenStep, Fault> {
        let is_own = |id: &DepotId| id.as_str().eq_ignore_ascii_case(own.as_str());
        let looped =
            |reason| Fault::new(StatusCode::LOOP_DETECTED, ProxyError::ProxyLoopDetected, reason);
        if self.passed.iter().any(is_own) {
            return Err(looped(format!(
                "the session's route comes back to {own}: it runs in a circle, or two depots share this id"
            )));
        }
        if self.passed.len() >= MAX_HOPS {
            return Err(looped(format!("OPEN has passed {} depots already", self.passed.len())));
        }
        (self.client, self.streams) = (None, 1);
        if !self.hops.is_empty() {
            let hop = self.hops.remove(0);
            self.passed.push(own.clone());
            return Ok(OpenStep::Connect { hop, open: Box::new(self) });
        }
        match self.target {
            Target::Tcp { server, proxy_protocol } => Ok(OpenStep::Tcp { server, proxy_protocol }),
            Target::Meeting(role) => Ok(OpenStep::Meeting(role)),
            Target::Store => Ok(OpenStep::Store),
            Target::End => Err(Fault::bad_request(
                "the session's route ends at this depot, which is not an acceptor: name the acceptor as the last hop",
            )),
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let known = |kind| (SESSION..=STREAMS).contains(&kind) || kind == ANSWER_WITHIN;
        let all = fields::read(bytes, known, |kind| [HOP, PASSED].contains(&kind))?;
        let (mut session, mut target) = (None, None);
        let mut open = Self::new(SessionId([0; 16]), Vec::new(), Target::End);
        for field in all {
            match field.kind {
                SESSION => session = Some(SessionId(field.array()?)),
                HOP => open.hops.push(Hop::read(field.value)?),
                TARGET => target = Some(Target::read(field.value)?),
                TICKET => open.ticket = Some(TicketText::read(field.value)?),
                PASSED => open.passed.push(depot_id(field.value)?),
                CLIENT => open.client = Some(client(field.value)?),
                STREAMS => open.streams = stripes::streams(field.array()?)?,
                ANSWER_WITHIN => {
                    let milliseconds = u32::from_be_bytes(field.array()?);
                    open.answer_within = Some(Duration::from_millis(milliseconds.into()));
                }
                _ => open.unknown.push(UnknownField::of(&field)),
            }
        }
        if open.hops.len() > MAX_HOPS || open.passed.len() > MAX_HOPS {
            return Err(Malformed("OPEN names more than 16 hops or depots"));
        }
        open.session = session.ok_or(Malformed("OPEN does not name its session"))?;
        open.target = target.ok_or(Malformed("OPEN has no target"))?;
        Ok(open)
    }

    pub(super) fn fields(&self) -> Result<Vec<u8>, Malformed> {
        if self.hops.len() > MAX_HOPS || self.passed.len() > MAX_HOPS {
            return Err(Malformed("OPEN names more than 16 hops or depots"));
        }
        let mut out = Vec::with_capacity(256);
        fields::put(SESSION, &self.session.0, &mut out);
        for hop in &self.hops {
            fields::put(HOP, &hop.value(), &mut out);
        }
        fields::put(TARGET, &self.target.value(), &mut out);
        if let Some(TicketText { hop, token }) = &self.ticket {
            fields::put(TICKET, &[&[*hop], token.as_bytes()].concat(), &mut out);
        }
        for id in &self.passed {
            fields::put(PASSED, id.as_str().as_bytes(), &mut out);
        }
        if let Some(client) = self.client {
            fields::put(CLIENT, client.to_string().as_bytes(), &mut out);
        }
        if self.streams > 1 {
            fields::put(STREAMS, &[self.streams], &mut out);
        }
        if let Some(time) = self.answer_within {
            let milliseconds = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
            fields::put(ANSWER_WITHIN, &milliseconds.to_be_bytes(), &mut out);
        }
        put_unknown(&self.unknown, &mut out);
        Ok(out)
    }
}

impl UnknownField {
    pub(super) fn of(field: &Field<'_>) -> Self {
        Self { kind: field.kind, value: field.value.to_vec() }
    }
}

impl From<DepotAddress> for Hop {
    /// A hop as the depot before it is configured.
    fn from(address: DepotAddress) -> Self {
        Self { address, streams: 0, pacing: None, congestion: None }
    }
}

impl Hop {
    fn read(mut value: &[u8]) -> Result<Self, Malformed> {
        let [transport, streams] = *take::<2>(&mut value)?;
        let scheme = match transport {
            0 => Scheme::Http,
            1 => Scheme::Https,
            _ => return Err(Malformed("a hop's transport is unknown")),
        };
        if streams > MAX_STREAMS {
            return Err(Malformed("a hop has more than 16 streams"));
        }
        let bps = u64::from_be_bytes(*take::<8>(&mut value)?);
        let name = take_counted(&mut value)?;
        let congestion = if name.is_empty() { None } else { Some(text(name)?.parse()?) };
        Ok(Self {
            address: DepotAddress { scheme, authority: authority(value)? },
            streams,
            pacing: (bps > 0).then(|| Rate::bits_per_second(bps)),
            congestion,
        })
    }

    fn value(&self) -> Vec<u8> {
        let transport = u8::from(self.address.scheme == Scheme::Https);
        let mut out = vec![transport, self.streams];
        out.extend(self.pacing.map_or(0, Rate::bps).to_be_bytes());
        let name = self.congestion.as_ref().map_or("", |Congestion(name)| name);
        out.push(u8::try_from(name.len()).expect("a checked name is short"));
        out.extend(name.as_bytes());
        put_authority(&self.address.authority, &mut out);
        out
    }
}

impl Congestion {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Congestion {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let good = (1..=MAX_CONGESTION).contains(&text.len()) && text.bytes().all(plain);
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(Malformed("a congestion control's name is not 1 to 15 of a-z, 0-9 and _"))
        }
    }
}

impl Target {
    fn read(mut value: &[u8]) -> Result<Self, Malformed> {
        let [kind] = *take::<1>(&mut value)?;
        match (kind, value) {
            (0, []) => Ok(Self::End),
            (1, _) => {
                let [flags] = *take::<1>(&mut value)?;
                if flags & !PROXY_PROTOCOL != 0 {
                    return Err(Malformed("a flag of the target is unknown"));
                }
                let proxy_protocol = flags & PROXY_PROTOCOL != 0;
                Ok(Self::Tcp { server: authority(value)?, proxy_protocol })
            }
            (2, [0]) => Ok(Self::Meeting(Role::Initiator)),
            (2, [1]) => Ok(Self::Meeting(Role::Acceptor)),
            (3, []) => Ok(Self::Store),
            _ => Err(Malformed("the target is unknown, or has the wrong length")),
        }
    }

    fn value(&self) -> Vec<u8> {
        match self {
            Self::End => vec![0],
            Self::Tcp { server, proxy_protocol } => {
                let mut out = vec![1, if *proxy_protocol { PROXY_PROTOCOL } else { 0 }];
                put_authority(server, &mut out);
                out
            }
            Self::Meeting(role) => vec![2, u8::from(*role == Role::Acceptor)],
            Self::Store => vec![3],
        }
    }
}

impl fmt::Display for Open {
    /// Where it leads, as a ticket names it: `end:HOST:PORT`, `tcp:HOST:PORT`, `meet` or `store`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.hops.last()) {
            (Target::End, Some(end)) => write!(f, "end:{}", end.address.authority),
            (Target::End, None) => f.write_str("end"),
            (Target::Tcp { server, .. }, _) => write!(f, "tcp:{server}"),
            (Target::Meeting(_), _) => f.write_str("meet"),
            (Target::Store, _) => f.write_str("store"),
        }
    }
}

impl TicketText {
    /// A ticket's text, and which of its depots is asked, from 0.
    ///
    /// # Errors
    /// The text is not base64url in three parts, or too long for a header.
    pub fn new(hop: u8, token: String) -> Result<Self, Malformed> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_token = token.bytes().all(plain) && token.matches('.').count() == 2;
        if is_token && token.len() < MAX_FIELDS {
            Ok(Self { hop, token })
        } else {
            Err(Malformed("the ticket is not three parts of base64url"))
        }
    }

    fn read(mut value: &[u8]) -> Result<Self, Malformed> {
        let [hop] = *take::<1>(&mut value)?;
        Self::new(hop, text(value)?.to_owned())
    }

    /// The same ticket for the next of its depots.
    #[must_use]
    pub fn next(&self) -> Self {
        Self { hop: self.hop.saturating_add(1), token: self.token.clone() }
    }

    /// Which of the ticket's depots is asked, from 0.
    pub fn hop(&self) -> u8 {
        self.hop
    }

    /// The ticket's text.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// A port and a host, to the value's end.
fn authority(mut value: &[u8]) -> Result<Authority, Malformed> {
    const BAD: Malformed = Malformed("a host is neither an address nor a DNS name");
    let port = u16::from_be_bytes(*take::<2>(&mut value)?);
    if port == 0 {
        return Err(Malformed("a port is 0"));
    }
    let text = text(value)?;
    let host = match text.parse() {
        Ok(ip @ IpAddr::V6(_)) => Host::Ip(ip),
        // Brackets belong to texts with a port.
        _ if text.starts_with('[') => return Err(BAD),
        _ => text.parse().map_err(|_| BAD)?,
    };
    Ok(Authority { host, port })
}

fn put_authority(Authority { host, port }: &Authority, out: &mut Vec<u8>) {
    out.extend(port.to_be_bytes());
    match host {
        Host::Name(name) => out.extend(name.as_bytes()),
        Host::Ip(ip) => out.extend(ip.to_string().as_bytes()),
    }
}

pub(super) fn depot_id(value: &[u8]) -> Result<DepotId, Malformed> {
    text(value)?.parse().map_err(|_| Malformed("a depot's name is malformed"))
}

fn client(value: &[u8]) -> Result<IpAddr, Malformed> {
    text(value)?.parse().map_err(|_| Malformed("the client is not an IP address"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Header;

    /// An OPEN with everything in it.
    fn full() -> Open {
        let hop = Hop {
            streams: 4,
            pacing: Some(Rate::bits_per_second(500_000_000)),
            congestion: Some("bbr".parse().unwrap()),
            ..Hop::from("https:d2.example.net:3881".parse::<DepotAddress>().unwrap())
        };
        Open {
            ticket: Some(TicketText::new(1, "a.b-_.c".to_owned()).unwrap()),
            passed: vec!["d0".parse().unwrap()],
            client: Some("192.0.2.7".parse().unwrap()),
            streams: 16,
            answer_within: Some(Duration::from_millis(8750)),
            unknown: vec![UnknownField { kind: 200, value: b"new".to_vec() }],
            ..Open::new(
                SessionId(*b"0123456789abcdef"),
                vec![hop, "[2001:db8::1]:3880".parse::<DepotAddress>().unwrap().into()],
                Target::Tcp {
                    server: "Db.Example.Org:5432".parse().unwrap(),
                    proxy_protocol: true,
                },
            )
        }
    }

    fn parsed(bytes: &[u8]) -> Result<Open, Malformed> {
        Header::parse_open(bytes).map(|found| found.expect("it is whole").0)
    }

    /// Parses an OPEN with one more field, or a replaced one.
    fn with(fields: &[(u8, &[u8])]) -> Result<Open, Malformed> {
        let mut out = Vec::new();
        for (kind, value) in fields {
            fields::put(*kind, value, &mut out);
        }
        Open::read(&out)
    }

    #[test]
    fn open_is_printed_and_read_the_same() {
        let open = full();
        let bytes = open.to_bytes().unwrap();
        assert_eq!(parsed(&bytes), Ok(open.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(Header::parse(&bytes[..cut]), Ok(None), "{cut}");
        }
        for target in [
            Target::End,
            Target::Meeting(Role::Acceptor),
            Target::Meeting(Role::Initiator),
            Target::Store,
        ] {
            let open = Open { target, ..open.clone() };
            assert_eq!(parsed(&open.to_bytes().unwrap()), Ok(open));
        }
    }

    #[test]
    fn open_that_breaks_a_rule_is_refused() {
        let id: (u8, &[u8]) = (1, &[7; 16]);
        let (end, hop) = ((3, &[0][..]), b"\0\0\0\0\0\0\0\0\0\0\0\x0f\x28d1");
        assert!(with(&[id, (2, hop), end]).is_ok());
        for (bad, why) in [
            (&[id][..], "no target"),
            (&[end], "name its session"),
            (&[(1, &[7; 15]), end], "wrong length"),
            (&[id, (2, &hop[..9]), end], "too short"),
            (&[id, (2, b"\x02\0\0\0\0\0\0\0\0\0\0\x0f\x28d1"), end], "transport"),
            (&[id, (2, b"\0\x11\0\0\0\0\0\0\0\0\0\x0f\x28d1"), end], "16 streams"),
            (&[id, (2, b"\0\0\0\0\0\0\0\0\0\0\0\0\0d1"), end], "port is 0"),
            (&[id, (2, b"\0\0\0\0\0\0\0\0\0\0\0\x0f\x28"), end], "host"),
            (&[id, (2, b"\0\0\0\0\0\0\0\0\0\0\0\x0f\x28[::1]"), end], "host"),
            (&[id, (2, b"\0\0\0\0\0\0\0\0\0\0\0\x0f\x281.2.3"), end], "host"),
            (&[id, (2, b"\0\0\0\0\0\0\0\0\0\0\x03BBR\x0f\x28d1"), end], "congestion"),
            (&[id, (2, b"\0\0\0\0\0\0\0\0\0\0\xffb"), end], "longer than its field"),
            (&[id, (3, b"")], "too short"),
            (&[id, (3, b"\0\0")], "target"),
            (&[id, (3, b"\x02\x02")], "target"),
            (&[id, (3, b"\x03\0")], "target"),
            (&[id, (3, b"\x04")], "target"),
            (&[id, (3, b"\x01\x02\0\x50h")], "flag"),
            (&[id, end, (4, b"\0a.b")], "ticket"),
            (&[id, end, (4, b"\0a.b.c d")], "ticket"),
            (&[id, end, (5, b"1")], "depot's name"),
            (&[id, end, (6, b"192.0.2")], "IP address"),
            (&[id, end, (7, b"")], "wrong length"),
            (&[id, end, (7, &[1])], "2 to 16"),
            (&[id, end, (7, &[17])], "2 to 16"),
            (&[id, end, (8, b"")], "unknown"),
            (&[id, end, (128, b"\x01")], "wrong length"),
        ] {
            let error = with(bad).expect_err(why).to_string();
            assert!(error.contains(why), "{error}, not {why}");
        }
        let many = [&[id][..], &[(2, &hop[..]); 17], &[end]].concat();
        assert!(with(&many).is_err());
    }

    #[test]
    fn a_depot_takes_the_first_hop_and_signs() {
        let own = "d1".parse().unwrap();
        let open = full();
        let Ok(OpenStep::Connect { hop, open: next }) = open.clone().step(&own) else {
            panic!("there is a hop")
        };
        assert_eq!(hop, open.hops[0]);
        assert_eq!((&next.hops[..], next.client, next.streams), (&open.hops[1..], None, 1));
        assert_eq!(next.answer_within, open.answer_within);
        assert_eq!(next.passed, [open.passed[0].clone(), own.clone()]);
        assert_eq!((&next.unknown, next.session), (&open.unknown, open.session));
        // It comes back.
        let fault = next.step(&"D1".parse().unwrap()).unwrap_err();
        assert_eq!(fault.status, StatusCode::LOOP_DETECTED);
        let far = Open { passed: vec!["d0".parse().unwrap(); 16], ..open.clone() };
        assert_eq!(far.step(&own).unwrap_err().status, StatusCode::LOOP_DETECTED);
        let last = Open { hops: Vec::new(), ..open };
        assert!(matches!(last.clone().step(&own), Ok(OpenStep::Tcp { proxy_protocol: true, .. })));
        let stored = Open { target: Target::Store, ..last.clone() };
        assert_eq!(stored.step(&own), Ok(OpenStep::Store));
        let nowhere = Open { target: Target::End, ..last };
        assert_eq!(nowhere.step(&own).unwrap_err().status, StatusCode::BAD_REQUEST);
    }
}
