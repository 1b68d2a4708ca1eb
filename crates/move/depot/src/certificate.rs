// SPDX-License-Identifier: GPL-2.0-or-later
//! The depot's own certificates as clients judge them: their time, their use, their names and their chain.
//!
//! A certificate that is read while the depot runs is taken only if clients that took the one before it take it, too
//! ([`worse_than`]). Otherwise a renewal that went wrong, such as a file of another host, would shut clients out at once,
//! while the good certificate is still in memory.

use protocol::Host;
use relay::tcp::tls_files::roots;
use std::{
    fmt::{self, Display},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio_rustls::rustls::{
    CertificateError, Error,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use units::text::printable;
use x509_parser::{extensions::GeneralName, parse_x509_certificate, prelude::X509Certificate};

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

impl Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// What a chain says of its first certificate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Described {
    /// When all of the chain is good.
    pub validity: Option<Validity>,
    /// The names and addresses that it is for.
    names: Vec<String>,
    /// Who has signed it.
    issuer: String,
    is_self_signed: bool,
    /// What clients refuse it for, at any time and by any name.
    faults: Vec<Problem>,
}

/// What makes clients refuse a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    Expired,
    NotYet,
    /// It is an authority's (CA:TRUE).
    Authority,
    /// Its extended key usage has no servers in it.
    Usage,
    /// It has no name but the common name, which clients ignore.
    NoName,
    /// It is not for this name.
    Name(String),
    /// The file's certificates are not in order.
    Chain,
}

impl Problem {
    /// Its word in metrics.
    pub(crate) const fn token(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotYet => "not_yet_valid",
            Self::Authority => "authority",
            Self::Usage => "usage",
            Self::NoName => "no_name",
            Self::Name(_) => "name",
            Self::Chain => "chain",
        }
    }

    /// What to do about it, if that is not said elsewhere.
    pub(crate) const fn remedy(&self) -> &'static str {
        match self {
            Self::Authority => {
                "make a server's certificate: openssl req -x509 ... -addext basicConstraints=critical,CA:FALSE \
                 (docs/operator.md, A certificate)"
            }
            Self::Usage => "get a certificate whose extendedKeyUsage has serverAuth",
            Self::NoName => "get a certificate with subjectAltName=DNS:NAME",
            Self::Name(_) => "get a certificate that covers the name, or correct the name",
            Self::Chain => {
                "put the server's certificate first and each one's issuer after it, as in fullchain.pem"
            }
            Self::Expired | Self::NotYet => "renew it; the depot rereads it automatically",
        }
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("it has expired"),
            Self::NotYet => f.write_str("it is not valid yet"),
            Self::Authority => {
                f.write_str("it is an authority's certificate (CA:TRUE), not a server's")
            }
            Self::Usage => f.write_str("its extended key usage does not allow servers"),
            Self::NoName => f.write_str("it has no subjectAltName"),
            Self::Name(name) => write!(f, "it is not for {name}"),
            Self::Chain => f.write_str("its certificates do not follow one another as a chain"),
        }
    }
}

impl Described {
    /// What a chain says. A certificate that cannot be read says nothing.
    pub(crate) fn of(chain: &[CertificateDer<'_>]) -> Self {
        let parsed: Vec<_> =
            chain.iter().filter_map(|der| Some(parse_x509_certificate(der).ok()?.1)).collect();
        let Some(own) = parsed.first() else {
            return Self { faults: vec![Problem::NoName], ..Self::default() };
        };
        let constraints = own.basic_constraints().ok().flatten();
        let usage = own.extended_key_usage().ok().flatten();
        let is_authority = constraints.is_some_and(|it| it.value.ca);
        let is_for_servers = usage.is_none_or(|it| it.value.server_auth || it.value.any);
        // Each certificate has signed the one before it, by their names.
        let is_chain = parsed.windows(2).all(|pair| pair[0].issuer() == pair[1].subject());
        let names = names(own);
        let faults = [
            (is_authority, Problem::Authority),
            (!is_for_servers, Problem::Usage),
            (names.is_empty(), Problem::NoName),
            (!is_chain, Problem::Chain),
        ];
        Self {
            validity: Validity::of(chain),
            names,
            issuer: printable(&own.issuer().to_string(), 200),
            is_self_signed: own.issuer() == own.subject(),
            faults: faults
                .into_iter()
                .filter_map(|(is_so, fault)| is_so.then_some(fault))
                .collect(),
        }
    }

    /// What clients refuse it for that call the depot by these names, each with what a client says to it.
    pub(crate) fn problems(
        &self,
        refused: impl Iterator<Item = String>,
        now: SystemTime,
    ) -> Vec<Problem> {
        let mut problems = Vec::new();
        match self.validity.and_then(|validity| validity.trouble(now)) {
            Some(Trouble::Expired(_)) => problems.push(Problem::Expired),
            Some(Trouble::NotYet(_)) => problems.push(Problem::NotYet),
            Some(Trouble::Soon(_)) | None => {}
        }
        problems.extend(self.faults.iter().cloned());
        problems.extend(refused.map(Problem::Name));
        problems
    }

    /// Its names in a line.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.names.iter().map(|name| printable(name, 100)).collect();
        printable(&names.join(", "), 300)
    }

    /// Whether a name of it is also one of the other.
    fn shares_name(&self, other: &Self) -> bool {
        self.names.iter().any(|name| other.names.contains(name))
    }
}

impl Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, issuer) = (self.names(), &self.issuer);
        write!(f, "{names}; issuer {issuer}")?;
        let Some(Validity { until, .. }) = self.validity else { return Ok(()) };
        write!(f, "; until {}", humantime::format_rfc3339_seconds(until))
    }
}

/// A chain with what it says and what clients refuse it for.
pub(crate) struct Judged<'c> {
    pub chain: &'c [CertificateDer<'static>],
    pub described: &'c Described,
    pub problems: Vec<Problem>,
}

/// Why clients that take the certificate of `before` refuse that of `new`. `names` are those that they are known to call
/// the depot by, and `trusted` the file of authorities, or none for those of this system.
pub(crate) fn worse_than(
    before: &Judged<'_>,
    new: &Judged<'_>,
    has_names: bool,
    trusted: Option<&PathBuf>,
) -> Option<String> {
    // Nobody takes the one before any more.
    if before.problems.iter().any(|it| matches!(it, Problem::Expired | Problem::NotYet)) {
        return None;
    }
    if let Some(problem) = new.problems.iter().find(|problem| !before.problems.contains(problem)) {
        return Some(problem.to_string());
    }
    let (old, described) = (before.described, new.described);
    if !has_names && !old.names.is_empty() && !described.shares_name(old) {
        return Some(format!(
            "it is for {}, and the one before it for {}",
            described.names(),
            old.names()
        ));
    }
    if described.is_self_signed && !old.is_self_signed {
        return Some("it is self-signed, and the one before it has an issuer".to_owned());
    }
    // Issuers change, and other keys have the same name: what counts is whether an authority leads to it.
    let was_trusted = distrust(before, trusted).is_none();
    let why = distrust(new, trusted).filter(|_| was_trusted)?;
    let whose = trusted.map_or("this system".to_owned(), |file| file.display().to_string());
    Some(format!("no authority of {whose} has signed it, unlike the one before it: {why}"))
}

/// Why a chain does not lead to a trusted authority.
fn distrust(of: &Judged<'_>, trusted: Option<&PathBuf>) -> Option<String> {
    let files: Vec<_> = trusted.cloned().into_iter().collect();
    let roots = roots(&files).map_err(|error| error.to_string());
    let verified = roots.and_then(|roots| {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().map_err(|error| error.to_string())?;
        let (own, others) = of.chain.split_first().ok_or("it is empty")?;
        let name = of.described.names.first().map_or("-", String::as_str);
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        match verifier.verify_server_cert(own, others, &name, &[], UnixTime::now()) {
            // Time and name are judged by themselves.
            Ok(_)
            | Err(Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
                | CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. },
            )) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    verified.err()
}

/// The names and addresses that a certificate is for.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Some(all) = certificate.subject_alternative_name().ok().flatten() else {
        return Vec::new();
    };
    let address = |bytes: &[u8]| match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|ip| IpAddr::from(Ipv4Addr::from(ip))),
        _ => <[u8; 16]>::try_from(bytes).ok().map(|ip| IpAddr::from(Ipv6Addr::from(ip))),
    };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|ip| ip.to_string()),
        _ => None,
    };
    all.value.general_names.iter().filter_map(name).collect()
}

/// The name of a host, as TLS knows it.
pub(crate) fn server_name(host: &Host) -> Result<ServerName<'static>, String> {
    match host {
        Host::Ip(ip) => Ok(ServerName::IpAddress((*ip).into())),
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(|error| error.to_string()),
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
