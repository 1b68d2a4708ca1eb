// SPDX-License-Identifier: GPL-2.0-or-later
//! What operators are told when a depot cannot start as they have set it up.

use crate::common::{pki::Pki, process::Daemon};
use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

/// The log of a depot that does not start, as a user without any rights.
fn log_of_user(settings: &str) -> String {
    Daemon::launch("depot of a user", settings).err().expect("it must not start")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn privileged_port_error_names_the_remedy() {
    for (settings, setting) in [
        ("listen = [\"127.0.0.1:443\"]", "`listen`"),
        ("listen = [\"127.0.0.1:0\"]\nadmin.listen = \"127.0.0.1:443\"", "`admin.listen`"),
        (
            "listen = [\"127.0.0.1:0\"]\n[[tcp]]\nlisten = \"127.0.0.1:443\"\nupstream = \"o:1\"",
            "`tcp.listen`",
        ),
    ] {
        let log = log_of_user(settings);
        for part in [
            setting,
            "cannot listen on 127.0.0.1:443",
            "user 2000",
            "net.ipv4.ip_unprivileged_port_start",
            "CAP_NET_BIND_SERVICE",
            "longhaul-depot.socket",
        ] {
            assert!(log.contains(part), "{part}: {log}");
        }
        assert!(!log.contains("another program"), "{log}");
    }
}

#[test]
fn taken_port_error_names_how_to_find_its_owner() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let log =
        Daemon::launch("depot", &format!("listen = [\"{address}\"]")).err().expect("no depot");
    let command = format!("ss -ltnp 'sport = :{}'", address.port());
    assert!(log.contains("`listen`") && log.contains(&command), "{log}");
    let log = Daemon::launch("depot", "listen = [\"192.0.2.77:3880\"]").err().expect("no depot");
    assert!(log.contains("`ip address` lists"), "{log}");
}

#[test]
fn unreadable_file_error_names_setting_and_user() {
    let pki = Pki::new();
    set_mode(pki.dir.path(), 0o755);
    let secret = |name: &str| {
        let file = pki.file(name);
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o600);
        // Also where the test is not root's.
        let _ = chown(&file, Some(0), Some(0));
        file.display().to_string()
    };
    let (key, keys) = (pki.file("own.key"), secret("keys.json"));
    set_mode(&key, 0o600);
    set_mode(&pki.file("own.pem"), 0o644);
    set_mode(&pki.roots(), 0o644);
    let log = log_of_user(&pki.settings("own", ""));
    let file = key.display().to_string();
    for part in ["`tls.key`", &file, "Permission denied", "user 2000", "may not read it"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let log = log_of_user(&format!("listen = [\"127.0.0.1:0\"]\ntrust.keys = {keys:?}"));
    assert!(log.contains("`trust.keys`") && log.contains("user 2000"), "{log}");
}

#[test]
fn unwritable_access_log_error_names_the_user() {
    let log = log_of_user("listen = [\"127.0.0.1:0\"]\nlog.access = \"/etc/longhaul-test.log\"");
    assert!(!Path::new("/etc/longhaul-test.log").exists());
    for part in ["`log.access`", "/etc/longhaul-test.log", "user 2000", "may not write there"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

/// The settings that a start warns of.
fn warned_of(settings: &str) -> String {
    Daemon::depot_with(settings).log_text()
}

#[test]
fn doubtful_settings_give_warnings_at_start() {
    let closed = warned_of("listen = [\"127.0.0.1:0\"]\n[allow]\n");
    assert!(closed.contains("WARN") && closed.contains("this depot serves no client"), "{closed}");
    let shown = warned_of("listen = [\"127.0.0.1:0\"]\nadmin.listen = \"0.0.0.0:0\"");
    assert!(shown.contains("setting=\"admin.listen\""), "{shown}");
    let wide = "listen = [\"127.0.0.1:0\"]\n[allow]\nclients = [\"127.0.0.1/8\"]";
    let wide = warned_of(wide);
    assert!(wide.contains("127.0.0.1/8 means all of 127.0.0.0/8"), "{wide}");
    assert!(wide.contains("for the one address 127.0.0.1/32"), "{wide}");
}

#[test]
fn certificate_without_a_name_gives_a_warning() {
    let pki = Pki::new();
    let covered = warned_of(&pki.settings("own", "names = [\"https:127.0.0.1\", \"d.example\"]"));
    assert!(!covered.contains("WARN"), "{covered}");
    let other =
        warned_of(&pki.settings("own", "names = [\"https:d.example\", \"https:127.0.0.1\"]"));
    let warning = other.lines().find(|line| line.contains("WARN")).unwrap_or_default();
    for part in ["setting=\"names\"", "clients that ask for https:d.example", "own.pem"] {
        assert!(warning.contains(part), "{part}: {other}");
    }
    assert_eq!(other.matches("WARN").count(), 1, "{other}");
}
