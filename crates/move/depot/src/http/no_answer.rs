// SPDX-License-Identifier: GPL-2.0-or-later
//! Faults for a next hop that does not respond.

use crate::http::head::HeadError;
use http::StatusCode;
use protocol::{
    Authority,
    http::{Fault, ProxyError},
};
use std::{fmt::Display, time::Duration};

/// The next hop does not answer: having taken the request, or having stopped taking its body.
pub(crate) fn late(next: &Authority, time: Duration, uploaded: bool) -> Fault {
    let stopped = if uploaded { "" } else { "took no more of the request's body and " };
    let reason = format!("upstream {next} {stopped}did not answer within {} s", time.as_secs_f64());
    Fault::new(StatusCode::GATEWAY_TIMEOUT, ProxyError::HttpResponseTimeout, reason)
}

/// The next hop took the request and gave no usable answer.
pub(crate) fn no_answer(next: &impl Display, error: HeadError) -> Fault {
    let (kind, what) = match error {
        HeadError::Malformed(fault) => return fault,
        HeadError::Closed => (ProxyError::ConnectionTerminated, "closed without an answer".into()),
        HeadError::CutOff => {
            (ProxyError::HttpResponseIncomplete, "closed in the middle of its head".into())
        }
        HeadError::TooLarge => {
            (ProxyError::HttpProtocolError, "sent a head larger than this depot takes".into())
        }
        HeadError::Io(error) => (ProxyError::ConnectionTerminated, format!("failed: {error}")),
    };
    Fault::new(StatusCode::BAD_GATEWAY, kind, format!("upstream {next} {what}"))
}
