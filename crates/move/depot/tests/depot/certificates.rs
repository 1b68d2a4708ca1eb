// SPDX-License-Identifier: GPL-2.0-or-later
//! Certificates that are read while a depot runs: judged, and taken only if clients take them as those before.

use crate::common::{
    client::body,
    pki::{Pki, handshake_kind, url},
    process::Daemon,
    scripted::Scripted,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa};
use rustix::process::Signal;
use std::{
    fs,
    time::{Duration, SystemTime},
};
use testkit::until;
use tokio_rustls::rustls::HandshakeKind;

const DAY: Duration = Duration::from_secs(86_400);
const ADMIN: &str = "admin.listen = \"127.0.0.1:0\"";

/// The names of the certificate that the depot shows, by its own account.
fn shown(depot: &Daemon) -> String {
    depot.status().certificates[0].names.clone()
}

/// The problems that the depot tells of.
fn problems(depot: &Daemon) -> Vec<String> {
    let own = &depot.status().certificates[0];
    let refused = own.refused.as_ref().map(|_| "refused".to_owned());
    own.problems.iter().cloned().chain(refused).collect()
}

fn has_metric(depot: &Daemon, problem: &str) -> bool {
    let text = body(&format!("http://{}/metrics", depot.admin()));
    let line = format!("longhaul_depot_certificate_problem{{of=\"own\",problem=\"{problem}\"}} 1");
    String::from_utf8(text).unwrap().lines().any(|it| it == line)
}

/// How a certificate is changed before it is signed.
type Change = fn(&mut CertificateParams);

/// A certificate that clients refuse, by this authority or another, and why.
struct Worse {
    case: &'static str,
    hosts: &'static [&'static str],
    /// Signed by itself.
    alone: bool,
    change: Change,
    why: &'static str,
}

const OWN: &[&str] = &["127.0.0.1"];

/// As the authority makes them, or somebody else.
fn worse() -> [Worse; 7] {
    let same: Change = |_| ();
    let case = |case, hosts, change, why| Worse { case, hosts, alone: false, change, why };
    [
        case("another name", &["elsewhere.example"], same, "it is for elsewhere.example"),
        case("no name", &[], same, "it has no subjectAltName"),
        case(
            "expired",
            OWN,
            |it| {
                it.not_before = (SystemTime::now() - DAY * 9).into();
                it.not_after = (SystemTime::now() - DAY).into();
            },
            "it has expired",
        ),
        case(
            "not yet",
            OWN,
            |it| {
                it.not_before = (SystemTime::now() + DAY).into();
                it.not_after = (SystemTime::now() + DAY * 9).into();
            },
            "it is not valid yet",
        ),
        case(
            "authority",
            OWN,
            |it| it.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
            "it is an authority's certificate",
        ),
        case(
            "for clients",
            OWN,
            |it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            "its extended key usage does not allow servers",
        ),
        Worse {
            alone: true,
            ..case(
                "self-signed",
                OWN,
                |it| it.distinguished_name.push(DnType::CommonName, "alone"),
                "it is self-signed",
            )
        },
    ]
}

/// The depot says why it keeps what it has, and goes on to show it; then the good one is back.
fn is_refused(pki: &Pki, depot: &Daemon, case: &str, why: &str) {
    depot.await_log(&["WARN", "the certificates stay as they were", why]);
    until(case, || problems(depot) == ["refused"] && has_metric(depot, "refused"));
    let got = pki.curl(&["-i", &format!("https://{}/", depot.authority())]);
    let error = String::from_utf8_lossy(&got.stderr);
    assert!(got.stdout.starts_with(b"HTTP/1.1 "), "{case}: {error}");
    pki.issue("own", "127.0.0.1");
    until("the good one is back", || problems(depot).is_empty());
}

#[test]
fn worse_certificate_is_not_taken_while_running() {
    let pki = Pki::new();
    let depot = pki.depot(ADMIN);
    assert_eq!((shown(&depot).as_str(), problems(&depot)), ("127.0.0.1", vec![]));
    for Worse { case, hosts, alone, change, why } in worse() {
        pki.issue_changed("own", hosts, alone, change);
        is_refused(&pki, &depot, case, why);
    }
    // Of an authority of the same name that nobody trusts.
    let stranger = Pki::new();
    for end in ["own.key", "own.pem"] {
        fs::copy(stranger.file(end), pki.file(end)).unwrap();
    }
    is_refused(&pki, &depot, "unknown issuer", "no authority of");
    stranger.issue("other", "127.0.0.1");
    fs::copy(stranger.file("other.key"), pki.file("own.key")).unwrap();
    is_refused(&pki, &depot, "another key", "do not belong together");
    fs::write(pki.file("own.pem"), "").unwrap();
    is_refused(&pki, &depot, "no certificate", "it holds no certificate");
    let line = depot.await_log(&["INFO", "certificates read again", "now="]);
    assert!(line.contains("127.0.0.1; issuer ") && line.contains("an authority"), "{line}");
}

/// What the configuration says that clients call the depot counts, not what the certificate before was for.
#[test]
fn certificate_for_configured_name_is_taken() {
    let pki = Pki::new();
    pki.issue_changed("own", &["old.example", "127.0.0.1"], false, |_| ());
    let names = "names = [\"https:new.example\"]\n";
    let depot = pki.depot(&format!("{names}{ADMIN}"));
    depot.await_log(&["WARN", "clients that ask for https:new.example"]);
    assert_eq!(problems(&depot), ["name"]);
    pki.issue_changed("own", &["new.example"], false, |_| ());
    until("it is taken", || shown(&depot) == "new.example" && problems(&depot).is_empty());
    pki.issue_changed("own", &["old.example", "127.0.0.1"], false, |_| ());
    depot.await_log(&["WARN", "stay as they were", "it is not for new.example"]);
    assert_eq!(shown(&depot), "new.example");
    // Nor does a reload of the configuration take it.
    depot.signal(Signal::HUP);
    depot.await_log(&["WARN", "clients would refuse the certificate in this file", "new.example"]);
    assert_eq!(shown(&depot), "new.example");
}

/// A client that resumed a session would see no certificate, and not notice that it is another one.
#[test]
fn changed_certificate_ends_session_resumption() {
    let pki = Pki::new();
    let depot = pki.depot(ADMIN);
    let config = pki.client_config();
    let kind = || handshake_kind(&config, depot.address);
    assert_eq!([kind(), kind()], [HandshakeKind::Full, HandshakeKind::Resumed]);
    let ends = || depot.status().certificates[0].not_after_unix_s;
    let before = ends();
    pki.issue_for("own", "127.0.0.1", SystemTime::now() - DAY, SystemTime::now() + DAY * 90);
    until("the new one is read", || (ends() - before).abs() > 86_400.0);
    assert_eq!([kind(), kind()], [HandshakeKind::Full, HandshakeKind::Resumed]);
}

/// The example of operator.md was an authority's certificate, which the next depot refuses.
#[test]
fn authority_as_server_is_named_with_its_remedy() {
    let pki = Pki::new();
    pki.issue_changed("far", &["127.0.0.1"], false, |it| {
        it.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let far = Daemon::depot_with(&pki.settings("far", &format!("id = \"far\"\n{ADMIN}")));
    far.await_log(&["WARN", "far.pem", "an authority's certificate", "basicConstraints"]);
    assert!(problems(&far) == ["authority"] && has_metric(&far, "authority"));
    let depots = [pki.depot("id = \"near\""), far];
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let got = pki.curl(&["-i", &url(&depots, origin.address, "/")]);
    let text = String::from_utf8_lossy(&got.stdout);
    assert!(text.starts_with("HTTP/1.1 502"), "{text}");
    for part in ["its certificate is an authority's (CA:TRUE)", "CA:FALSE"] {
        assert!(text.contains(part), "{text}");
    }
}
