// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot check`: what it finds before a depot is started, with whose rights, and that it changes nothing.

use crate::common::{call, done, refused, text};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// A folder that every user may search, with a certificate for depot.example and its key.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Self::with(&["-addext", "basicConstraints=critical,CA:FALSE"])
    }

    fn with(extensions: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Self { folder };
        set_mode(files.folder.path(), 0o755);
        let (key, certificate) = (files.at("depot.key"), files.at("depot.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-nodes", "-days", "30", "-subj", "/CN=depot.example"])
            .args(["-addext", "subjectAltName=DNS:depot.example"])
            .args(extensions)
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .expect("openssl, of the Debian package openssl");
        assert!(made.status.success(), "{}", says(&made));
        set_mode(&key, 0o644);
        files
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.at(name), text).unwrap();
        set_mode(&self.at(name), 0o644);
        self.at(name).display().to_string()
    }

    /// A configuration with TLS and these lines.
    fn configuration(&self, more: &str) -> String {
        let [certificate, key] =
            ["depot.pem", "depot.key"].map(|name| self.at(name).display().to_string());
        let tls = format!(
            "allow.clients = [\"192.0.2.0/24\"]\n{more}\n[tls]\nlisten = [\"127.0.0.1:0\"]\n\
             certificate = {certificate:?}\nkey = {key:?}\n"
        );
        self.write("depot.toml", &tls)
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn says(output: &Output) -> String {
    text(&output.stderr)
}

#[test]
fn key_that_the_depots_user_cannot_read_is_found() {
    let files = Files::new();
    let file = files.configuration("");
    set_mode(&files.at("depot.key"), 0o600);
    // Root reads it all the same, and is told that others cannot.
    let as_root = call(&["depot", "check", "--quiet", &file]);
    assert!(as_root.status.success(), "{}", says(&as_root));
    for part in ["WARN", "tls.key", "depot.key", "--user NAME"] {
        assert!(says(&as_root).contains(part), "{part}: {}", says(&as_root));
    }
    let (code, said) = refused(&["depot", "check", "--user", "nobody", &file]);
    assert_eq!(code, 1, "{said}");
    for part in ["`tls.key`", "depot.key", "user nobody (uid 65534)", "may not read it"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // By its number; and once everybody may read it, nothing is found.
    assert_eq!(refused(&["depot", "check", "--user", "65534", &file]).0, 1);
    set_mode(&files.at("depot.key"), 0o644);
    for user in ["nobody", "2000000123"] {
        assert!(done(&["depot", "check", "--user", user, &file]).contains("depot.key"));
    }
    assert!(!says(&call(&["depot", "check", "--quiet", &file])).contains("WARN"));
}

/// As OpenSSL makes one by default.
#[test]
fn authority_as_certificate_is_named_with_its_remedy() {
    let files = Files::with(&[]);
    let output = call(&["depot", "check", "--quiet", &files.configuration("")]);
    assert!(output.status.success(), "{}", says(&output));
    for part in ["WARN", "depot.pem", "an authority's certificate (CA:TRUE)", "CA:FALSE"] {
        assert!(says(&output).contains(part), "{part}: {}", says(&output));
    }
}

#[test]
fn unreadable_configuration_is_named_with_the_user() {
    let files = Files::new();
    let file = files.configuration("");
    set_mode(&files.at("depot.toml"), 0o600);
    let (code, said) = refused(&["depot", "check", "--user", "nobody", &file]);
    assert!(code == 2 && said.contains("user nobody (uid 65534) may not read it"), "{said}");
    let (code, said) = refused(&["depot", "check", "--user", "no-such-user", &file]);
    assert!(code == 2 && said.contains("no user \"no-such-user\""), "{said}");
}

#[test]
fn access_log_that_cannot_be_opened_is_found() {
    let files = Files::new();
    let log = files.at("logs/access.log");
    let file = files.configuration(&format!("log.access = {log:?}"));
    let (code, said) = refused(&["depot", "check", &file]);
    assert!(code == 1 && said.contains("`log.access`"), "{said}");
    fs::create_dir(files.at("logs")).unwrap();
    done(&["depot", "check", &file]);
    assert!(!log.exists(), "the check has made the log");
    // A folder of root's alone.
    set_mode(&files.at("logs"), 0o755);
    let (code, said) = refused(&["depot", "check", "--user", "nobody", &file]);
    assert!(code == 1 && said.contains("user nobody (uid 65534) may not write there"), "{said}");
    fs::write(&log, "a line\n").unwrap();
    set_mode(&log, 0o644);
    assert_eq!(refused(&["depot", "check", "--user", "nobody", &file]).0, 1);
    set_mode(&log, 0o666);
    done(&["depot", "check", "--user", "nobody", &file]);
    assert_eq!(fs::read(&log).unwrap(), b"a line\n");
}

#[test]
fn doubtful_settings_cause_warnings_and_are_accepted() {
    let files = Files::new();
    let file = files.configuration(
        "names = [\"https:depot.example\", \"https:other.example\"]\n\
         admin.listen = \"0.0.0.0:3881\"\n[[hop]]\npeer = \"10.0.0.5/8\"",
    );
    let output = call(&["depot", "check", &file]);
    assert!(output.status.success(), "{}", says(&output));
    let said = says(&output);
    for part in [
        "clients that ask for https:other.example:443 refuse the certificate",
        "sees at port 3881 which client fetches what",
        "10.0.0.5/8 means all of 10.0.0.0/8",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("ask for https:depot.example"), "{said}");
    let nobody = says(&call(&["depot", "check", "--quiet"]));
    assert!(nobody.contains("this depot serves no client"), "{nobody}");
}

#[test]
fn host_settings_are_named_once_and_not_quietly() {
    let files = Files::new();
    let hops = ["10.2.0.0/16", "10.3.0.0/16"].map(|net| format!("[[hop]]\npeer = \"{net}\"\n"));
    let depots = "trust.depots = [\"10.1.0.0/16\", \"10.2.0.0/16\", \"10.3.0.0/16\"]\n";
    let text = format!("allow.clients = [\"192.0.2.0/24\"]\n{depots}{}", hops.concat());
    let file = files.write("depot.toml", &text);
    let output = call(&["depot", "check", &file]);
    assert!(output.status.success(), "{}", says(&output));
    let said = says(&output);
    let named = said.split("setting=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut settings: Vec<&str> = named.collect();
    let all = settings.len();
    settings.sort_unstable();
    settings.dedup();
    assert_eq!(settings.len(), all, "{said}");
    let quiet = call(&["depot", "check", "--quiet", &file]);
    assert!(quiet.status.success() && quiet.stdout.is_empty(), "{quiet:?}");
    assert_eq!(says(&quiet), "");
}

#[test]
fn source_that_is_not_of_this_host_is_found() {
    let files = Files::new();
    let file = files.configuration("source = [\"192.0.2.77\"]");
    let (code, said) = refused(&["depot", "check", &file]);
    assert!(code == 3 && said.contains("`source` is 192.0.2.77"), "{code}: {said}");
}

#[test]
fn private_addresses_are_allowed_by_an_argument() {
    let allowed = |arguments: &[&str]| {
        let printed = done(&[&["depot", "check"], arguments].concat());
        let line = printed.lines().find(|line| line.starts_with("private = "));
        line.map(str::to_owned).unwrap_or(printed)
    };
    assert_eq!(allowed(&[]), "private = false");
    assert_eq!(allowed(&["--allow-private"]), "private = true");
}
