// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of others on standard output and standard error: nothing that moves a cursor or reorders a line.

use crate::common;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::Path,
    process::Output,
};
use units::text::is_hidden;

/// Line ends, cursor moves, a title, C1, separators, bidirectional controls, a tag.
const HOSTILE: &str = "a\n\r\u{1b}[2J\u{1b}]0;t\u{7}\u{7f}\u{85}\u{9b}2J\u{61c}\u{200b}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}\u{e0041}b";

fn longhaul(args: &[&str]) -> Output {
    common::longhaul().args(args).output().unwrap()
}

/// Nothing hidden was printed except line ends and tabs.
fn is_clean(what: &str, output: &Output) {
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let text = String::from_utf8(bytes.clone())
            .unwrap_or_else(|_| panic!("{what}: {name} is not UTF-8"));
        let hidden = text.chars().find(|c| is_hidden(*c) && !matches!(c, '\n' | '\t'));
        assert_eq!(hidden, None, "{what}: {name}: {}", text.escape_debug());
    }
}

/// A server that answers every request with these bytes.
fn server(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let _ = stream.write_all(&answer);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    address
}

fn document(json: &Value) -> Vec<u8> {
    let body = json.to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A real depot's status, with every text in it replaced.
fn hostile_status() -> Value {
    fn spoil(value: &mut Value, at: &str) {
        match value {
            Value::String(text) if !matches!(at, "state" | "side" | "schema") => {
                HOSTILE.clone_into(text);
            }
            Value::Array(all) => all.iter_mut().for_each(|it| spoil(it, at)),
            Value::Object(all) => all.iter_mut().for_each(|(name, it)| spoil(it, name)),
            _ => {}
        }
    }
    let tcp = json!({
        "congestion": "bbr", "rtt_us": 1, "min_rtt_us": 1, "cwnd_bytes": 1, "delivery_rate_bps": null,
        "retransmitted_segments": 0, "sndbuf_bytes": 1, "rcvbuf_bytes": 1, "pacing_bps": null,
        "notsent_lowat_bytes": null, "mptcp": false, "streams": 2, "streams_asked": 4, "pacing": "x",
    });
    let mut status = json!({
        "schema": 1, "id": "d", "version": "1", "state": "serving",
        "time_unix_s": 0.0, "uptime_s": 1.0,
        "connections": { "open": 1, "limit": 2, "held": 0, "idle_upstream": 0 },
        "memory": { "pipes_reserved_bytes": 0, "limit_bytes": 1, "resident_bytes": 1, "open_files": 1 },
        "totals": { "requests": {}, "up_bytes": 0, "up_spliced_bytes": 0, "down_bytes": 0, "down_spliced_bytes": 0 },
        "refusals": [{ "status": 503, "error": "e", "requests": 3 }],
        "access_log": { "to": "stderr", "dropped_lines": 4 },
        "paced": [{ "peer": "p", "pacing": "gaps", "in_force": false }],
        "detours": [{ "depot": "d2", "up": false }],
        "hops": [{
            "side": "upstream", "hop": "h", "requests": {}, "up_bytes": 0, "down_bytes": 0, "up_bps": 0, "down_bps": 0,
            "connections": { HOSTILE: 1 }, "rtt_us": 1, "min_rtt_us": 1, "retransmitted_segments": 0, "streams": 2,
            "stalls": 0, "cwnd_bytes": 1, "delivery_rate_bps": null, "answers": {},
        }],
        "transfers": [{
            "number": 1, "client": "c", "upstream": "u", "method": "GET", "target": "/", "url": "http://o/",
            "status": 200, "expected_bytes": null, "up_bytes": 0, "down_bytes": 0, "up_bps": 0, "down_bps": 0,
            "age_s": 1.0, "client_tcp": tcp, "upstream_tcp": tcp, "user": "u", "asked_for": "x",
        }],
        "live_transfers": 2,
        "clients": [{ "of": "c", "transfers": 2, "up_bytes": 0, "down_bytes": 0, "up_bps": 0, "down_bps": 0 }],
    });
    spoil(&mut status, "");
    status
}

#[test]
fn hostile_status_prints_no_hidden_character() {
    let admin = server(document(&hostile_status()));
    for args in [&["--once"][..], &["--json"]] {
        let output = longhaul(&[&["depot", "status", &admin.to_string()][..], args].concat());
        is_clean(&format!("depot status {args:?}"), &output);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        if args == ["--json"] {
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read["id"], HOSTILE, "nothing is lost");
        } else {
            assert!(text.lines().any(|line| line.starts_with("a??")), "{text}");
        }
    }
    for command in [&["session", "status"][..], &["agent", "status"]] {
        for args in [&[][..], &["--json"]] {
            let output = longhaul(&[command, &[&admin.to_string()], args].concat());
            is_clean(&format!("{command:?} {args:?}"), &output);
        }
    }
}

/// A depot's control socket that answers every command with this.
fn control_socket(path: &Path, answer: &Value) {
    let (listener, answer) = (UnixListener::bind(path).unwrap(), format!("{answer}\n"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
}

#[test]
fn hostile_control_answers_print_no_hidden_character() {
    let transfer = hostile_status()["transfers"][0].clone();
    for (command, answer) in [
        ("transfers", json!({ "transfers": { "transfers": [transfer], "more": 1 } })),
        (
            "denied",
            json!({ "denied": [{ "who": { "ticket": HOSTILE }, "until_unix_s": 9, "why": HOSTILE }] }),
        ),
        ("limits", json!({ "limits": [{ "whose": { "ticket": HOSTILE }, "rate_bps": 9 }] })),
        ("transfers", json!({ "error": HOSTILE })),
        ("limits", json!({ "error": HOSTILE })),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("control");
        control_socket(&socket, &answer);
        for args in [&[][..], &["--json"]] {
            let socket = ["--socket", socket.to_str().unwrap()];
            let output = longhaul(&[&["depot", command][..], &socket, args].concat());
            is_clean(&format!("depot {command} {args:?}"), &output);
            let said = [&output.stdout[..], &output.stderr].concat();
            assert!(said.contains(&b'a') && !said.is_empty(), "{command}");
        }
    }
}

#[test]
fn hostile_responses_print_no_hidden_character() {
    let dir = tempfile::tempdir().unwrap();
    // C0 is refused before anything is made of a field.
    let plain = HOSTILE.replace(|c: char| c.is_ascii_control(), "");
    for answer in [
        format!("HTTP/1.1 404 {plain}\r\nContent-Length: {}\r\n\r\n{HOSTILE}", HOSTILE.len()),
        format!(
            "HTTP/1.1 500 No\r\nProxy-Status: {plain}; error={plain}; details=\"{plain}\"\r\nContent-Length: {}\r\n\r\n{HOSTILE}",
            HOSTILE.len()
        ),
        format!(
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/{plain}\r\nContent-Length: 0\r\n\r\n"
        ),
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: {plain}\r\nContent-Length: 1\r\n\r\nx"),
        format!("HTTP/1.1 200 OK\r\nContent-Length: {plain}\r\n\r\nx"),
        format!("{HOSTILE}\r\n\r\n"),
    ] {
        let from = format!("http://{}/f", server(answer.clone().into_bytes()));
        let output = dir.path().join("f");
        for args in [&[][..], &["--json"]] {
            let get =
                ["get", &from, "-o", output.to_str().unwrap(), "--retries", "0", "--overwrite"];
            let got = longhaul(&[&get[..], args].concat());
            is_clean(&format!("get {args:?} of {}", answer.escape_debug()), &got);
            assert!(!got.status.success(), "{answer:?}");
            assert!(!(got.stdout.is_empty() && got.stderr.is_empty()), "{answer:?}");
        }
        fs::write(dir.path().join("up"), "x").unwrap();
        let put =
            longhaul(&["put", dir.path().join("up").to_str().unwrap(), &from, "--retries", "0"]);
        is_clean(&format!("put to {}", answer.escape_debug()), &put);
    }
}

/// All printing goes through `print.rs`, whose macros replace the standard ones.
#[test]
fn commands_print_through_one_module() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![sources];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("src/print.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for direct in [
                "std::println",
                "std::eprintln",
                " print!(",
                "stdout().write",
                "stderr().write",
                "stderr().lock",
                "writeln!(io::std",
                "write!(io::std",
            ] {
                assert!(!text.contains(direct), "{}: {direct}", path.display());
            }
        }
    }
}
