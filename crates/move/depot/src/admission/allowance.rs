// SPDX-License-Identifier: GPL-2.0-or-later
//! What a ticket grants of a transfer.

use http::StatusCode;
use protocol::{
    http::{Fault, Framing, ProxyError},
    ticket::{Ticket, Verified},
};
use relay::rates::TransferLimits;
use std::sync::Arc;
use units::{Bytes, Rate};

/// How much of a transfer is granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowance {
    /// Maximum bytes of a body, in either direction.
    pub bytes: Option<Bytes>,
    /// The highest rate.
    pub rate: Option<Rate>,
    /// The ticket that grants it, and the highest rate of all its transfers.
    pub ticket: Option<(Arc<str>, Option<Rate>)>,
    /// The key that has signed it.
    pub key: Option<Arc<str>>,
}

impl Allowance {
    /// What a ticket grants.
    pub(crate) fn of(Verified { ticket, key }: &Verified) -> Self {
        let Ticket { id, bytes, rate, total_rate, .. } = ticket;
        let of_ticket = Some((id.as_str().into(), *total_rate));
        Self { bytes: *bytes, rate: *rate, ticket: of_ticket, key: Some(key.as_str().into()) }
    }

    /// What may hold a transfer to a rate.
    pub(crate) fn limits(&self) -> TransferLimits {
        let (ticket, key) = (self.ticket.clone(), self.key.clone());
        TransferLimits { granted: self.rate, upstream: None, ticket, key }
    }

    /// Sees whether a body of a known length is granted.
    pub(crate) fn check(&self, framing: Framing) -> Result<(), Fault> {
        match (framing, self.bytes) {
            (Framing::Length(length), Some(most)) if length > most.get() => {
                let most = most.get();
                let reason = format!(
                    "the ticket is for at most {most} bytes of a body, and this has {length}"
                );
                Err(Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason))
            }
            _ => Ok(()),
        }
    }
}
