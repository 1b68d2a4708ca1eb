// SPDX-License-Identifier: GPL-2.0-or-later
//! Who may use `longhaul agent`: its password, how often one may be guessed, and tunnels to itself.

use crate::{
    agent::{Agent, curl, mirror},
    chain::Chain,
    common::{call, json, refused, text},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
};

const LOGIN: &str = "login = { user = \"me\", password = \"se:cret\" }\n";

/// An agent with a login, and its configuration file.
fn with_login(chain: &Chain, more: &str) -> (Agent, PathBuf) {
    let config = chain.write("agent.toml", &format!("listen = \"127.0.0.1:0\"\n{LOGIN}{more}"));
    let agent = Agent::start(&["--config", config.to_str().unwrap()]);
    let listen = format!("listen = {:?}\n{LOGIN}", agent.listen);
    (agent, chain.write("client.toml", &listen))
}

#[test]
fn everything_but_the_script_takes_the_password() {
    let chain = Chain::start();
    let (agent, client) = with_login(&chain, "");
    let own = agent.listen.clone();
    let status = |request: &str, fields: &str| {
        let answer = agent.ask(&format!("{request} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n"));
        (answer.split(' ').nth(1).unwrap_or_default().to_owned(), answer)
    };
    let host = format!("Host: {own}\r\n");
    for (request, without) in [
        ("GET /proxy.pac", "200"),
        ("GET /status.json", "401"),
        ("GET /status.json?x", "401"),
        ("GET /proxy.pac/../status.json", "401"),
        ("GET //status.json", "401"),
        ("GET /", "401"),
        ("HEAD /status.json", "401"),
        ("HEAD /proxy.pac", "401"),
        ("POST /proxy.pac", "401"),
        ("OPTIONS *", "401"),
    ] {
        let (code, answer) = status(request, &host);
        assert_eq!(code, without, "{request}: {answer}");
        assert_eq!(answer.contains("www-authenticate: Basic"), without == "401", "{answer}");
    }
    // Neither by the field of proxies, nor by a wrong password; nor does the field of servers open the proxy.
    let basic = |field: &str, code: &str| format!("{host}{field}: Basic {code}\r\n");
    let (right, wrong) = ("bWU6c2U6Y3JldA==", "bWU6c2VjcmV0");
    for (fields, expected) in [
        (basic("Authorization", right), "200"),
        (basic("Authorization", wrong), "401"),
        (basic("Proxy-Authorization", right), "401"),
        (format!("{host}Authorization: Basic\r\n"), "401"),
        (format!("{host}Authorization: Bearer {right}\r\n"), "401"),
    ] {
        assert_eq!(status("GET /status.json", &fields).0, expected, "{fields}");
    }
    let url = format!("GET http://{}/", mirror());
    assert_eq!(status(&url, &basic("Authorization", right)).0, "407");
    assert_eq!(status(&url, &basic("Proxy-Authorization", right)).0, "200");
    // The commands have it from the agent's file.
    let (code, said) = refused(&["agent", "status", &own]);
    assert!(code == 1 && said.contains("--config FILE"), "{said}");
    let config = client.to_str().unwrap();
    assert!(json(&["agent", "status", "--config", config, "--json"])["through"].is_u64());
    let output = call(&["agent", "connect", &chain.echo, "--config", config]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (code, said) = refused(&["agent", "connect", &chain.echo, "--agent", &own]);
    assert!(code == 1 && said.contains("wants a name and a password"), "{said}");
}

/// What SOCKS5 says of a password: its status byte, or nothing if the connection ends.
fn by_socks(agent: &Agent, password: &str) -> Option<u8> {
    let mut stream = TcpStream::connect(&agent.listen).unwrap();
    let length = u8::try_from(password.len()).unwrap();
    let hello = [&[5, 1, 2, 1, 2][..], b"me", &[length], password.as_bytes()].concat();
    stream.write_all(&hello).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).ok()?;
    Some(answer[3])
}

#[test]
fn wrong_passwords_run_out_by_every_protocol() {
    let chain = Chain::start();
    for by in ["socks", "proxy", "status"] {
        let (agent, _) = with_login(&chain, "");
        let url = format!("http://{}/", mirror());
        let own = format!("http://{}/status.json", agent.listen);
        let tries = |password: &str| match by {
            "socks" => by_socks(&agent, password).map_or_else(String::new, |code| code.to_string()),
            "proxy" => {
                let login = format!("me:{password}");
                let proxy = ["--proxy", &agent.listen, "--proxy-user", &login, &url];
                curl(&[&["-o", "/dev/null", "-w", "%{http_code}"][..], &proxy].concat()).1
            }
            _ => {
                let login = format!("me:{password}");
                curl(&["-o", "/dev/null", "-w", "%{http_code}", "--user", &login, &own]).1
            }
        };
        let (right, tried, over) = match by {
            "socks" => ("0", "1", "1"),
            "proxy" => ("200", "407", "429"),
            _ => ("200", "401", "429"),
        };
        // Right ones cost nothing.
        for _ in 0..20 {
            assert_eq!(tries("se:cret"), right, "{by}");
        }
        let said: Vec<_> = (0..30).map(|n| tries(&format!("wrong{n}"))).collect();
        assert!(said[..10].iter().all(|code| code == tried), "{by}: {said:?}");
        assert!(said.iter().any(|code| code == over), "{by}: {said:?}");
        // Without tries, the right one is not looked at either: it would tell which one is right.
        let refused = (0..5).any(|_| tries("wrong") == over && tries("se:cret") != right);
        assert!(refused, "{by}");
    }
}

#[test]
fn tunnels_to_the_agent_itself_are_refused() {
    let chain = Chain::start();
    // Directly, and through depots that could reach the agent.
    for routes in ["", "through"] {
        let via = format!("via = [{:?}, {:?}]", chain.near.listen, chain.far.listen);
        let all = ["127.0.0.0/8", "::/0", "0.0.0.0/0", "localhost", "*"];
        let routes = match routes {
            "" => String::new(),
            _ => format!("[[route]]\nto = {all:?}\n{via}\n"),
        };
        let config = format!("listen = \"0.0.0.0:0\"\n{LOGIN}{routes}");
        let config = chain.write("all.toml", &config);
        let agent = Agent::start(&["--config", config.to_str().unwrap()]);
        let port = agent.listen.rsplit(':').next().unwrap();
        for host in [
            "127.0.0.1",
            "127.1.2.3",
            "0.0.0.0",
            "localhost",
            "LOCALHOST",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::]",
        ] {
            let login = "Proxy-Authorization: Basic bWU6c2U6Y3JldA==";
            let connect =
                format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{login}\r\n\r\n");
            let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            stream.write_all(connect.as_bytes()).unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            let answer = text(&answer);
            assert!(answer == "HTTP/1.1 508", "{host}: {answer}");
        }
        // What only looks alike is another server.
        let echo = format!(
            "CONNECT {0} HTTP/1.1\r\nHost: {0}\r\nProxy-Authorization: Basic bWU6c2U6Y3JldA==\r\n\r\n",
            chain.echo
        );
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.write_all(echo.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(text(&answer), "HTTP/1.1 200");
    }
}
