// SPDX-License-Identifier: GPL-2.0-or-later
//! Refusals as HTTP says them, and what of a request may be tried elsewhere.

use http::StatusCode;
use protocol::http::{Fault, ProxyError};
use relay::dial::{Class, Refusal, Retry};

/// Why a next hop gave no response that could be passed on.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// The answer to the client.
    pub fault: Fault,
    /// Whether another next hop may do better.
    pub retry: Retry,
}

impl Unanswered {
    /// The next hop is at fault.
    pub(crate) fn of_upstream(fault: Fault) -> Self {
        Self { fault, retry: Retry::Elsewhere }
    }

    /// The request, or this depot, is at fault.
    pub(crate) fn for_good(fault: Fault) -> Self {
        Self { fault, retry: Retry::Never }
    }
}

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Self {
        Self { retry: refusal.retry, fault: fault(refusal) }
    }
}

/// The fault for clients without a complete request when the depot stops: they should use another depot.
pub(crate) fn stopping() -> Fault {
    let reason = "this depot is being stopped";
    Fault::new(StatusCode::SERVICE_UNAVAILABLE, ProxyError::HttpRequestError, reason)
}

/// The fault that a client gets for a refusal.
pub(crate) fn fault(refusal: Refusal) -> Fault {
    let (status, error) = match refusal.class {
        Class::Forbidden => (StatusCode::FORBIDDEN, ProxyError::DestinationIpProhibited),
        Class::NameUnknown => (StatusCode::BAD_GATEWAY, ProxyError::DnsError),
        Class::NameTimeout => (StatusCode::BAD_GATEWAY, ProxyError::DnsTimeout),
        Class::ConnectionRefused => (StatusCode::BAD_GATEWAY, ProxyError::ConnectionRefused),
        Class::ConnectionTimeout => (StatusCode::BAD_GATEWAY, ProxyError::ConnectionTimeout),
        Class::Unroutable => (StatusCode::BAD_GATEWAY, ProxyError::DestinationIpUnroutable),
        Class::ConnectionFailed => (StatusCode::BAD_GATEWAY, ProxyError::ConnectionTerminated),
        Class::TlsCertificate => (StatusCode::BAD_GATEWAY, ProxyError::TlsCertificateError),
        Class::TlsAlert => (StatusCode::BAD_GATEWAY, ProxyError::TlsAlertReceived),
        Class::TlsProtocol => (StatusCode::BAD_GATEWAY, ProxyError::TlsProtocolError),
        Class::Scarce => (StatusCode::SERVICE_UNAVAILABLE, ProxyError::ProxyInternalError),
        Class::Internal => (StatusCode::INTERNAL_SERVER_ERROR, ProxyError::ProxyInternalError),
    };
    Fault::new(status, error, refusal.text).with_detail(refusal.detail)
}
