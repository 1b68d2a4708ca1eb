// SPDX-License-Identifier: GPL-2.0-or-later
//! Prints a ticket as text or JSON.

use crate::print::{print_json, print_text};
use protocol::ticket::{LEEWAY_S, Ticket, TicketDescription, UnixTime};
use std::fmt::Display;

/// Whether the signature was verified, and the time for which validity is shown.
#[derive(Clone, Copy)]
pub enum SignatureCheck {
    /// Not verified: all claims may be invented.
    No(UnixTime),
    /// The signature is good, and the ticket valid, at this time.
    Good(UnixTime),
}

/// Prints a ticket.
pub fn print(ticket: &Ticket, key: Option<&str>, checked: SignatureCheck, json: bool) {
    if json {
        let verified = matches!(checked, SignatureCheck::Good(_));
        print_json(&TicketDescription::new(ticket, key, verified));
    } else {
        print_text(&ticket_text(ticket, key, checked));
    }
}

fn ticket_text(ticket: &Ticket, key: Option<&str>, checked: SignatureCheck) -> String {
    let (signature, says) = match checked {
        SignatureCheck::No(_) => ("not checked: all of this may be invented", "it claims "),
        SignatureCheck::Good(_) => ("good", ""),
    };
    // These texts of an unverified ticket are untrusted, and could contain terminal controls.
    let key = key.map_or("no named key".to_owned(), |key| format!("key {}", key.escape_debug()));
    let by = ticket.issuer.as_ref().map(|by| format!(", by {}", by.escape_debug()));
    let scope = if ticket.is_prefix() { " and all below" } else { "" };
    let mut lines = vec![
        ("ticket", ticket.id.clone()),
        ("signature", signature.to_owned()),
        ("signed", format!("{says}with {key}{}", by.unwrap_or_default())),
        ("valid", validity(ticket, checked)),
        ("opens", format!("{}{scope}", ticket.opens)),
        ("through", format!("{} (the one nearest the client first)", joined(&ticket.via))),
    ];
    if !ticket.methods.is_empty() {
        lines.push(("methods", joined(&ticket.methods)));
    }
    if !ticket.clients.is_empty() {
        lines.push(("clients", joined(&ticket.clients)));
    }
    if let Some(bytes) = ticket.bytes {
        lines.push(("bytes", format!("at most {bytes} a transfer")));
    }
    if let Some(rate) = ticket.rate {
        lines.push(("rate", format!("at most {rate} a transfer")));
    }
    if let Some(rate) = ticket.total_rate {
        lines.push(("in all", format!("at most {rate} for all transfers together, at each depot")));
    }
    if let Some(uses) = ticket.uses {
        lines.push(("uses", format!("{uses} requests at each depot")));
    }
    let lines = lines.iter().map(|(name, what)| format!("{name:<10} {what}\n"));
    lines.collect::<Vec<_>>().concat()
}

fn validity(ticket: &Ticket, checked: SignatureCheck) -> String {
    let (SignatureCheck::No(time) | SignatureCheck::Good(time)) = checked;
    let from = ticket.not_before.map(|from| format!("from {from} "));
    let too_early = |time: UnixTime| ticket.not_before.is_some_and(|from| time < from);
    let standing = if too_early(time.plus(LEEWAY_S)) {
        "not yet"
    } else if ticket.expires.plus(LEEWAY_S) < time {
        "expired"
    } else if too_early(time) || ticket.expires < time {
        "valid only by the leeway"
    } else {
        "valid"
    };
    let (from, until) = (from.unwrap_or_default(), ticket.expires);
    // The clocks of depots may differ from the signer's.
    format!("{from}until {until} ({standing} at {time}; depots add a leeway of {LEEWAY_S} s)")
}

fn joined(list: &[impl Display]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
