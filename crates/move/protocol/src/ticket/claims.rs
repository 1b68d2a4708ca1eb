// SPDX-License-Identifier: GPL-2.0-or-later
//! The claims of a ticket.

use super::{Opens, TicketError, TicketRoute, UnixTime, route};
use crate::{
    depot_address::DepotAddress,
    http::Method,
    origin::OriginUrl,
    route::{MAX_DEPOTS, check_depots},
    session::Open,
    step::Fetch,
};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::{
    net::IpAddr,
    num::{NonZeroU32, NonZeroU64},
};
use units::{Bytes, Rate};

/// The longest `jti`, in bytes: depots remember it.
pub const MAX_ID_LEN: usize = 128;

/// A ticket's claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// `jti`: its name, unlike that of any other of the same signer. Visible ASCII.
    pub id: String,
    /// `iss`: who made it, for logs.
    pub issuer: Option<String>,
    /// `iat`: when it was made, for logs.
    pub issued: Option<UnixTime>,
    /// `nbf`: from when on it is valid; always, where it is not said.
    pub not_before: Option<UnixTime>,
    /// `exp`: until when.
    pub expires: UnixTime,
    /// `lh.url` or `lh.session`: what it opens.
    pub opens: Opens,
    /// `lh.via`: the depots, the one nearest the client first; at least one, at most 16.
    pub via: Vec<DepotAddress>,
    /// `lh.methods`: GET and HEAD where the claim is left out. Empty if it opens sessions, and never else.
    pub methods: Vec<Method>,
    /// `lh.bytes`: the most bytes of one transfer's body, not 0.
    pub bytes: Option<Bytes>,
    /// `lh.rate_bps`: the highest rate of one transfer, not 0.
    pub rate: Option<Rate>,
    /// `lh.total_rate_bps`: the highest rate of all its transfers together, at each depot, not 0.
    pub total_rate: Option<Rate>,
    /// `lh.clients`: for clients in these networks; for all, where it is empty.
    pub clients: Vec<IpNet>,
    /// `lh.uses`: how many requests it is good for, at each depot.
    pub uses: Option<NonZeroU32>,
}

/// As they travel. Claims of the token that are not known here are ignored, as RFC 7519 wants;
/// restrictions in `lh` that are not known here are not, or a ticket would open more than it says.
#[derive(Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<UnixTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nbf: Option<UnixTime>,
    exp: UnixTime,
    jti: String,
    lh: Scope,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    via: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    methods: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<NonZeroU64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_bps: Option<NonZeroU64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_rate_bps: Option<NonZeroU64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uses: Option<NonZeroU32>,
}

/// The sender of a request with a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketClient<'a> {
    /// A client that the ticket allows.
    Allowed,
    /// It must be this depot, the one before, asking for a client whom the ticket [admits](Ticket::admits).
    /// The caller must see whether the address is one of that depot's, and for whom it asks. Otherwise a
    /// client from elsewhere could pass for a depot by asking for a later hop, or have a depot ask.
    MustBe(&'a DepotAddress),
}

impl Ticket {
    /// Whether the ticket opens all URLs that begin as its own.
    pub fn is_prefix(&self) -> bool {
        let is_prefix = |target: &str| target.ends_with('/') && !target.contains('?');
        matches!(&self.opens, Opens::Url(url) if is_prefix(url.target()))
    }

    /// The URL that it opens.
    ///
    /// # Errors
    /// It opens sessions.
    fn url(&self) -> Result<&OriginUrl, TicketError> {
        match &self.opens {
            Opens::Url(url) => Ok(url),
            Opens::Session(_) => Err(TicketError::Tail("it is for sessions")),
        }
    }

    /// Sees whether the ticket is for this OPEN, which the depot for `hop` has received.
    ///
    /// # Errors
    /// It is not, or there is no such hop.
    pub fn check_session(&self, open: &Open, hop: usize) -> Result<(), TicketError> {
        self.check_hop(hop)?;
        match &self.opens {
            Opens::Session(target) => target.check(open, self.via[hop + 1..].iter()),
            Opens::Url(_) => Err(TicketError::Session("it is for requests")),
        }
    }

    /// Whether a depot of the ticket comes after this hop.
    pub fn has_depot_after(&self, hop: usize) -> bool {
        hop + 1 < self.via.len()
    }

    /// Sees whether the ticket is for a method.
    ///
    /// # Errors
    /// It is not.
    pub fn check_method(&self, method: Method) -> Result<(), TicketError> {
        if self.methods.contains(&method) { Ok(()) } else { Err(TicketError::Method(method)) }
    }

    /// Checks whether a client at this address may use the ticket for this hop.
    ///
    /// # Errors
    /// It is not, or there is no such hop.
    pub fn check_client(
        &self,
        hop: usize,
        address: IpAddr,
    ) -> Result<TicketClient<'_>, TicketError> {
        self.check_hop(hop)?;
        if self.admits(address) {
            return Ok(TicketClient::Allowed);
        }
        self.depot_before(hop).map(TicketClient::MustBe).ok_or(TicketError::Client(address))
    }

    /// The same for a request that came through a depot: then the address says nothing about the client.
    ///
    /// # Errors
    /// There is no such hop, or no depot that could have been asked before it.
    pub fn check_relayed(
        &self,
        hop: usize,
        address: IpAddr,
    ) -> Result<TicketClient<'_>, TicketError> {
        self.check_hop(hop)?;
        if self.clients.is_empty() {
            return Ok(TicketClient::Allowed);
        }
        self.depot_before(hop).map(TicketClient::MustBe).ok_or(TicketError::Relayed(address))
    }

    /// Whether the ticket is for a client at this address.
    pub fn admits(&self, client: IpAddr) -> bool {
        let ip = client.to_canonical();
        self.clients.is_empty() || self.clients.iter().any(|net| net.contains(&ip))
    }

    /// The depot that is asked for this hop.
    ///
    /// # Errors
    /// There is no such hop.
    pub fn depot(&self, hop: usize) -> Result<&DepotAddress, TicketError> {
        self.check_hop(hop)?;
        Ok(&self.via[hop])
    }

    /// The depot that asks for this hop, by the ticket; none for the first.
    fn depot_before(&self, hop: usize) -> Option<&DepotAddress> {
        hop.checked_sub(1).and_then(|before| self.via.get(before))
    }

    /// The step of the depot that was asked by this route, with this ticket in it: it asks the next
    /// depot, or the origin.
    ///
    /// # Errors
    /// There is no such hop, the tail is not the ticket's, or the next route would be too long.
    pub fn step(&self, route: &TicketRoute) -> Result<Fetch, TicketError> {
        self.check_hop(route.hop())?;
        // Every depot checks this: a request that the origin would not get goes no further.
        let origin = self.origin(route.tail())?;
        match self.via.get(route.hop() + 1) {
            None => Ok(Fetch::from_origin(origin)),
            Some(next) => {
                let depots = self.via.len() - route.hop() - 1;
                Ok(Fetch::from_depot(next.clone(), route.next()?.to_string(), depots))
            }
        }
    }

    /// The origin's URL for a request by this route.
    ///
    /// # Errors
    /// The ticket does not open it.
    pub fn url_of(&self, route: &TicketRoute) -> Result<OriginUrl, TicketError> {
        self.origin(route.tail())
    }

    /// The URL that the ticket opens with a tail.
    fn origin(&self, tail: &str) -> Result<OriginUrl, TicketError> {
        let url = self.url()?;
        route::check_tail(tail).map_err(TicketError::Tail)?;
        if !self.is_prefix() {
            if tail.contains(['/', '?']) {
                return Err(TicketError::Tail("it is for one URL, which only a name may follow"));
            }
            return Ok(url.clone());
        }
        let target = format!("{}{tail}", url.target());
        OriginUrl::new(url.scheme(), url.authority().clone(), &target)
            .map_err(|_| TicketError::Tail("the URL that it makes is malformed"))
    }

    /// The tail that makes a URL of the ticket's; nothing where the ticket does not open it.
    pub fn tail_to(&self, url: &OriginUrl) -> Option<String> {
        let tail = if self.is_prefix() {
            url.target().strip_prefix(self.url().ok()?.target())?
        } else {
            let path = url.target().split('?').next().unwrap_or_default();
            path.rsplit('/').next().unwrap_or_default()
        };
        (self.origin(tail).ok()? == *url).then(|| tail.to_owned())
    }

    fn check_hop(&self, hop: usize) -> Result<(), TicketError> {
        let depots = self.via.len();
        if hop < depots { Ok(()) } else { Err(TicketError::Hop { hop, depots }) }
    }

    /// Checks the claims.
    pub(super) fn check(&self) -> Result<(), TicketError> {
        let visible = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        let reason = if self.id.is_empty() || self.id.len() > MAX_ID_LEN || !visible(&self.id) {
            "its jti is not 1 to 128 visible ASCII characters".to_owned()
        } else if self.via.is_empty() {
            "it names no depot".to_owned()
        } else if let Err(error) = check_depots(&self.via) {
            error.to_string()
        } else if self.methods.is_empty() == matches!(self.opens, Opens::Url(_)) {
            "it names no method, or methods for a session".to_owned()
        } else if self.bytes == Some(Bytes::ZERO)
            || [self.rate, self.total_rate].into_iter().flatten().any(|rate| rate.bps() == 0)
        {
            "its bytes, rate_bps or total_rate_bps are 0".to_owned()
        } else if self.not_before.is_some_and(|from| from > self.expires) {
            "it expires before it becomes valid".to_owned()
        } else if self.issuer.as_ref().is_some_and(|iss| iss.contains(char::is_control)) {
            "its issuer holds a control character".to_owned()
        } else {
            return Ok(());
        };
        Err(TicketError::Claims { id: self.id.escape_debug().take(MAX_ID_LEN).collect(), reason })
    }

    /// As it travels.
    pub(super) fn to_claims(&self) -> Claims {
        let texts = |list: &[IpNet]| list.iter().map(ToString::to_string).collect();
        Claims {
            iss: self.issuer.clone(),
            iat: self.issued,
            nbf: self.not_before,
            exp: self.expires,
            jti: self.id.clone(),
            lh: Scope {
                url: self.url().ok().map(ToString::to_string),
                session: match &self.opens {
                    Opens::Url(_) => None,
                    Opens::Session(target) => Some(target.to_string()),
                },
                via: self.via.iter().map(ToString::to_string).collect(),
                methods: (!self.methods.is_empty())
                    .then(|| self.methods.iter().map(ToString::to_string).collect()),
                bytes: self.bytes.and_then(|bytes| NonZeroU64::new(bytes.get())),
                rate_bps: self.rate.and_then(|rate| NonZeroU64::new(rate.bps())),
                total_rate_bps: self.total_rate.and_then(|rate| NonZeroU64::new(rate.bps())),
                clients: (!self.clients.is_empty()).then(|| texts(&self.clients)),
                uses: self.uses,
            },
        }
    }
}

impl TryFrom<Claims> for Ticket {
    type Error = TicketError;
    fn try_from(claims: Claims) -> Result<Self, TicketError> {
        let id = claims.jti.clone();
        let bad = |reason: String| TicketError::Claims {
            id: id.escape_debug().take(MAX_ID_LEN).collect(),
            reason,
        };
        let scope = claims.lh;
        let opens = match (&scope.url, &scope.session) {
            (Some(url), None) => {
                Opens::Url(url.parse().map_err(|error| bad(format!("its url: {error}")))?)
            }
            (None, Some(target)) => {
                let target =
                    target.parse().map_err(|error| bad(format!("its session: {error}")))?;
                Opens::Session(target)
            }
            _ => return Err(bad("it has not one of url and session".to_owned())),
        };
        let via: Result<_, _> = scope.via.iter().take(MAX_DEPOTS + 1).map(|d| d.parse()).collect();
        let via = via.map_err(|error| bad(format!("its depots: {error}")))?;
        let methods = match scope.methods {
            None if scope.session.is_some() => Vec::new(),
            None => vec![Method::Get, Method::Head],
            Some(names) => {
                let methods: Result<_, _> = names.iter().map(|name| name.parse()).collect();
                methods.map_err(|error| bad(format!("its methods: {error}")))?
            }
        };
        let clients = match scope.clients {
            None => Vec::new(),
            // An empty list might mean no client or all clients.
            Some(list) if list.is_empty() => return Err(bad("it is for no client".to_owned())),
            Some(list) => {
                list.iter().map(|text| network(text)).collect::<Option<_>>().ok_or_else(|| {
                    bad("its clients are not all addresses or networks".to_owned())
                })?
            }
        };
        let ticket = Self {
            id: claims.jti,
            issuer: claims.iss,
            issued: claims.iat,
            not_before: claims.nbf,
            expires: claims.exp,
            opens,
            via,
            methods,
            bytes: scope.bytes.map(|bytes| Bytes::new(bytes.get())),
            rate: scope.rate_bps.map(|bps| Rate::bits_per_second(bps.get())),
            total_rate: scope.total_rate_bps.map(|bps| Rate::bits_per_second(bps.get())),
            clients,
            uses: scope.uses,
        };
        ticket.check()?;
        Ok(ticket)
    }
}

/// A network, or one address.
fn network(text: &str) -> Option<IpNet> {
    let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.ok().map(|net: IpNet| net.trunc())
}

/// A `jti` of 16 random bytes.
pub fn ticket_id(random: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(random))
}
