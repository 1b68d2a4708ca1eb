// SPDX-License-Identifier: GPL-2.0-or-later
//! What to do when a depot's store refuses.

use crate::Error;
use protocol::session::record::EndCode;

/// An error of a session with a depot's store, with its remedy if there is one.
pub(in crate::parcel) fn refused(error: session::Error) -> Error {
    match remedy(&error) {
        Some(remedy) => Error::Store { error: Box::new(error), remedy },
        None => error.into(),
    }
}

fn remedy(error: &session::Error) -> Option<&'static str> {
    if error.is_no_space() {
        return Some(
            "Try again later, use another depot, or remove sessions of yours: longhaul session list, longhaul session drop",
        );
    }
    if error.is_other_prefix() {
        return Some("The depot has another session under this code: omit --code for a new one");
    }
    match error {
        session::Error::Refused(fault) if fault.status.as_u16() == 501 => Some(
            "Use a depot that keeps sessions ([store] in its configuration), or send while the receiver waits: without --detach",
        ),
        session::Error::Ended { code, text } => match EndCode::of(*code) {
            Some(EndCode::NoRoom) => {
                Some("Another sender may be leaving it: omit --code for a new one")
            }
            Some(EndCode::Application) if text.to_ascii_lowercase().contains("no such session") => {
                Some(
                    "The code, depot or owner's key is another one, or the session has expired or was dropped",
                )
            }
            _ => None,
        },
        _ => None,
    }
}
