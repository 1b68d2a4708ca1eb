// SPDX-License-Identifier: GPL-2.0-or-later
//! Files through chains of real depots with the real curl and wget.

use crate::common::{
    client::{body, curl, wget},
    noise,
    process::Daemon,
    sha256,
};
use std::{fs, path::Path};
use tempfile::TempDir;

/// A directory with `name` of `size` bytes of noise.
fn site(size: usize) -> (TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let bytes = noise(7, size);
    fs::write(dir.path().join("file.bin"), &bytes).unwrap();
    (dir, bytes)
}

/// So many depots, in order from the origin to the client.
fn chain(length: usize, settings: &str) -> Vec<Daemon> {
    (0..length).map(|n| Daemon::depot(&format!("id = \"d{n}\"\n{settings}"))).collect()
}

fn origin(dir: &Path, form: &str, depots: &[Daemon]) -> Daemon {
    Daemon::origin(dir, form, &depots.iter().rev().collect::<Vec<_>>())
}

/// Every client in every form through this many depots.
fn through(depots: usize, settings: &str) {
    let (dir, bytes) = site(3_000_017);
    let depots = chain(depots, settings);
    for form in ["fetch", "lead"] {
        let origin = origin(dir.path(), form, &depots);
        let out = tempfile::tempdir().unwrap();
        let url = origin.url("/file.bin");
        let got = curl(&["-fLO", "--output-dir", out.path().to_str().unwrap(), &url]);
        assert!(got.status.success(), "{form}: {}", String::from_utf8_lossy(&got.stderr));
        let got = fs::read(out.path().join("file.bin")).unwrap();
        assert_eq!(sha256(&got), sha256(&bytes), "{form}");

        let file = out.path().join("wget.bin");
        let got = wget(&["-O", file.to_str().unwrap(), &url]);
        assert!(got.status.success(), "{form}: {}", String::from_utf8_lossy(&got.stderr));
        assert_eq!(sha256(&fs::read(file).unwrap()), sha256(&bytes), "{form}");
    }
    for depot in &depots {
        depot.await_log(&[
            "status=200",
            "bytes=3000017",
            "complete",
            "client_cc=",
            "upstream_rtt_us=",
        ]);
    }
    // In the long form the client visits every depot; all but the last lead it on.
    for (n, depot) in depots.iter().enumerate() {
        assert_eq!(
            depot.log_text().contains("led on"),
            n + 1 < depots.len(),
            "{}",
            depot.log_text()
        );
    }
}

#[test]
fn without_depots() {
    through(0, "");
}

#[test]
fn through_one_depot() {
    through(1, "");
}

#[test]
fn through_two_depots() {
    through(2, "");
}

#[test]
fn through_three_depots() {
    through(3, "");
}

#[test]
fn through_two_copying_depots() {
    through(2, "copy = \"copy\"");
}

#[test]
fn heads_ranges_and_conditions() {
    let (dir, bytes) = site(100_000);
    let depots = chain(2, "");
    let origin = origin(dir.path(), "lead", &depots);
    let url = origin.url("/file.bin");

    let head = String::from_utf8(body_with(&["-I"], &url)).unwrap();
    assert!(head.contains("HTTP/1.1 200 OK") && head.contains("Content-Length: 100000"), "{head}");
    assert!(head.contains("Via: 1.1 d0 (longhaul), 1.1 d1 (longhaul)"), "{head}");

    assert_eq!(body_with(&["-r", "1000-1999"], &url), &bytes[1000..2000]);
    assert_eq!(body_with(&["-r", "-10"], &url), &bytes[99_990..]);
    // Several ranges at once are not made; the whole file is the answer then.
    assert_eq!(body_with(&["-H", "Range: bytes=0-1,5-6"], &url), bytes);
    let beyond = curl(&["-L", "-o", "/dev/null", "-w", "%{http_code}", "-r", "100000-", &url]);
    assert_eq!(String::from_utf8(beyond.stdout).unwrap(), "416");

    let field = |name: &str| {
        let line = head.lines().rev().find(|line| line.starts_with(name)).expect(name);
        line.split_once(": ").unwrap().1.trim().to_owned()
    };
    for tag in [field("Etag"), field("Last-Modified")] {
        let same = format!("If-Range: {tag}");
        assert_eq!(body_with(&["-r", "5-9", "-H", &same], &url), &bytes[5..10], "{same}");
    }
    for other in ["If-Range: \"other\"", "If-Range: Thu, 01 Jan 2004 00:00:00 GMT"] {
        assert_eq!(body_with(&["-r", "5-9", "-H", other], &url), bytes, "{other}");
    }
    let unchanged = format!("If-None-Match: {}", field("Etag"));
    let unchanged = curl(&["-L", "-w", "%{http_code}", "-H", &unchanged, &url]);
    assert_eq!(String::from_utf8(unchanged.stdout).unwrap(), "304");
}

fn body_with(args: &[&str], url: &str) -> Vec<u8> {
    let got = curl(&[args, &["-f", "-L", url]].concat());
    assert!(got.status.success(), "{args:?}: {}", String::from_utf8_lossy(&got.stderr));
    got.stdout
}

#[test]
fn broken_download_is_resumed() {
    let (dir, bytes) = site(200_000);
    let depots = chain(2, "");
    let origin = origin(dir.path(), "fetch", &depots);
    let out = tempfile::tempdir().unwrap();
    let part = out.path().join("part");
    let part_name = part.to_str().unwrap();
    for (client, args) in [
        ("curl", vec!["-f", "-L", "-C", "-", "-o", part_name]),
        ("wget", vec!["-c", "-O", part_name]),
    ] {
        fs::write(&part, &bytes[..70_000]).unwrap();
        let url = origin.url("/file.bin");
        let args = [&args[..], &[&url]].concat();
        let got = if client == "curl" { curl(&args) } else { wget(&args) };
        assert!(got.status.success(), "{client}: {}", String::from_utf8_lossy(&got.stderr));
        assert_eq!(sha256(&fs::read(&part).unwrap()), sha256(&bytes), "{client}");
        depots[0].await_log(&["status=206", "bytes=130000", "complete"]);
    }
}

#[test]
fn names_queries_and_links_survive() {
    let (dir, _) = site(10);
    fs::create_dir_all(dir.path().join("a b/c")).unwrap();
    fs::write(dir.path().join("a b/c/x,y:z.txt"), "here").unwrap();
    fs::write(dir.path().join("a b/index.html"), "<a href=\"c/x,y:z.txt\">").unwrap();
    let depots = chain(2, "");
    let origin = origin(dir.path(), "fetch", &depots);
    assert_eq!(body(&origin.url("/a%20b/c/x,y:z.txt?q=/../&r=http://x")), b"here");
    // A directory without its slash: the origin redirects to itself, and that works out.
    assert_eq!(body(&origin.url("/a%20b")), body(&origin.url("/a%20b/")));
    // A browser resolves the page's relative link against the URL at the depot.
    let out = tempfile::tempdir().unwrap();
    let prefix = out.path().to_str().unwrap();
    let url = origin.url("/a%20b/");
    let got = wget(&["-r", "-l1", "-np", "-e", "robots=off", "-nd", "-P", prefix, &url]);
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    assert_eq!(fs::read(out.path().join("x,y:z.txt")).unwrap(), b"here");
}

#[test]
fn origin_errors_reach_the_client() {
    let (dir, _) = site(10);
    let depots = chain(2, "");
    let origin = origin(dir.path(), "lead", &depots);
    let got = curl(&["-L", "-o", "/dev/null", "-w", "%{http_code}", &origin.url("/none")]);
    assert_eq!(String::from_utf8(got.stdout).unwrap(), "404");
    depots[1].await_log(&["status=404", "complete"]);
}

#[test]
fn a_hundred_at_once() {
    let (dir, bytes) = site(300_000);
    let depots = chain(2, "");
    let origin = origin(dir.path(), "fetch", &depots);
    let idle: Vec<usize> = depots.iter().map(Daemon::open_files).collect();
    let out = tempfile::tempdir().unwrap();
    let url = format!("{}?[1-100]", origin.url("/file.bin"));
    let name = out.path().join("#1");
    let got = curl(&[
        "-f",
        "-L",
        "--parallel",
        "--parallel-immediate",
        "--parallel-max",
        "100",
        "-o",
        name.to_str().unwrap(),
        &url,
    ]);
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    for n in 1..=100 {
        let got = fs::read(out.path().join(n.to_string())).unwrap();
        assert!(got == bytes, "transfer {n} differs");
    }
    for (depot, idle) in depots.iter().zip(idle) {
        depot.await_log(&["?100\"", "complete"]);
        testkit::until("all files are closed again", || depot.open_files() <= idle);
    }
}
