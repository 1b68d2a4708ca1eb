// SPDX-License-Identifier: GPL-2.0-or-later
//! Texts: configurations, rules, and what a depot's admin listener says.

use longhaul_depot::{Config, Pacers, UpstreamRule, check, fetch_status, status::Status};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, mpsc},
    thread,
};
use tempfile::NamedTempFile;
use testkit::fuzz::run;

const INPUTS: u64 = 10_000;

/// What is printed of a configuration reads as the same.
fn config_input(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match Config::from_toml(text, "settings") {
        Ok(config) => {
            let printed = config.to_toml();
            let again = Config::from_toml(&printed, "printed");
            assert_eq!(again.unwrap_or_else(|error| panic!("{error}\n{printed}")), config);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

fn rule_input(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(rule) = text.parse::<UpstreamRule>() else { return false };
    assert_eq!(rule.to_string().parse(), Ok(rule), "{text}");
    true
}

fn status_input(input: &[u8]) -> bool {
    let Ok(status) = serde_json::from_slice::<Status>(input) else { return false };
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status, "{text}");
    true
}

/// An answer to `longhaul depot status`, on a connection that then ends.
fn admin_input(input: &[u8]) -> bool {
    thread_local! {
        static LISTENER: (String, mpsc::Sender<Vec<u8>>) = listener();
    }
    LISTENER.with(|(address, answers)| {
        answers.send(input.to_vec()).unwrap();
        match fetch_status(address) {
            Ok((status, text)) => {
                assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
                true
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        }
    })
}

/// Gives one answer a connection.
fn listener() -> (String, mpsc::Sender<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, answers) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        for (mut stream, answer) in listener.incoming().map_while(Result::ok).zip(answers) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&answer);
        }
    });
    (address, sender)
}

/// A certificate and its key, in one file.
fn pem_input(input: &[u8]) -> bool {
    thread_local! {
        static FILE: NamedTempFile = NamedTempFile::new().unwrap();
    }
    FILE.with(|file| {
        fs::write(file.path(), input).unwrap();
        let path = file.path().display();
        let text = format!(
            "tls = {{ certificate = \"{path}\", key = \"{path}\", listen = [\"[::1]:443\"] }}"
        );
        let nothing_to_say: Pacers = Arc::new(|_, _| Ok(()));
        match check(Config::from_toml(&text, "settings").unwrap(), &nothing_to_say) {
            Ok(()) => true,
            Err(error) => {
                // It names the file.
                assert!(error.to_string().contains(&path.to_string()), "{error}");
                false
            }
        }
    })
}

#[test]
fn pem() {
    run("pem", INPUTS / 5, pem_input);
}

#[test]
fn config() {
    run("config", INPUTS, config_input);
}

#[test]
fn rule() {
    run("rule", 10 * INPUTS, rule_input);
}

#[test]
fn status() {
    run("status", INPUTS, status_input);
}

#[test]
fn admin() {
    run("admin", INPUTS / 5, admin_input);
}
