// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul agent`: SOCKS5 and HTTP proxy on this machine, with real clients.

use crate::{
    chain::Chain,
    common::{call, json, refused, refusing_address, text},
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use testkit::until;

/// An agent that runs; killed when dropped.
pub struct Agent {
    child: Child,
    pub listen: String,
    log: mpsc::Receiver<String>,
}

impl Agent {
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["agent", "run"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, log) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let ready =
            log.recv_timeout(Duration::from_secs(20)).expect("an agent that starts says so");
        let listen = ready.split("listen=").nth(1).unwrap_or_else(|| panic!("{ready}")).to_owned();
        Self { child, listen, log }
    }

    /// One whose connections to this machine go through both depots.
    pub fn through(chain: &Chain, more: &[&str]) -> Self {
        let via = chain.via();
        let own = ["--listen", "127.0.0.1:0", "--via", &via, "--match", "127.0.0.0/8"];
        Self::start(&[&own[..], &["--match", "localhost"], more].concat())
    }

    pub fn await_log(&self, part: &str) {
        let begun = Instant::now();
        while let Ok(line) = self.log.recv_timeout(Duration::from_secs(20)) {
            if line.contains(part) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{part}");
        }
        panic!("{part} is not in the log");
    }

    pub fn status(&self) -> serde_json::Value {
        json(&["agent", "status", &self.listen, "--json"])
    }

    /// What comes back for these bytes, up to the end.
    pub fn ask(&self, bytes: &str) -> String {
        let mut stream = TcpStream::connect(&self.listen).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers each request with its own head.
pub fn mirror() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                loop {
                    let head: Vec<String> = lines
                        .by_ref()
                        .map_while(Result::ok)
                        .take_while(|line| !line.is_empty())
                        .collect();
                    if head.is_empty() {
                        return;
                    }
                    let body = head.join("\n");
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=9\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    (&stream).write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    address
}

pub fn curl(arguments: &[&str]) -> (i32, String) {
    let output = Command::new("curl").args(["-sS", "--max-time", "30"]).args(arguments).output();
    let output = output.unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

#[test]
fn curl_goes_through_both_depots_by_every_kind_of_proxy() {
    let chain = Chain::start();
    let agent = Agent::through(&chain, &[]);
    let server = mirror();
    let by_name = format!("localhost:{}", server.rsplit(':').next().unwrap());
    for (proxy, url) in [
        (&["--socks5", &agent.listen][..], format!("http://{server}/a?b")),
        (&["--socks5-hostname", &agent.listen], format!("http://{by_name}/a?b")),
        (&["--proxy", &agent.listen], format!("http://{by_name}/a?b")),
        (&["--proxytunnel", "--proxy", &agent.listen], format!("http://{server}/a?b")),
    ] {
        let url_twice = [url.as_str(), url.as_str()];
        let (code, said) =
            curl(&[proxy, &["-H", "Connection: x-own", "-H", "X-Own: 1"], &url_twice].concat());
        assert!(code == 0 && said.matches("GET /a?b HTTP/1.1").count() == 2, "{proxy:?}: {said}");
        let is_forwarded = proxy == ["--proxy", &agent.listen];
        assert_eq!(said.to_lowercase().contains("via: 1.1 longhaul-agent"), is_forwarded, "{said}");
        assert_eq!(said.to_lowercase().contains("x-own: 1"), !is_forwarded, "{said}");
        assert!(!said.to_lowercase().contains("proxy-connection"), "{said}");
    }
    // All of these, and none by another route.
    until("connections end", || agent.status()["connections"].as_array().unwrap().is_empty());
    let status = agent.status();
    assert_eq!(
        (&status["direct"], &status["fell_back"], &status["failed"]),
        (&0.into(), &0.into(), &0.into())
    );
    assert!(
        status["through"].as_u64().unwrap() >= 5 && status["down_bytes"].as_u64().unwrap() > 500,
        "{status}"
    );
}

#[test]
fn proxy_command_and_status_show_a_connection() {
    let chain = Chain::start();
    let agent = Agent::through(&chain, &[]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["agent", "connect", &chain.echo, "--agent", &agent.listen])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    to.write_all(b"SSH-2.0").unwrap();
    let mut got = [0; 7];
    from.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"SSH-2.0");
    let status = agent.status();
    let entry = &status["connections"][0];
    assert_eq!(
        (&entry["protocol"], &entry["destination"]),
        (&"connect".into(), &chain.echo.as_str().into())
    );
    let through: Vec<_> =
        entry["through"].as_array().unwrap().iter().map(|hop| hop.as_str().unwrap()).collect();
    assert!(
        through[0].starts_with(&chain.near.listen) && through[1].starts_with(&chain.far.listen),
        "{through:?}"
    );
    assert_eq!((&entry["up_bytes"], &entry["down_bytes"]), (&7.into(), &7.into()));
    let table = text(&call(&["agent", "status", &agent.listen]).stdout);
    assert!(
        table.contains("1 connections through depots") && table.contains(&chain.echo),
        "{table}"
    );
    drop(to);
    let mut rest = Vec::new();
    from.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty() && child.wait().unwrap().success());
    let (code, said) =
        refused(&["agent", "connect", &refusing_address().to_string(), "--agent", &agent.listen]);
    assert!(code == 1 && said.contains("refused the connection"), "{said}");
    let (code, said) = refused(&["agent", "status", &refusing_address().to_string()]);
    assert!(code == 1 && said.contains("no agent answers at"), "{said}");
}

#[test]
fn failures_are_told_in_the_proxys_own_words() {
    let chain = Chain::start();
    let (closed, server) = (refusing_address().to_string(), mirror());
    let url = format!("http://{server}/");
    let agent = Agent::through(&chain, &[]);
    let (code, said) =
        curl(&["--proxy", &agent.listen, &format!("http://{closed}/"), "-w", "%{http_code}"]);
    assert!(
        code == 0 && said.ends_with("502") && said.contains("refused the connection"),
        "{said}"
    );
    let (code, _) = curl(&["--socks5", &agent.listen, &format!("http://{closed}/")]);
    assert_eq!(code, 97);
    for (options, works) in [(&[][..], true), (&["--strict"], false)] {
        let own = ["--listen", "127.0.0.1:0", "--via", &closed, "--match", "127.0.0.0/8"];
        let agent = Agent::start(&[&own[..], options].concat());
        let (code, said) = curl(&["--socks5", &agent.listen, &url]);
        assert_eq!(code == 0, works, "{said}");
        // At once, and by HTTP too.
        let (_, said) = curl(&["--proxy", &agent.listen, &url, "-w", "%{http_code}"]);
        assert!(said.ends_with(if works { "200" } else { "502" }), "{said}");
        assert_eq!(agent.status()[if works { "fell_back" } else { "failed" }], 2);
    }
}

#[test]
fn strangers_get_nothing() {
    let chain = Chain::start();
    let agent = Agent::through(&chain, &[]);
    let status =
        |request: &str| agent.ask(request).split(' ').nth(1).unwrap_or_default().to_owned();
    let get = |host: &str, path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    };
    let own = agent.listen.clone();
    // A page of somebody else's, by a name that leads here.
    assert_eq!(status(&get("evil.example", "/status.json")), "421");
    assert_eq!(status(&get("127.0.0.1.evil.example", "/proxy.pac")), "421");
    assert_eq!(status("GET /status.json HTTP/1.0\r\n\r\n"), "421");
    assert_eq!(status(&get(&own, "/status.json")), "200");
    assert_eq!(status(&get("localhost", "/other")), "404");
    assert_eq!(
        status(&format!(
            "POST / HTTP/1.1\r\nHost: {own}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )),
        "405"
    );
    let script = agent.ask(&get(&own, "/proxy.pac"));
    assert!(
        script.contains("FindProxyForURL") && script.contains(&format!("SOCKS5 {own}")),
        "{script}"
    );
    // What is no request, or one that nobody can serve.
    for (request, code) in [
        ("GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n", "400"),
        ("CONNECT a.example HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "400"),
        ("\x16\x03\x01\r\n\r\n", "400"),
    ] {
        assert_eq!(status(request), code, "{request:?}");
    }
    // An agent that is asked for itself does not ask itself.
    let direct = Agent::start(&["--listen", "127.0.0.1:0"]);
    let (_, said) = curl(&["--proxy", &direct.listen, &format!("http://{}/", direct.listen)]);
    assert!(said.contains("is this proxy itself"), "{said}");
    let mut slow = TcpStream::connect(&agent.listen).unwrap();
    slow.write_all(b"GET http://").unwrap();
    let begun = Instant::now();
    slow.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(begun.elapsed() < Duration::from_secs(25), "a head has 10 s");
}

#[test]
fn login_is_wanted_where_it_is_set() {
    let chain = Chain::start();
    let config = chain.dir.path().join("agent.toml");
    let open = "listen = \"0.0.0.0:0\"\n";
    fs::write(&config, open).unwrap();
    let file = config.to_str().unwrap();
    let (code, said) = refused(&["agent", "run", "--config", file]);
    assert!(code == 2 && said.contains("can be reached from elsewhere"), "{said}");
    fs::write(
        &config,
        "listen = \"127.0.0.1:0\"\nlogin = { user = \"me\", password = \"se:cret\" }\n",
    )
    .unwrap();
    let agent = Agent::start(&["--config", file]);
    let url = format!("http://{}/", mirror());
    let with = |proxy: &str, login: &str| {
        curl(&["-fo", "/dev/null", proxy, &agent.listen, "--proxy-user", login, &url]).0
    };
    assert_eq!([with("--proxy", "me:se:cret"), with("--socks5", "me:se:cret")], [0, 0]);
    assert_eq!([with("--proxy", "me:secret"), with("--socks5", "me:secret")], [22, 97]);
    assert_eq!(curl(&["-fo", "/dev/null", "--proxy", &agent.listen, &url]).0, 22);
    assert_eq!(curl(&["--socks5", &agent.listen, &url]).0, 97);
}

#[test]
fn routes_are_read_again_and_bad_ones_change_nothing() {
    let chain = Chain::start();
    let config = chain.dir.path().join("agent.toml");
    let write = |text: &str| {
        let new = Path::new(&config).with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &config).unwrap();
    };
    write("listen = \"127.0.0.1:0\"\n");
    let agent = Agent::start(&["--config", config.to_str().unwrap()]);
    let url = format!("http://{}/", mirror());
    let counts = || {
        assert_eq!(curl(&["--socks5", &agent.listen, &url]).0, 0);
        let status = agent.status();
        (status["through"].as_u64().unwrap(), status["direct"].as_u64().unwrap())
    };
    assert_eq!(counts(), (0, 1));
    let via = format!("[\"{}\", \"{}\"]", chain.near.listen, chain.far.listen);
    write(&format!("listen = \"127.0.0.1:0\"\n[[route]]\nto = [\"127.0.0.0/8\"]\nvia = {via}\n"));
    agent.await_log("again");
    assert_eq!(counts(), (1, 1));
    write("listen = \"127.0.0.1:0\"\n\n[[route]]\nto = [\"a b\"]\nvia = []\n");
    agent.await_log("agent.toml:4: \"a b\" is neither a network");
    assert_eq!(counts(), (2, 1));
    for (text, why) in [
        ("listen = 3\n", "agent.toml:1: "),
        ("unknown = 3\n", "agent.toml:1: unknown field"),
        ("[[route]]\nto = []\nvia = []\n", "route 1: \"to\" names no destination"),
        ("login = { user = \"a:b\", password = \"x\" }\n", "`login`: "),
    ] {
        write(text);
        let (code, said) = refused(&["agent", "run", "--config", config.to_str().unwrap()]);
        assert!(code == 2 && said.contains(why), "{said}");
    }
}
