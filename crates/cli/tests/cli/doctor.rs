// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul doctor` as a person would call it: right and wrong, without rights, killed while it changes settings.

use crate::{
    common::{call, longhaul, refused, text},
    depot::Depot,
    proxy::{Files, OPEN, make_certificate},
};
use host::{Namespace, iproute, sysctl};
use serde_json::Value;
use std::{
    process::{Command, Stdio},
    time::Duration,
};
use testkit::{http_server::Server, until};

const RMEM: &str = "net.ipv4.tcp_rmem";
const SMALL: &str = "4096 16384 65536";
const TARGET: [&str; 3] = ["doctor", "--target", "1gbit@90ms"];

/// In a network namespace of its own, whose loopback device is up and has the default route.
fn alone_in_network(test: impl FnOnce() + Send) {
    let namespace = Namespace::new().expect("root");
    let ran = namespace.run(|| {
        iproute::ip(&["link", "set", "lo", "up"]).unwrap();
        sysctl::write(RMEM, SMALL)?;
        test();
        Ok(())
    });
    ran.expect("a thread");
}

fn done(arguments: &[&str]) -> String {
    let output = call(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn target_alone_is_judged_without_a_server() {
    alone_in_network(|| {
        let said = done(&TARGET);
        for part in ["target: 1gbit over 90ms", "receive-buffer (receiving)", "fix:      sysctl -w"]
        {
            assert!(said.contains(part), "{part} is missing: {said}");
        }
        let document: Value =
            serde_json::from_str(&done(&[&TARGET[..], &["--json"]].concat())).unwrap();
        let findings = document["findings"].as_array().unwrap();
        let buffer = findings.iter().find(|it| it["id"] == "receive-buffer").unwrap();
        let bps = |key: &str| buffer[key].as_u64().unwrap();
        // Two thirds, or half, of 64 KB a round trip.
        assert!((2_800_000..4_000_000).contains(&bps("now_bps")), "{buffer}");
        assert_eq!(bps("after_bps") - bps("now_bps"), bps("gain_bps"));
        assert_eq!(buffer["undo"][0], format!("sysctl -w {RMEM}=\"{SMALL}\""));
        assert_eq!(sysctl::read(RMEM).unwrap(), SMALL, "nothing was changed");
    });
}

#[test]
fn wrong_use_is_refused_with_an_example() {
    for (arguments, expected) in [
        (&["doctor"][..], "--target"),
        (&["doctor", "--target", "1gbit"], "as in 1gbit@90ms"),
        (&["doctor", "--target", "1gbit@90ms", "--fix"], "HOST|URL"),
        (&["doctor", "http://a/", "--dry-run"], "--fix"),
        (&["doctor", "ftp://a/"], "only http and https"),
        (&["doctor", "--target", "1gbit@90ms", "--via", "d1"], "HOST|URL"),
        (&["doctor", "http://a/", "--size", "1GB"], "--via"),
        (&["doctor", "--undo", "--target", "1gbit@90ms"], "--target"),
    ] {
        let (code, said) = refused(arguments);
        assert!(code == 2 && said.contains(expected), "{arguments:?}: {code} {said}");
    }
}

#[test]
fn user_without_rights_gets_findings_and_is_told_what_fixes_take() {
    alone_in_network(|| {
        let folder = tempfile::tempdir().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).unwrap();
        let binary = folder.path().join("longhaul");
        std::fs::copy(longhaul().get_program(), &binary).unwrap();
        let as_nobody = |arguments: &[&str]| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
            command.args(arguments).output().expect("setpriv, of util-linux")
        };
        let output = as_nobody(&TARGET);
        assert!(output.status.success() && text(&output.stdout).contains("fix:      sysctl -w"));
        let output = as_nobody(&["doctor", "--undo"]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(3) && said.contains("sudo"), "{said}");
    });
}

#[test]
fn dry_run_prints_what_fix_would_do() {
    alone_in_network(|| {
        let server = Server::start(|_, _, conn| conn.answer("200 OK", &[], &vec![7; 1 << 20]));
        let (url, target) = (server.url("/file"), "1gbit@90ms");
        let said = done(&["doctor", &url, "--target", target, "--fix", "--dry-run"]);
        assert!(said.contains("receive-buffer: sysctl -w") && said.contains("  undo: "), "{said}");
        assert_eq!(sysctl::read(RMEM).unwrap(), SMALL);
    });
}

#[test]
fn https_url_is_measured_by_the_authorities_that_are_trusted() {
    let folder = tempfile::tempdir().unwrap();
    make_certificate(folder.path());
    std::fs::write(folder.path().join("set.bin"), vec![b'x'; 3 << 20]).unwrap();
    let server = Files::secured(folder.path());
    let url = format!("https://localhost:{}/set.bin", server.port);
    let ca = folder.path().join("own.pem").display().to_string();
    let said = done(&["doctor", &url, "--target", "1gbit@90ms", "--ca", &ca, "--json"]);
    let path = &serde_json::from_str::<Value>(&said).unwrap()["facts"]["path"];
    assert!(path["segments"].as_u64() > Some(0) && path["end"] == "whole", "{path}");
    let (code, said) = refused(&["doctor", &url, "--target", "1gbit@90ms"]);
    assert!(code == 1 && said.contains("TLS: ") && said.contains("certificate"), "{code} {said}");
}

#[test]
fn depot_is_asked_and_its_time_is_predicted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("set.bin"), vec![b'x'; 1 << 20]).unwrap();
    let server = Files::plain(folder.path());
    let url = format!("http://127.0.0.1:{}/set.bin", server.port);
    let with_depot = |config: &str| {
        let file = folder.path().join("depot.toml");
        std::fs::write(&file, config).unwrap();
        let depot = Depot::named("d1", &["--config", file.to_str().unwrap()]);
        let measured = ["doctor", &url, "--target", "1gbit@90ms", "--loss", "0.01%"];
        let via = ["--via", &depot.listen, "--size", "10MB"];
        let text = done(&[&measured[..], &via].concat());
        assert!(text.contains("through depots, predicted:") && text.contains("10 MB: "), "{text}");
        let said = done(&[&measured[..], &via, &["--json"]].concat());
        serde_json::from_str::<Value>(&said).unwrap()["via"].take()
    };
    let via = with_depot(OPEN);
    assert_eq!(via["size_bytes"], 10 << 20);
    let measured = |via: &Value, n: usize| via["hops"][n]["is_measured"].as_bool().unwrap();
    assert!(measured(&via, 0) && measured(&via, 1) && via["helps"].is_boolean(), "{via}");
    // One that opens no sessions to servers does not tell.
    let via = with_depot("[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\n");
    assert!(measured(&via, 0) && !measured(&via, 1), "{via}");
}

/// The second download after the first two (the path, the rate before) never ends, so the change is in force while the
/// command is killed.
#[test]
fn killed_fix_is_undone_by_the_next_command() {
    alone_in_network(|| {
        let server = Server::start(|number, _, conn| {
            conn.head("200 OK", &[]);
            conn.send(vec![7; 1 << 20]);
            if number >= 2 {
                conn.hang(Duration::from_secs(30));
            }
        });
        let url = server.url("/file");
        let mut fix = longhaul();
        fix.args(["doctor", &url, "--target", "1gbit@90ms", "--fix"]);
        let mut fix = fix.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("a change", || sysctl::read(RMEM).unwrap() != SMALL);
        fix.kill().unwrap();
        fix.wait().unwrap();
        let output = call(&TARGET);
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("longhaul doctor --undo"), "{said}");
        assert_ne!(sysctl::read(RMEM).unwrap(), SMALL);
        let said = done(&["doctor", "--undo"]);
        assert!(said.contains(&format!("sysctl -w {RMEM}=\"{SMALL}\"")), "{said}");
        assert_eq!(sysctl::read(RMEM).unwrap(), SMALL);
        assert_eq!(done(&["doctor", "--undo"]), "nothing to take back\n");
    });
}
