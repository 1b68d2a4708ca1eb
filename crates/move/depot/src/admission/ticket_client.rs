// SPDX-License-Identifier: GPL-2.0-or-later
//! The client that a ticket is checked against: the peer, or the client that a trusted depot vouches for.
//!
//! A connection from a depot carries that depot's address, whichever client asked, and a plain route may lead
//! to the same depot as a ticket's route. So a depot vouches for a client only to the next depot of a ticket,
//! after it has checked the client against the ticket, and every depot removes such fields from what it
//! receives.

use crate::{admission::identity, settings::Settings};
use http::StatusCode;
use protocol::{
    http::{Fault, ProxyError},
    ticket::{Ticket, TicketClient, TicketError},
};
use relay::dial::Resolver;
use std::net::IpAddr;

/// Where a request or a session comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CameFrom {
    /// This address.
    pub peer: IpAddr,
    /// Whether a depot has passed it on.
    pub relayed: bool,
    /// The client that a depot vouches for, if it names one.
    pub vouched: Option<IpAddr>,
}

impl CameFrom {
    /// The client, if the ticket is for it at this hop.
    pub(crate) async fn client(
        self,
        (ticket, hop): (&Ticket, usize),
        settings: &Settings,
        resolver: Resolver<'_>,
    ) -> Result<IpAddr, Fault> {
        let peer = self.peer;
        let asker = if self.relayed {
            ticket.check_relayed(hop, peer)?
        } else {
            ticket.check_client(hop, peer)?
        };
        let TicketClient::MustBe(depot) = asker else { return Ok(peer) };
        if !identity::has_address(depot, peer, &settings.config, resolver).await? {
            let reason = format!(
                "the ticket has {depot} ask this depot, and {peer} is not one of its addresses"
            );
            let (status, error) = (StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied);
            return Err(Fault::new(status, error, reason));
        }
        match self.vouched {
            Some(client) if ticket.admits(client) => Ok(client),
            Some(client) => Err(TicketError::Client(client).into()),
            None => Err(TicketError::Relayed(peer).into()),
        }
    }
}
