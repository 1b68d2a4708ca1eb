// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul get`: files, lists, pipes, routes, signals. What it does with misbehaving servers is tested in
//! `crates/move/transfer`.

use crate::{
    common::{call, longhaul, refused, text},
    depot::Depot,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::Write,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};
use testkit::http_server::{Conn, Request, Server};
use testkit::until;

const LENGTH: usize = 400_000;

/// Bytes without a period that a buffer could hide.
fn data() -> Vec<u8> {
    (0..LENGTH as u64).map(|at| ((at * at) >> 7) as u8).collect()
}

/// Serves [`data`], also in ranges.
fn serve(request: &Request, conn: &mut Conn) {
    let (data, tag) = (data(), ("ETag", "\"a\""));
    match request.range() {
        Some((from, _)) => {
            let range = format!("bytes {from}-{}/{LENGTH}", LENGTH - 1);
            conn.answer("206 Part", &[tag, ("Content-Range", &range)], &data[from..]);
        }
        None => conn.answer("200 OK", &[tag], &data),
    }
}

/// The command without the user's own configuration.
fn get(arguments: &[&str]) -> Command {
    let mut command = longhaul();
    command.arg("get").args(arguments).env("XDG_CONFIG_HOME", "/no/such/directory");
    command
}

fn run(arguments: &[&str]) -> Output {
    get(arguments).output().unwrap()
}

fn line(output: &Output) -> Value {
    let out = text(&output.stdout);
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(&out).unwrap()
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

#[test]
fn get_saves_a_file_and_prints_one_json_object() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|_, request, conn| serve(request, conn));
    let into = directory.path().to_str().unwrap();
    let output = run(&[&server.url("/a%20b?x"), "-d", into, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = line(&output);
    assert_eq!(fs::read(directory.path().join("a b")).unwrap(), data());
    assert_eq!(report["status"], "complete");
    assert_eq!(report["file"], path(directory.path(), "a b"));
    assert_eq!(report["bytes"], LENGTH);
    assert_eq!((&report["attempts"], &report["connections"]), (&1.into(), &1.into()));
    assert_eq!(report["digest"]["algorithm"], "sha-256");
    assert_eq!(report["digest"]["verified"], false);
    assert!(report["goodput_bps"].as_f64().unwrap() > 0.0);
    assert_eq!(report["error"], Value::Null);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn get_writes_to_standard_output() {
    let server = Server::start(|_, request, conn| serve(request, conn));
    let output = run(&[&server.url("/f"), "-o", "-"]);
    assert!(output.status.success());
    assert!(output.stdout == data(), "{} bytes", output.stdout.len());
    let digest = format!("sha-256={}", "0".repeat(64));
    let output = run(&[&server.url("/f"), "-o", "-", "--digest", &digest]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

#[test]
fn wrong_digest_has_its_own_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|_, request, conn| serve(request, conn));
    let file = path(directory.path(), "f");
    let digest = format!("sha-256={}", "0".repeat(64));
    let output = run(&[&server.url("/f"), "-o", &file, "--digest", &digest, "--json"]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(line(&output)["status"], "failed");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn list_continues_after_a_failure_and_completes_later() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|number, request, conn| match request.target.as_str() {
        "/missing" if number < 3 => conn.answer("404 No", &[], b"\x1b]0;title\x07gone"),
        _ => {
            let date = ("Last-Modified", "Tue, 01 Jan 2019 00:00:00 GMT");
            if request.method == "HEAD" {
                conn.head("200 OK", &[date, ("Content-Length", "5")]);
            } else {
                conn.answer("200 OK", &[date], b"bytes");
            }
        }
    });
    let list = format!(
        "# files\n{}\n{}\n\n{}\tsub/c\n{}\t../escaped\n",
        server.url("/a"),
        server.url("/missing"),
        server.url("/b"),
        server.url("/x")
    );
    let run = |list: &str| {
        let into = directory.path().to_str().unwrap();
        let mut child = get(&["--list", "-", "-d", into, "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = run(&list);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("2 of 4 files failed") && said.contains("line 6 of the list"), "{said}");
    assert!(said.contains("404") && !said.contains('\x1b') && !said.contains('\x07'), "{said}");
    assert_eq!(text(&output.stdout).lines().count(), 4);
    assert_eq!(fs::read(directory.path().join("sub/c")).unwrap(), b"bytes");
    assert!(!directory.path().join("../escaped").exists());
    let good: Vec<_> = list.lines().filter(|line| !line.contains("..")).collect();
    let output = run(&good.join("\n"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let statuses: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let statuses: Vec<_> =
        statuses.iter().map(|report| report["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["unchanged", "complete", "unchanged"]);
}

/// A server that sends half of the file and hangs, the first time.
fn halting() -> Server {
    Server::start(|number, request, conn| {
        if number > 0 {
            return serve(request, conn);
        }
        conn.head("200 OK", &[("Content-Length", &LENGTH.to_string()), ("ETag", "\"a\"")]);
        conn.send(&data()[..LENGTH / 2]);
        thread::sleep(Duration::from_millis(1300));
        // By now the sidecar is due for renewal.
        conn.send(&data()[LENGTH / 2..LENGTH / 2 + 10]);
        conn.hang(Duration::from_secs(20));
    })
}

fn begun(server: &Server, directory: &Path) -> Child {
    let file = path(directory, "f");
    let mut command = get(&[&server.url("/f"), "-o", &file]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn stopped_get_names_the_remedy_and_resumes() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = tempfile::tempdir().unwrap();
        let server = halting();
        let child = begun(&server, directory.path());
        let part = directory.path().join("f.part");
        until("something happens", || {
            fs::metadata(&part).is_ok_and(|data| data.len() as usize >= LENGTH / 2)
        });
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("run the same command again"), "{said}");
        assert!(directory.path().join("f.part.json").exists());
        continues(&server, directory.path());
    }
}

#[test]
fn killed_get_resumes() {
    let directory = tempfile::tempdir().unwrap();
    let server = halting();
    let mut child = begun(&server, directory.path());
    until("something happens", || directory.path().join("f.part.json").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    continues(&server, directory.path());
}

fn continues(server: &Server, directory: &Path) {
    let output = run(&[&server.url("/f"), "-o", &path(directory, "f"), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(line(&output)["resumed_bytes"].as_u64().unwrap() >= LENGTH as u64 / 2);
    assert_eq!(fs::read(directory.join("f")).unwrap(), data());
    assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
}

#[test]
fn get_goes_through_depots() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|_, request, conn| serve(request, conn));
    let config = path(directory.path(), "depot.toml");
    let open =
        "allow = { clients = [\"127.0.0.0/8\"], upstreams = [\"127.0.0.0/8:*\"], local = true }";
    fs::write(&config, open).unwrap();
    let near = Depot::start(&["--config", &config]);
    let far = Depot::named("d2", &["--config", &config]);
    let via = format!("{},{}", near.listen, far.listen);
    let (first, second) = (path(directory.path(), "1"), path(directory.path(), "2"));
    let output = run(&[&server.url("/f"), "-o", &first, "--via", &via, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(line(&output)["hops"], 2);
    let routes = path(directory.path(), "client.toml");
    let route = format!("[[route]]\nto = [\"127.0.0.1\"]\nvia = [{:?}]\n", far.listen);
    fs::write(&routes, route).unwrap();
    let output = run(&[&server.url("/f"), "-o", &second, "--config", &routes, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(line(&output)["hops"], 1);
    for file in [first, second] {
        assert_eq!(fs::read(file).unwrap(), data());
    }
}

#[test]
fn default_configuration_is_used_and_its_mistakes_are_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("longhaul")).unwrap();
    let config = directory.path().join("longhaul/client.toml");
    fs::write(&config, "[[route]]\nto = [\"h\"]\nvia = [\"d:x\"]\n").unwrap();
    let mut command = get(&["http://h/f"]);
    let output = command.env("XDG_CONFIG_HOME", directory.path()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("client.toml:3: ") && said.contains("d:x"), "{said}");
}

#[test]
fn wrong_usage_of_get_is_refused() {
    for (arguments, expected) in [
        (&["get"][..], "URL"),
        (&["get", "ftp://h/f"], "only http and https"),
        (&["get", "http://h/"], "-o FILE"),
        (&["get", "http://h/%2e%2e"], "-o FILE"),
        (&["get", "http://h/a", "http://h/b", "-o", "f"], "-d DIR"),
        (&["get", "http://h/a", "http://h/b", "--digest", "sha-256=00"], "sha-256=VALUE"),
        (&["get", "http://h/a", "--digest", "md5=00"], "sha-512=VALUE"),
        (&["get", "http://h/a", "-o", "-", "--json"], "Use only one"),
        (&["get", "http://h/a", "--limit-rate", "5Mbps"], "5mbit"),
        (&["get", "http://h/a", "--connections", "0"], "--connections"),
        (&["get", "http://h/a", "--stall-time", "0s"], "--stall-time"),
        (&["get", "http://h/a", "--via", "d1,d1"], "twice"),
        (&["get", "http://h/a", "--config", "/no/such/file"], "/no/such/file"),
        (&["get", "http://h/a", "--ca", "/dev/null"], "no usable certificates"),
        (&["get", "--list", "/no/such/file"], "/no/such/file"),
    ] {
        let (code, said) = refused(arguments);
        assert!(code == 2 && said.contains(expected), "{arguments:?}: {code} {said}");
    }
    let help = text(&call(&["get", "--help"]).stdout);
    assert!(help.contains("Examples:"), "{help}");
}

/// A server at one of two addresses, and silence at the other, under one name.
fn silent_address(silent: &str, good: &str) {
    let server = Server::start_at(&format!("{good}:0"), |_, request, conn| serve(request, conn));
    let port = server.address.port();
    let listener = TcpListener::bind((silent, port)).unwrap();
    thread::spawn(move || {
        // Connections stay open until the process ends.
        let held: Vec<_> = listener.incoming().map_while(Result::ok).take(20).collect();
        drop(held);
    });
    let directory = tempfile::tempdir().unwrap();
    let hosts = path(directory.path(), "hosts");
    fs::write(&hosts, "127.0.0.2 two.test\n127.0.0.3 two.test\n127.0.0.1 localhost\n").unwrap();
    let (url, file) = (format!("http://two.test:{port}/f"), path(directory.path(), "f"));
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, &hosts]).arg(longhaul().get_program());
    let output = command
        .args(["get", &url, "-o", &file, "--connect-timeout", "1s", "--retries", "0", "--json"])
        .env("XDG_CONFIG_HOME", "/no/such/directory")
        .output()
        .unwrap();
    assert!(output.status.success(), "{silent}: {}", text(&output.stderr));
    assert_eq!(fs::read(file).unwrap(), data());
    assert_eq!(line(&output)["attempts"], 1);
}

#[test]
fn get_asks_the_next_address_of_a_silent_server() {
    // Whichever is asked first.
    silent_address("127.0.0.2", "127.0.0.3");
    silent_address("127.0.0.3", "127.0.0.2");
}

#[test]
fn get_connect_timeout_ends_a_silent_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/f", listener.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().to_str().unwrap();
    let limits = ["--connect-timeout", "200ms", "--retries", "0", "--stall-time", "10min"];
    let output = run(&[&[url.as_str(), "-d", into], &limits[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("timed out"), "{}", text(&output.stderr));
    let zero = run(&[&url, "-d", into, "--connect-timeout", "0s"]);
    assert_eq!(zero.status.code(), Some(2));
}

#[test]
fn get_uses_no_proxy_where_all_hosts_are_excluded() {
    let server = Server::start(|_, request, conn| serve(request, conn));
    let directory = tempfile::tempdir().unwrap();
    for (name, list, ok) in
        [("a", "*", true), ("b", "x.example, *", true), ("c", "x.example", false)]
    {
        let (url, file) = (server.url("/f"), path(directory.path(), name));
        let mut command = get(&[&url, "-o", &file, "--env-proxy", "--retries", "0"]);
        // Nothing listens there.
        command.env("http_proxy", "http://127.0.0.1:1").env("NO_PROXY", list);
        let output = command.output().unwrap();
        assert_eq!(output.status.success(), ok, "{list}: {}", text(&output.stderr));
    }
}
