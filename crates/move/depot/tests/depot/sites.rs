// SPDX-License-Identifier: GPL-2.0-or-later
//! Sites: origins under names of their own, at one depot and through a chain.

use crate::common::{
    client::{curl, exchange, status},
    noise,
    pki::Pki,
    process::Daemon,
    scripted::Scripted,
    sha256,
};
use std::{
    fs,
    io::{Read, Write},
    net::SocketAddr,
};
use testkit::until;

const NAME: &str = "data.example.org";

/// A depot that serves only clients of its sites.
fn near(site: &str) -> Daemon {
    Daemon::depot(&format!("id = \"near\"\n[allow]\nclients = []\n{site}"))
}

/// The `[[site]]` of an origin, through a chain.
fn site(origin: SocketAddr, via: &[&Daemon], more: &str) -> String {
    let via: Vec<_> = via.iter().map(|depot| format!("{:?}", depot.address.to_string())).collect();
    let via = via.join(", ");
    format!("[[site]]\nname = \"{NAME}\"\norigin = \"http://{origin}\"\nvia = [{via}]\n{more}\n")
}

/// A depot behind the one with the site, which it trusts to say what is for one.
fn far(trusted: &str, more: &str) -> Daemon {
    Daemon::depot(&format!(
        "id = \"far\"\n[trust]\ndepots = [{trusted}]\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
         upstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n{more}"
    ))
}

/// What a client of the site sends, and gets.
fn ask(depot: &Daemon, line: &str, fields: &str) -> (String, Vec<u8>) {
    let text = format!("{line} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{fields}\r\n");
    let (head, body, end) = exchange(depot.address, text.as_bytes());
    end.unwrap();
    (head, body)
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: s=1\r\nSet-Cookie: t=2\r\n\
    Strict-Transport-Security: max-age=1\r\nCache-Control: max-age=7\r\nETag: \"e\"\r\n\r\nok";

#[test]
fn site_answers_only_under_its_name() {
    let origin = Scripted::answering(ANSWER);
    let far = far("\"127.0.0.0/8\"", "");
    for depot in [near(&site(origin.address, &[], "")), near(&site(origin.address, &[&far], ""))] {
        let fields = "Cookie: c=1\r\nX-Forwarded-For: 6.6.6.6\r\nIf-None-Match: \"e\"\r\n";
        let (head, body) = ask(&depot, "GET /a//b?c=/../d", fields);
        assert_eq!((status(&head), &body[..]), (200, &b"ok"[..]), "{head}");
        for field in [
            "Set-Cookie: s=1",
            "Set-Cookie: t=2",
            "Strict-Transport-Security: max-age=1",
            "Cache-Control: max-age=7",
            "Etag: \"e\"",
        ] {
            assert!(head.contains(&format!("\r\n{field}\r\n")), "{field} is not in {head}");
        }
        for added in ["sandbox", "Referrer-Policy", "Longhaul-"] {
            assert!(!head.contains(added), "{added} in {head}");
        }
        let asked = origin.next_head();
        assert!(asked.starts_with("GET /a//b?c=/../d HTTP/1.1\r\n"), "{asked}");
        for field in [
            "Host: data.example.org",
            "Cookie: c=1",
            "If-None-Match: \"e\"",
            "Forwarded: for=127.0.0.1;host=\"data.example.org\";proto=http",
            "X-Forwarded-For: 127.0.0.1",
        ] {
            assert!(asked.contains(&format!("\r\n{field}\r\n")), "{field} is not in {asked}");
        }
        assert!(!asked.contains("6.6.6.6") && !asked.contains("Longhaul-"), "{asked}");
        depot.await_log(&["complete", "site=\"data.example.org\"", "target=\"/a//b?c=/../d\""]);
        // Under any other name it is a depot that serves no client.
        let (head, _, _) = exchange(depot.address, b"GET /a HTTP/1.1\r\nHost: other\r\n\r\n");
        assert_eq!(status(&head), 403, "{head}");
    }
}

#[test]
fn site_login_passes_unchanged() {
    let challenge = "WWW-Authenticate: Basic realm=\"files\"";
    let far = far("\"127.0.0.0/8\"", "");
    for (answer, field) in [
        (format!("401 Unauthorized\r\n{challenge}"), challenge),
        ("302 Found\r\nLocation: /login\r\nSet-Cookie: s=1".to_owned(), "Location: /login"),
    ] {
        let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
        let origin = Scripted::answering(answer);
        for via in [&[][..], &[&far]] {
            let (head, _) = ask(&near(&site(origin.address, via, "")), "GET /f.bin", "");
            let (head, field) = (head.to_lowercase(), field.to_lowercase());
            assert!(head.contains(&format!("\r\n{field}\r\n")), "{field}: {head}");
            assert!(!head.contains("lh-direct"), "{head}");
        }
    }
}

#[test]
fn depot_paths_belong_to_the_site_under_its_name() {
    let origin = Scripted::answering(ANSWER);
    let far = far("\"127.0.0.0/8\"", "");
    for depot in [near(&site(origin.address, &[], "")), near(&site(origin.address, &[&far], ""))] {
        for target in [
            "/lh1/fetch/-/http:127.0.0.1:1/x",
            "/lh1/load",
            "/lh1/hold",
            "/lh1/join/00000000000000000000000000000000/1",
            "/lh2/ticket",
            "/favicon.ico",
        ] {
            let (head, _) = ask(&depot, &format!("GET {target}"), "");
            assert_eq!(status(&head), 200, "{target}: {head}");
            let asked = origin.next_head();
            assert!(asked.starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{asked}");
        }
        // The name counts however it is written, and the whole URL before the field.
        let whole = format!("GET http://{NAME}/u HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let port = "GET /p HTTP/1.1\r\nHost: Data.Example.ORG:8080\r\nConnection: close\r\n\r\n";
        for (text, host) in [(&*whole, NAME), (port, "Data.Example.ORG:8080")] {
            let (head, _, _) = exchange(depot.address, text.as_bytes());
            assert_eq!(status(&head), 200, "{head}");
            let asked = origin.next_head();
            assert!(asked.contains(&format!("\r\nHost: {host}\r\n")), "{asked}");
        }
    }
}

#[test]
fn depot_that_drops_site_fields_is_detected() {
    let origin = Scripted::answering(ANSWER);
    let far = far("\"192.0.2.0/24\"", "");
    let depot = near(&site(origin.address, &[&far], ""));
    let (head, body) = ask(&depot, "GET /", "Cookie: c=1\r\n");
    assert_eq!(status(&head), 502, "{head}");
    let text = String::from_utf8_lossy(&body);
    assert!(text.contains("`trust.depots` there must list this depot"), "{text}");
    assert!(!origin.next_head().contains("Cookie"), "an untrusted depot's word counts for nothing");
    // What such a depot says itself goes through.
    let (head, _) = ask(&depot, "PUT /", "Content-Length: 0\r\n");
    assert_eq!(status(&head), 405, "{head}");
}

#[test]
fn clients_cannot_forge_site_fields() {
    let origin = Scripted::answering(ANSWER);
    let far = far("\"127.0.0.2/32\"", "");
    let forged = format!(
        "GET {} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nCookie: c=1\r\nVia: 1.1 x (longhaul)\r\n\
         Longhaul-Site: \"{NAME}\";proto=https;for=\"6.6.6.6\"\r\n\r\n",
        origin.route("-", "/")
    );
    let (head, _, _) = exchange(far.address, forged.as_bytes());
    assert!(status(&head) == 200 && !head.contains("Set-Cookie"), "{head}");
    assert!(head.contains("sandbox"), "{head}");
    let asked = origin.next_head();
    assert!(!asked.contains("Cookie") && !asked.contains("6.6.6.6"), "{asked}");
}

#[test]
fn site_rules_are_enforced() {
    let origin = Scripted::answering(ANSWER);
    let rules = "clients = [\"127.0.0.2/32\"]\nmethods = [\"GET\"]\nhost = \"inner.example:81\"";
    let depot = near(&site(origin.address, &[], rules));
    let (head, _) = ask(&depot, "GET /", "");
    assert_eq!(status(&head), 403, "{head}");
    let depot = near(&site(origin.address, &[], &rules.replace("127.0.0.2/32", "127.0.0.0/8")));
    let (head, _) = ask(&depot, "DELETE /", "");
    assert!(status(&head) == 405 && head.contains("\r\nAllow: GET\r\n"), "{head}");
    let (head, _) = ask(&depot, "GET /x/../y", "");
    assert_eq!(status(&head), 400, "{head}");
    let (head, _) = ask(&depot, "GET /", "");
    assert_eq!(status(&head), 200, "{head}");
    let asked = origin.next_head();
    assert!(asked.contains("\r\nHost: inner.example:81\r\n"), "{asked}");
    assert!(asked.contains("\r\nX-Forwarded-Host: data.example.org\r\n"), "{asked}");
}

#[test]
fn looping_site_request_ends() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    // By a name that only the system knows to lead here.
    let text = format!(
        "listen = [\"{address}\"]\nid = \"round\"\n[[site]]\nname = \"{NAME}\"\n\
         origin = \"http://localhost:{}\"\n",
        address.port()
    );
    let depot = Daemon::depot_with(&text);
    let (head, _) = ask(&depot, "GET /", "");
    assert_eq!(status(&head), 508, "{head}");
}

#[test]
fn each_site_name_has_its_certificate() {
    let (pki, body) = (Pki::new(), noise(43, 3_000_017));
    pki.issue("site", NAME);
    let nginx = pki.nginx("own", &body);
    let roots = format!("[tls]\nroots = {:?}", pki.roots());
    let far = far("\"127.0.0.0/8\"", &format!("methods = [\"GET\", \"PUT\"]\n{roots}"));
    let site = format!(
        "[[site]]\nname = \"{NAME}\"\norigin = \"https://{}\"\nvia = [\"{}\"]\ncertificate = {:?}\n\
         key = {:?}\n",
        nginx.address,
        far.address,
        pki.file("site.pem"),
        pki.file("site.key")
    );
    let depot = Daemon::depot_with(&format!("{}{site}", pki.settings("own", "")));
    let port = depot.address.port();
    let to_site = format!("{NAME}:{port}:127.0.0.1");
    let url = format!("https://{NAME}:{port}/file");
    let ask = |args: &[&str]| pki.curl(&[&["-f", "--resolve", &to_site], args].concat());
    let got = ask(&[&url]);
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    assert_eq!(sha256(&got.stdout), sha256(&body));
    assert_eq!(ask(&["-r", "1000-1099", &url]).stdout, &body[1000..1100]);
    let out = pki.file("out");
    fs::write(&out, &body).unwrap();
    let put = ask(&["-T", out.to_str().unwrap(), &format!("https://{NAME}:{port}/put")]);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    assert_eq!(sha256(&fs::read(nginx.dir.path().join("site/put")).unwrap()), sha256(&body));
    depot.await_log(&["complete", "site=\"data.example.org\"", "bytes=3000017"]);
    // Without the site's name clients see the depot's own, which is for its address.
    let got = pki.curl(&["-i", &format!("https://127.0.0.1:{port}/x")]);
    assert!(got.stdout.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&got.stdout));
    let other = format!("other.example.org:{port}:127.0.0.1");
    let got = pki.curl(&["--resolve", &other, &format!("https://other.example.org:{port}/")]);
    assert_eq!(got.status.code(), Some(60), "its certificate is for another name");
}

#[test]
fn next_depot_of_a_site_is_warm_from_start() {
    let origin = Scripted::answering(ANSWER);
    let far = far("\"127.0.0.0/8\"", "");
    let site = site(origin.address, &[&far], "");
    let near = Daemon::depot(&format!(
        "trust.depots = [\"127.0.0.0/8\"]\nadmin.listen = \"127.0.0.1:0\"\n{site}\
         [[hop]]\npeer = \"127.0.0.0/8\"\nwarm = 2\nidle = \"4s\""
    ));
    let waiting = || near.status().connections.idle_upstream;
    until("two connections wait", || waiting() == 2);
    // Longer than the limit for other unused connections. The depot looks at them each second, and at half of
    // that time has agreed on a longer one.
    std::thread::sleep(std::time::Duration::from_secs(9));
    until("two still do", || waiting() == 2);
    let (head, _) = ask(&near, "GET /", "");
    assert_eq!(status(&head), 200, "{head}");
    let connects: u64 = near.status().times.connect.counts.iter().sum();
    assert_eq!(connects, 0, "the request needed no new connection");
}

#[test]
fn site_certificate_must_cover_its_name() {
    let pki = Pki::new();
    let settings = |site: &str| {
        format!(
            "{}[[site]]\nname = \"{NAME}\"\norigin = \"http://127.0.0.1:1\"\ncertificate = {:?}\n\
             key = {:?}\n",
            pki.settings("own", ""),
            pki.file(&format!("{site}.pem")),
            pki.file(&format!("{site}.key"))
        )
    };
    let log = Daemon::launch("depot", &settings("own")).err().expect("it does not start");
    assert!(log.contains("own.pem") && log.contains("is not for the [[site]] data.example.org"));
    pki.issue("wild", "*.example.org");
    let depot = Daemon::launch("depot", &settings("wild")).expect("it starts");
    // It is renewed as the depot's own is.
    fs::write(pki.file("wild.pem"), "no certificate").unwrap();
    depot.await_log(&["WARN", "stay as they were", "wild.pem"]);
}

#[test]
fn many_read_one_site_over_kept_connections() {
    let body = noise(44, 200_000);
    let sent = body.clone();
    let origin = Scripted::new(move |mut stream, _| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len());
        loop {
            if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&sent)).is_err() {
                return;
            }
            let mut next = [0; 4096];
            if !matches!(stream.read(&mut next), Ok(1..)) {
                return;
            }
        }
    });
    let far = far("\"127.0.0.0/8\"", "");
    let depot = near(&site(origin.address, &[&far], ""));
    let (address, want) = (depot.address, sha256(&body));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let want = want.clone();
            std::thread::spawn(move || {
                for n in 0..10 {
                    let name = format!("{NAME}:{}:127.0.0.1", address.port());
                    let url = format!("http://{NAME}:{}/{n}", address.port());
                    let got = curl(&["-f", "--resolve", &name, &url]);
                    assert_eq!(sha256(&got.stdout), want);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let opened = std::iter::from_fn(|| origin.try_next_head()).count();
    assert!(opened <= 16, "{opened} connections to the origin for 80 requests of 8 clients");
}
