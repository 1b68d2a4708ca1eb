// SPDX-License-Identifier: GPL-2.0-or-later
//! Causes planted on an emulated path, found from a download over it.

use host::sysctl;
use longhaul_doctor::{
    Target,
    diagnosis::{Diagnosis, diagnose},
    facts::{
        Facts, Host,
        path::{self, End, NoTls, Prober, Request},
    },
};
use scenario::Scenario;
use std::{io, time::Duration};
use testkit::{
    Measured, credible,
    draft::Draft,
    http_server::{Conn, Server},
    one_of_two,
};
use wan::Wan;

/// What a server sends: for five seconds at 100 Mb/s.
const BODY: usize = 64 << 20;
/// The longest of these downloads: 200 round trips.
const LONGEST: Duration = Duration::from_secs(4);
const PROBER: Prober<'_> = Prober { tls: &NoTls, longest: LONGEST };
const TARGET: &str = "100mbit@20ms";

/// A path of 100 Mb/s and 20 ms from a server to a client, with more keys of its link and of the server.
fn network(link: &str, server: &str) -> Wan {
    up(&nodes(server).link("server", "client", link))
}

fn nodes(server: &str) -> Draft {
    Draft::new("path", "").node("server", server).node("client", "tcp_rmem_max=16MB")
}

fn up(draft: &Draft) -> Wan {
    let none: [&str; 0] = [];
    let scenario = Scenario::parse(&draft.to_string(), "path.toml", &none).unwrap();
    Wan::up(&scenario.runs[0]).unwrap()
}

const LINK: &str = "rate=100mbit delay=10ms";
const SENDS: &str = "tcp_wmem_max=16MB";

/// Runs something on a node.
fn on<T: Send>(wan: &Wan, node: &str, work: impl FnOnce() -> T + Send) -> T {
    let done: io::Result<T> = wan.node(node).unwrap().namespace.run(|| Ok(work()));
    done.unwrap()
}

fn server(wan: &Wan, answer: impl Fn(&mut Conn) + Send + Sync + 'static) -> Server {
    on(wan, "server", || Server::start_at("0.0.0.0:80", move |_, _, conn| answer(conn)))
}

fn large(conn: &mut Conn) {
    conn.answer("200 OK", &[], &vec![7; BODY]);
}

/// What the client finds by downloads of that length.
fn diagnosed(wan: &Wan, target: &str, longest: Duration) -> (Diagnosis, Facts) {
    let address = wan.address("server").unwrap();
    let request = Request::parse(&format!("http://{address}/file")).unwrap();
    let target: Target = target.parse().unwrap();
    on(wan, "client", || {
        let facts = Facts {
            host: Host::gather(Some(address)),
            path: Some(Prober { longest, ..PROBER }.probe(&request).unwrap()),
            ..Facts::default()
        };
        (diagnose(&facts, &target), facts)
    })
}

/// The names of what is found for what the client receives, in order.
fn ids(diagnosis: &Diagnosis) -> Vec<&'static str> {
    let of_path = |id: &&str| id.starts_with("path-") || id.starts_with("peer-");
    diagnosis.findings.iter().map(|ranked| ranked.finding.id).filter(of_path).collect()
}

/// What is found first for downloads of `longest` over a path.
fn is_found_first(id: &str, path: impl Fn() -> Wan, target: &str, longest: Duration) {
    let _turn = one_of_two();
    credible(|| {
        let wan = path();
        let _server = server(&wan, large);
        let (diagnosis, facts) = diagnosed(&wan, target, longest);
        let found = ids(&diagnosis);
        let wrong = found.first().is_none_or(|first| *first != id);
        measured(&wan, wrong.then(|| format!("{found:?}, not {id}: {:#?}", facts.path)))
    });
}

fn measured(wan: &Wan, wrong: Option<String>) -> Measured {
    let faults = wan.status().unwrap().health.faults();
    Measured { wrong: wrong.into_iter().collect(), faults }
}

#[test]
fn good_path_is_silent() {
    let _turn = one_of_two();
    credible(|| {
        let wan = network(LINK, SENDS);
        let _server = server(&wan, large);
        let (diagnosis, facts) = diagnosed(&wan, TARGET, LONGEST);
        let path = facts.path.unwrap();
        assert!(path.window_scaling && path.sack && path.timestamps && !path.is_unscaled);
        let is_silent =
            (19_000..40_000).contains(&path.handshake_rtt_us) && ids(&diagnosis).is_empty();
        measured(&wan, (!is_silent).then(|| format!("{:?}: {path:#?}", ids(&diagnosis))))
    });
}

/// Over a longer path and time than others: losses by chance take a while to be told from a policer's, which keep the rate even.
#[test]
fn losses_are_found() {
    let path = || network("rate=100mbit delay=20ms loss=0.1%", SENDS);
    is_found_first("path-loss", path, "100mbit@40ms", Duration::from_secs(10));
}

#[test]
fn slow_link_is_found_by_its_queue() {
    let path = || network("rate=20mbit delay=10ms queue=4bdp", SENDS);
    is_found_first("path-rate", path, TARGET, LONGEST);
}

#[test]
fn small_window_of_the_server_is_found() {
    is_found_first("peer-window", || network(LINK, "tcp_wmem_max=64KB"), TARGET, LONGEST);
}

/// An option that the other end refuses is not in force, as one that a middlebox removes. Other findings
/// depend on whether the emulator keeps up.
#[test]
fn removed_options_are_found() {
    let options = [
        ("tcp_window_scaling", "path-window-scaling"),
        ("tcp_sack", "path-sack"),
        ("tcp_timestamps", "path-timestamps"),
    ];
    for (name, id) in options {
        let _turn = one_of_two();
        let wan = network(LINK, SENDS);
        on(&wan, "server", || sysctl::write(&format!("net.ipv4.{name}"), "0").unwrap());
        let _server = server(&wan, |conn| conn.answer("200 OK", &[], &vec![7; 4 << 20]));
        let (diagnosis, facts) = diagnosed(&wan, TARGET, LONGEST);
        let is_option = |found: &&str| options.iter().any(|(_, id)| id == found);
        let found: Vec<&str> = ids(&diagnosis).into_iter().filter(is_option).collect();
        assert_eq!(found, [id], "{:#?}", facts.path);
    }
}

/// A server whose segments above 1000 bytes vanish, as behind a tunnel that tells nobody.
#[test]
fn black_hole_for_large_packets_is_found() {
    let _turn = one_of_two();
    let wan = network(LINK, SENDS);
    let _server = server(&wan, |conn| {
        let info = host::tcp_info(&conn.stream).unwrap();
        let segment = info.cwnd.get() / u64::from(info.cwnd_segments);
        if segment > 1000 {
            conn.hang(std::time::Duration::from_secs(20));
        } else {
            conn.answer("200 OK", &[], &vec![7; 100_000]);
        }
    });
    let (diagnosis, facts) = diagnosed(&wan, TARGET, LONGEST);
    let path = facts.path.as_ref().unwrap();
    assert_eq!((path.end, path.small_segments_pass), (End::Stalled, Some(true)), "{path:#?}");
    let first = &diagnosis.findings[0];
    assert_eq!(first.finding.id, "path-black-hole");
    let predicted = first.predicted.as_ref().unwrap();
    assert!(predicted.now.bps() == 0 && predicted.after.bps() > 50_000_000, "{predicted:?}");
    let words = first.finding.changes()[0].command();
    assert!(words.ends_with("advmss 1220"), "{words}");
    // The kernel takes the route, and has it as before after the undo.
    on(&wan, "client", || {
        first.finding.changes()[0].make().unwrap();
        assert_eq!(first.finding.changes()[0].holds(), Some(true));
        first.undo.as_ref().unwrap()[0].make().unwrap();
    });
}

#[test]
fn policer_is_found_by_losses_without_a_queue() {
    let policed = format!("{LINK} forward.policer={{rate=\"20mbit\",burst=\"200KB\"}}");
    is_found_first("path-policer", || network(&policed, SENDS), TARGET, LONGEST);
}

/// A line of 100 Mb/s to this host and 10 Mb/s from it.
#[test]
fn slower_direction_is_found_by_an_upload() {
    let _turn = one_of_two();
    credible(|| {
        let wan = network(&format!("{LINK} backward.rate=10mbit"), SENDS);
        let _server = server(&wan, |conn| conn.hang(2 * LONGEST));
        let address = wan.address("server").unwrap();
        let request = Request::parse(&format!("http://{address}/inbox")).unwrap();
        let sent = on(&wan, "client", || path::upload(&PROBER, &request).unwrap());
        let facts = Facts { sent: Some(sent), ..Facts::default() };
        let diagnosis = diagnose(&facts, &TARGET.parse().unwrap());
        let first = diagnosis.findings.first().map(|first| first.finding.id);
        let sent = facts.sent.unwrap();
        let share = sent.rate_bps.map(|bps| bps as f64 / 10e6);
        let is_right =
            first == Some("sent-rate") && share.is_some_and(|share| (0.85..1.1).contains(&share));
        measured(&wan, (!is_right).then(|| format!("{first:?}, {share:?}: {sent:#?}")))
    });
}

/// A gigabit that ends before a switch with room for a few packets of a slower link.
#[test]
fn bursts_lost_at_a_shallow_buffer_are_found() {
    let draft = nodes(SENDS)
        .node("switch", "")
        .link("server", "switch", "rate=1gbit delay=1ms")
        .link("switch", "client", "rate=100mbit delay=9ms queue=10p");
    is_found_first("path-bursts", || up(&draft), TARGET, LONGEST);
}
