// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot's `pacing = "gap"`: on an emulated network, what the depot sends to a client is followed by gap frames,
//! by rules that root has put in the kernel for it; the depot itself has no rights.

use crate::{
    common::{Kernel, call, done, json, longhaul, refused, text},
    pace::{Cleared, pins},
};
use scenario::Scenario;
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    io::{self, Read, Write},
    net::{IpAddr, Shutdown, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};
use testkit::draft::Draft;
use testkit::until;
use wan::{Wan, device_name};

/// A user whom nothing belongs to.
const NOBODY: u32 = 65534;
const BYTES: usize = 3_000_000;

fn network() -> Wan {
    let link = "rate=100mbit delay=5ms overhead=38 queue=4MB";
    let text = Draft::new("paced", "")
        .nodes(&["client", "depot", "origin"])
        .link("client", "depot", link)
        .link("depot", "origin", link)
        .to_string();
    let scenario = Scenario::parse(&text, "paced", &[] as &[&str]).expect("a sound scenario");
    Wan::up(&scenario.runs[0]).unwrap_or_else(|error| panic!("{error}"))
}

/// By which the depot sends to the client, and to the origin.
fn devices() -> [String; 2] {
    [0, 1].map(device_name)
}

/// Runs something on a node.
fn on<T: Send>(wan: &Wan, node: &str, work: impl FnOnce() -> T + Send) -> T {
    let node = wan.node(node).expect("a node");
    node.namespace.run(|| Ok::<_, io::Error>(work())).expect("its namespace")
}

/// A depot's configuration, as everybody may read it.
struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("depot.toml");
        Self { _folder: folder, path }
    }

    /// With these hops, a peer and its pacing each.
    fn write(&self, hops: &[(&str, &str)]) {
        let hop = |(peer, pacing): &(&str, &str)| {
            format!("[[hop]]\npeer = \"{peer}\"\npacing = \"{pacing}\"\n")
        };
        let hops: String = hops.iter().map(hop).collect();
        let text = format!(
            "id = \"d\"\nlisten = [\"0.0.0.0:3880\"]\nadmin.listen = \"127.0.0.1:3881\"\n[allow]\n\
             clients = [\"0.0.0.0/0\"]\nupstreams = [\"0.0.0.0/0:*\"]\nprivate = true\n{hops}"
        );
        fs::write(&self.path, text).unwrap();
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("a plain path")
    }
}

/// A depot that runs; killed when dropped.
struct Depot {
    child: Child,
    log: PathBuf,
}

impl Depot {
    /// Without any rights, on the node of that name.
    fn start(wan: &Wan, file: &File, log: &Path) -> Self {
        // The one that cargo built may lie where only root looks.
        let program = file.path.with_file_name("longhaul");
        if !program.exists() {
            fs::copy(longhaul().get_program(), &program).unwrap();
        }
        let mut command = Command::new(program);
        command.args(["depot", "--config", file.path()]).uid(NOBODY).gid(NOBODY);
        command.stdout(Stdio::null()).stderr(fs::File::create(log).unwrap());
        // Another test's fork may have the copy open for writing still.
        let is_busy =
            |error: &std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
        let mut child = None;
        until("the copy of the binary can be run", || {
            let spawned = on(wan, "depot", || command.spawn());
            match spawned {
                Err(error) if is_busy(&error) => false,
                spawned => {
                    child = Some(spawned.expect("a copy of the binary"));
                    true
                }
            }
        });
        let child = child.expect("it runs");
        let depot = Self { child, log: log.to_owned() };
        until("the depot is ready", || depot.said(&["ready"]));
        depot
    }

    /// Whether a line of its log has all of that.
    fn said(&self, parts: &[&str]) -> bool {
        let log = fs::read_to_string(&self.log).unwrap();
        log.lines().any(|line| parts.iter().all(|part| line.contains(part)))
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves one file once, on the origin's node.
fn serve(wan: &Wan) {
    let address = wan.address("origin").unwrap();
    let listener = on(wan, "origin", || TcpListener::bind((address, 80)).unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            asked.extend(byte);
        }
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n").unwrap();
        stream.write_all(&vec![7; BYTES]).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
}

/// Fetches it through the depot, on the client's node.
fn fetch(wan: &Wan) -> usize {
    let [depot, origin]: [IpAddr; 2] = ["depot", "origin"].map(|node| wan.address(node).unwrap());
    let mut stream = on(wan, "client", || TcpStream::connect((depot, 3880)).unwrap());
    let route = format!("/lh1/fetch/-/http:{origin}/");
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    let head = text(&answer[..end]);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    answer.len() - end - 4
}

fn gso_max_segs(device: &str) -> u64 {
    let arguments = ["-json", "-details", "link", "show", "dev", device];
    let output = Command::new("ip").args(arguments).output().expect("iproute2");
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    shown[0]["gso_max_segs"].as_u64().expect("a number")
}

/// The destinations of a device's rules, and which of them are a depot's.
fn rules(device: &str) -> Vec<(String, bool)> {
    let shown = json(&["pace", "show", "--json"]);
    let devices = shown["devices"].as_array().expect("a list");
    let Some(found) = devices.iter().find(|one| one["device"] == device) else {
        return Vec::new();
    };
    let rules = found["rules"].as_array().expect("a list").iter();
    let rule = |rule: &Value| {
        let destination = rule["destination"].as_str().expect("one").to_owned();
        (destination, rule["of_depot"].as_bool().expect("yes or no"))
    };
    rules.map(rule).collect()
}

/// New rules of a depot replace all its earlier ones.
fn other_rules_take_the_place_of_the_first(wan: &Wan, file: &File, peer: &str, before: u64) {
    let [to_client, to_origin] = devices();
    let set = ["depot", "pace", file.path(), "--line", "100mbit"];
    let origin = format!("{}/32", wan.address("origin").unwrap());
    on(wan, "depot", || {
        assert_eq!(rules(&to_client).len(), 2);
        file.write(&[(&origin, "gap"), (peer, "tcp")]);
        assert_eq!(done(&set), format!("{to_origin} {origin}\n"));
        assert_eq!(rules(&to_client), [("198.51.100.0/24".to_owned(), false)]);
        assert_eq!(rules(&to_origin)[1], (origin.clone(), true));
        for (device, rule) in [(&to_client, "2"), (&to_origin, "1")] {
            done(&["pace", "del", device, rule]);
        }
        assert_eq!((gso_max_segs(&to_client), gso_max_segs(&to_origin)), (before, 1));
        done(&["depot", "pace", file.path(), "--off"]);
        assert_eq!(gso_max_segs(&to_origin), before);
    });
}

#[test]
fn unprivileged_depot_has_its_packets_paced_by_gap_frames() {
    let _kernel = Kernel::without_ours();
    assert_eq!(pins(), Vec::<PathBuf>::new(), "paced already; delete that first");
    let _cleared = Cleared;
    let (wan, file) = (network(), File::new());
    let client = wan.address("client").unwrap();
    let peer = format!("{client}/32");
    let [to_client, to_origin] = devices();
    file.write(&[(&peer, "gap")]);
    let set = ["depot", "pace", file.path(), "--line", "100mbit"];
    let before = on(&wan, "depot", || gso_max_segs(&to_client));

    // Nothing paces yet: it doesn't start, and says what to do.
    on(&wan, "depot", || {
        for command in [&["depot", "--config", file.path()][..], &["depot", "check", file.path()]] {
            let (code, said) = refused(command);
            assert_eq!(code, 3, "{said}");
            for part in
                [peer.as_str(), "pacing = \"gap\"", "not paced by gap packets", "depot pace"]
            {
                assert!(said.contains(part), "{part} is missing: {said}");
            }
        }
        assert_eq!(done(&set), format!("{to_client} {peer}\n"));
        assert_eq!(done(&set), format!("{to_client} {peer}\n"), "once more changes nothing");
        assert_eq!(rules(&to_client), [(peer.clone(), true)]);
        assert_eq!(gso_max_segs(&to_client), 1);
        let (code, said) = refused(&["depot", "pace", file.path(), "--line", "moon0=1gbit"]);
        assert!(code == 2 && said.contains("--line moon0"), "{code}: {said}");
        done(&["depot", "check", file.path()]);
    });

    let folder = tempfile::tempdir().unwrap();
    let depot = Depot::start(&wan, &file, &folder.path().join("log"));
    serve(&wan);
    assert_eq!(fetch(&wan), BYTES);
    until("its line", || depot.said(&["complete", "client_pacing=\"gap\""]));
    assert!(!depot.said(&["upstream_pacing"]), "that hop has none");
    let sent = wan.status().unwrap().directed_links;
    let gaps: Vec<(&str, u64)> = wan
        .directed_links()
        .iter()
        .map(String::as_str)
        .zip(sent.iter().map(|lane| lane.counters.gaps))
        .collect();
    for (lane, gaps) in &gaps {
        assert_eq!(*gaps > 0, *lane == "client-depot/backward", "{lane}: {gaps} gap frames");
    }
    on(&wan, "depot", || {
        let status = ["depot", "status", "http://127.0.0.1:3881"];
        let table = done(&[&status[..], &["--once"]].concat());
        assert!(table.contains(&format!("packets to {peer} are paced by gap")), "{table}");
        // A user's own rules stay, on the depot's devices and on others.
        done(&["pace", "add", &to_client, "--auto", "--match", "dst", "198.51.100.0/24"]);
        done(&[
            "pace",
            "add",
            &to_origin,
            "--auto",
            "--line",
            "100mbit",
            "--match",
            "dst",
            "192.0.2.0/24",
        ]);
        done(&["depot", "pace", file.path(), "--off"]);
        assert_eq!(rules(&to_client), [("198.51.100.0/24".to_owned(), false)]);
        assert_eq!(rules(&to_origin), [("192.0.2.0/24".to_owned(), false)]);
    });
    until("the depot has seen it", || depot.said(&["WARN", "not paced any more", &peer]));
    on(&wan, "depot", || {
        done(&set);
    });
    until("the depot has seen it", || depot.said(&["INFO", "paced again", &peer]));

    // Killed it takes nothing with it.
    drop(depot);
    other_rules_take_the_place_of_the_first(&wan, &file, &peer, before);
    assert_eq!(pins(), Vec::<PathBuf>::new());
    assert!(!Path::new("/run/longhaul/paced").exists(), "no notice is left");
}

#[test]
fn unpaceable_hop_is_refused_and_leaves_nothing() {
    let _kernel = Kernel::without_ours();
    let _cleared = Cleared;
    let (wan, file) = (network(), File::new());
    let client = format!("{}/32", wan.address("client").unwrap());
    let origin = format!("{}/32", wan.address("origin").unwrap());
    let set = ["depot", "pace", file.path(), "--line", "100mbit"];
    on(&wan, "depot", || {
        let route = ["route", "add", "198.51.100.0/24", "dev", &devices()[0]];
        assert!(Command::new("ip").args(route).status().expect("iproute2").success());
        for (peer, pacing, code, expected) in [
            ("127.0.0.1/32", "gap", 2, "lo is no Ethernet device"),
            ("203.0.113.1/32", "gap", 1, "no route to 203.0.113.1/32"),
            (&origin, "edt", 3, "fq"),
            ("198.51.100.0/24", "edt", 2, "by wan0, too, and other hops want gap there"),
            ("10.0.0.0/8", "edt", 2, "lies within \"10.0.0.0/8\""),
            (&origin, "gaps", 2, "did you mean \"gap\"?"),
        ] {
            // The valid rule next to it is not added either.
            file.write(&[(&client, "gap"), (peer, pacing)]);
            let (ended, said) = refused(&set);
            assert!(ended == code && said.contains(expected), "{peer} {pacing}: {ended} {said}");
            assert_eq!(pins(), Vec::<PathBuf>::new(), "{peer} {pacing}");
        }
        // Departure times, if the device has fq. They do not count as gap packets.
        let fq = ["qdisc", "replace", "dev", &devices()[1], "root", "fq"];
        if Command::new("tc").args(fq).output().expect("iproute2").status.success() {
            file.write(&[(&client, "gap"), (&origin, "edt")]);
            let expected = format!("{} {client}\n{} {origin}\n", devices()[0], devices()[1]);
            assert_eq!(done(&set), expected);
            done(&["depot", "check", file.path()]);
            file.write(&[(&client, "gap"), (&origin, "gap")]);
            let (code, said) = refused(&["depot", "check", file.path()]);
            assert!(code == 3 && said.contains(&origin), "{code}: {said}");
            let (code, said) = refused(&set);
            assert!(code == 3 && said.contains("fq"), "{code}: {said}");
            done(&["depot", "pace", file.path(), "--off"]);
            let fifo = ["qdisc", "replace", "dev", &devices()[1], "root", "pfifo"];
            assert!(Command::new("tc").args(fifo).status().expect("iproute2").success());
        }
        // All of a network: by each device that leads into it.
        file.write(&[("10.0.0.0/8", "gap")]);
        let expected = devices().map(|device| format!("{device} 10.0.0.0/8\n")).concat();
        assert_eq!(done(&set), expected);
        done(&["depot", "pace", file.path(), "--off"]);
    });
    assert_eq!(pins(), Vec::<PathBuf>::new());
}

/// A pacing notice of a device does not apply to a device that replaces it, or in other network namespaces.
#[test]
fn pacing_notice_applies_to_its_device_and_namespace_only() {
    let _kernel = Kernel::without_ours();
    let _cleared = Cleared;
    let (wan, file) = (network(), File::new());
    file.write(&[(&format!("{}/32", wan.address("client").unwrap()), "gap")]);
    on(&wan, "depot", || {
        done(&["depot", "pace", file.path(), "--line", "100mbit"]);
        done(&["depot", "check", file.path()]);
    });
    let elsewhere =
        |said: (i32, String)| assert!(said.0 == 3 && said.1.contains("gap"), "{}", said.1);
    on(&wan, "client", || elsewhere(refused(&["depot", "check", file.path()])));
    on(&wan, "depot", || {
        let [device, _] = devices();
        let rename = |from: &str, to: &str| {
            for arguments in [
                &["link", "set", from, "down"][..],
                &["link", "set", from, "name", to],
                &["link", "set", to, "up"],
            ] {
                assert!(Command::new("ip").args(arguments).status().expect("iproute2").success());
            }
        };
        rename(&device, "other0");
        elsewhere(refused(&["depot", "check", file.path()]));
        rename("other0", &device);
        done(&["depot", "check", file.path()]);
        done(&["pace", "del", &device]);
        elsewhere(refused(&["depot", "check", file.path()]));
        assert!(call(&["pace", "show"]).status.success());
    });
}
