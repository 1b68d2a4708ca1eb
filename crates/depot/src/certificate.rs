// SPDX-License-Identifier: GPL-2.0-or-later
//! Validity of the depot's own certificates, and warnings about those that end soon, have ended or do not
//! apply yet.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

/// How long before its end the depot warns of a certificate.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// When all certificates of a chain are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    from: SystemTime,
    until: SystemTime,
}

/// What is wrong with a certificate's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    NotYet(SystemTime),
    Soon(SystemTime),
    Expired(SystemTime),
}

impl Validity {
    /// The validity of a chain. `None` if it cannot be read.
    pub(crate) fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let mut whole: Option<Self> = None;
        for der in chain {
            let (_, certificate) = parse_x509_certificate(der).ok()?;
            let validity = certificate.validity();
            let (from, until) =
                (time(validity.not_before.timestamp()), time(validity.not_after.timestamp()));
            let this = Self { from, until };
            whole = Some(whole.map_or(this, |whole| whole.and(this)));
        }
        whole
    }

    /// When both are good.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { from: self.from.max(other.from), until: self.until.min(other.until) }
    }

    /// Until when, in seconds since 1970.
    pub(crate) fn until_unix_s(self) -> f64 {
        self.until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }

    /// What is wrong with it at a time.
    pub(crate) fn trouble(self, now: SystemTime) -> Option<Trouble> {
        if now > self.until {
            Some(Trouble::Expired(self.until))
        } else if now < self.from {
            Some(Trouble::NotYet(self.from))
        } else if now + SOON > self.until {
            Some(Trouble::Soon(self.until))
        } else {
            None
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |time: &SystemTime| humantime::format_rfc3339_seconds(*time);
        match self {
            Self::NotYet(from) => {
                write!(f, "is valid from {} only: clients refuse it until then", at(from))
            }
            Self::Soon(until) => {
                write!(f, "expires at {}: renew it; the depot rereads it automatically", at(until))
            }
            Self::Expired(until) => write!(
                f,
                "has expired at {}, and clients refuse it: renew it; the depot rereads it automatically",
                at(until)
            ),
        }
    }
}

fn time(unix_s: i64) -> SystemTime {
    // The last year that can be printed; certificates that never expire end there.
    const LAST: u64 = 253_402_300_799;
    UNIX_EPOCH + Duration::from_secs(u64::try_from(unix_s).unwrap_or(0).min(LAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_validity_is_checked() {
        let day = Duration::from_secs(86_400);
        let (from, until) = (UNIX_EPOCH + day * 100, UNIX_EPOCH + day * 200);
        let validity = Validity { from, until };
        for (at, trouble) in [
            (99, Some(Trouble::NotYet(from))),
            (100, None),
            (186, None),
            (187, Some(Trouble::Soon(until))),
            (200, Some(Trouble::Soon(until))),
            (201, Some(Trouble::Expired(until))),
        ] {
            assert_eq!(validity.trouble(UNIX_EPOCH + day * at), trouble, "day {at}");
        }
    }
}
