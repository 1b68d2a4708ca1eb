// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul send --detach`: a depot keeps what is sent until receivers collect it.

use crate::{
    chain::kill,
    common::{longhaul, text},
    depot::Depot,
    send::{content, report},
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

pub const OPEN: [&str; 5] =
    ["--allow-client", "127.0.0.0/8", "--allow-upstream", "127.0.0.1:*", "--allow-local"];

/// A depot that keeps sessions, and directories of a sender and a receiver.
pub struct Post {
    pub root: tempfile::TempDir,
    pub depot: Depot,
}

/// What a sender has printed.
pub struct Left {
    pub code: String,
    pub report: Value,
}

impl Post {
    pub fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["here", "there"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let config = root.path().join("depot.toml");
        let store = root.path().join("store").to_str().unwrap().to_owned();
        let text = format!("[store]\npath = {store:?}\nsize = \"200MB\"\nkept_free = \"1MB\"\n");
        fs::write(&config, text).unwrap();
        let depot = Depot::start(&[&["--config", config.to_str().unwrap()][..], &OPEN].concat());
        Self { root, depot }
    }

    pub fn here(&self) -> PathBuf {
        self.root.path().join("here")
    }

    pub fn there(&self) -> PathBuf {
        self.root.path().join("there")
    }

    pub fn key(&self) -> PathBuf {
        self.root.path().join("keys/owner.key")
    }

    pub fn sender(&self, arguments: &[&str]) -> Command {
        let mut command = command(&["send", "--detach", "--json"], &self.depot.listen);
        command.arg("--owner-key").arg(self.key()).args(arguments).current_dir(self.here());
        command
    }

    pub fn leave(&self, arguments: &[&str]) -> Left {
        left(&self.sender(arguments).output().unwrap())
    }

    /// A receiver, which puts what it gets into its directory.
    pub fn collector(&self, code: &str, arguments: &[&str]) -> Command {
        let mut command = command(&["recv", code], &self.depot.listen);
        command.args((!arguments.contains(&"-")).then_some("--json"));
        command.args(arguments).current_dir(self.there());
        command
    }

    pub fn collect(&self, code: &str, arguments: &[&str]) -> Value {
        report(&self.collector(code, arguments).output().unwrap())
    }

    /// A command of the owner.
    pub fn owner(&self, words: &[&str], arguments: &[&str]) -> Output {
        let mut command = command(&[&["session"], words].concat(), &self.depot.listen);
        command.arg("--owner-key").arg(self.key()).args(arguments).output().unwrap()
    }

    pub fn list(&self) -> Vec<Value> {
        report(&self.owner(&["list"], &["--json"]))["sessions"].as_array().unwrap().clone()
    }

    /// How much the store has, promised or not.
    pub fn stored_bytes(&self) -> u64 {
        let data = fs::read_dir(self.root.path().join("store/data")).unwrap();
        // One may go meanwhile.
        data.map(|entry| entry.unwrap().metadata().map_or(0, |file| file.len())).sum()
    }

    /// Whether any file of the store has these bytes.
    pub fn store_has(&self, bytes: &[u8]) -> bool {
        let mut left = vec![self.root.path().join("store")];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if fs::read(path).unwrap().windows(bytes.len()).any(|found| found == bytes) {
                return true;
            }
        }
        false
    }
}

/// A command with a depot.
pub fn command(words: &[&str], via: &str) -> Command {
    let mut command = longhaul();
    command.args(words).args(["--patience", "20s", "--via", via]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The code in the line that a sender prints.
fn code_in(line: &str) -> String {
    let rest = line.split_once("longhaul recv ").unwrap_or_else(|| panic!("{line}")).1;
    rest.split(' ').next().unwrap().to_owned()
}

fn left(output: &Output) -> Left {
    let said = text(&output.stderr);
    Left { report: report(output), code: code_in(said.lines().next().unwrap_or_default()) }
}

/// A sender of a pipe that has begun: its code, and where to write.
pub fn begun(command: &mut Command) -> (Child, String) {
    let mut sender = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(sender.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    (sender, code_in(&line))
}

pub fn refusal(output: &Output) -> (i32, String) {
    (output.status.code().expect("no signal"), text(&output.stderr))
}

/// Waits until it is so.
pub fn wait(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(30), "nothing happens");
        sleep(Duration::from_millis(30));
    }
}

pub fn names(directory: &Path) -> Vec<String> {
    let name = |name: &OsStr| name.to_string_lossy().into_owned();
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| name(&entry.unwrap().file_name())).collect();
    names.sort();
    names
}

#[test]
fn file_is_collected_after_its_sender_has_gone() {
    let post = Post::start();
    for length in [0, 1, 65_485, 65_486, 3_000_000] {
        let file = post.here().join("set.tar");
        fs::write(&file, content(length)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let left = post.leave(&["set.tar", "--keep", "1h"]);
        assert_eq!(
            (&left.report["bytes"], &left.report["encrypted"]),
            (&length.into(), &true.into())
        );
        let before = fs::metadata(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let received = post.collect(&left.code, &[]);
        for key in ["name", "bytes", "blake3", "encrypted", "status"] {
            assert_eq!(left.report[key], received[key], "{key}");
        }
        let arrived = post.there().join("set.tar");
        assert!(fs::read(&arrived).unwrap() == content(length), "{length} bytes");
        let after = fs::metadata(&arrived).unwrap();
        assert_eq!((before.mode(), before.mtime()), (after.mode(), after.mtime()));
        assert_eq!(names(&post.there()), ["set.tar"], "nothing else is left");
        let (code, said) = refusal(&post.collector(&left.code, &[]).output().unwrap());
        assert!(code == 1 && said.contains("--overwrite"), "{code}: {said}");
        let small = post.collector(&left.code, &["-o", "small", "--max-size", "100"]);
        if length > 100 {
            let (code, said) = refusal(&{ small }.output().unwrap());
            assert!(code == 1 && said.contains("--max-size"), "{code}: {said}");
        }
        post.collect(&left.code, &["--overwrite"]);
        fs::remove_file(&arrived).unwrap();
    }
    let key = fs::metadata(post.key()).unwrap();
    assert_eq!((key.mode() & 0o777, key.len()), (0o600, 32));
}

#[test]
fn directory_is_collected_as_it_was() {
    let post = Post::start();
    let tree = post.here().join("tree");
    fs::create_dir_all(tree.join("sub/empty")).unwrap();
    fs::write(tree.join("sub/file"), content(700_000)).unwrap();
    fs::write(tree.join("nothing"), "").unwrap();
    symlink("sub/file", tree.join("link")).unwrap();
    let left = post.leave(&["tree"]);
    post.collect(&left.code, &[]);
    let compared = Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([&tree, &post.there().join("tree")])
        .output()
        .unwrap();
    assert!(compared.status.success(), "{}", text(&compared.stdout));
    assert_eq!(names(&post.there()), ["tree"]);
    let (code, said) = refusal(&post.collector(&left.code, &["-o", "-"]).output().unwrap());
    assert!(code == 2 && said.contains("standard output"), "{code}: {said}");
}

#[test]
fn pipe_is_collected_as_a_pipe_or_file() {
    let post = Post::start();
    for length in [0, 1, 1_000_000] {
        let (mut sender, code) = begun(&mut post.sender(&["-"]));
        sender.stdin.take().unwrap().write_all(&content(length)).unwrap();
        let sent = report(&sender.wait_with_output().unwrap());
        assert_eq!(sent["bytes"], length);
        let output = post.collector(&code, &["-o", "-"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(output.stdout == content(length), "{} bytes", output.stdout.len());
        let unnamed = post.collector(&code, &[]).output().unwrap();
        assert!(text(&unnamed.stderr).contains("-o FILE"), "{}", text(&unnamed.stderr));
        let received = post.collect(&code, &["-o", "file"]);
        assert_eq!(received["blake3"], sent["blake3"]);
        assert!(fs::read(post.there().join("file")).unwrap() == content(length));
        fs::remove_file(post.there().join("file")).unwrap();
    }
}

#[test]
fn session_is_collected_by_two_at_once_while_it_arrives() {
    let post = Post::start();
    let (mut sender, code) = begun(&mut post.sender(&["-"]));
    let all = content(3_000_000);
    let mut pipe = sender.stdin.take().unwrap();
    pipe.write_all(&all[..1_000_000]).unwrap();
    pipe.flush().unwrap();
    let mut collectors = [(); 2].map(|()| {
        wait(|| post.list().iter().any(|kept| kept["bytes"].as_u64() > Some(900_000)));
        post.collector(&code, &["-o", "-"]).spawn().unwrap()
    });
    let mut begun = [vec![0; 800_000], vec![0; 800_000]];
    for (collector, begun) in collectors.iter_mut().zip(&mut begun) {
        collector.stdout.as_mut().unwrap().read_exact(begun).unwrap();
        assert!(*begun == all[..800_000], "it has come before its end was sent");
    }
    assert_eq!(post.list()[0]["complete"], false);
    pipe.write_all(&all[1_000_000..]).unwrap();
    drop(pipe);
    report(&sender.wait_with_output().unwrap());
    for (collector, begun) in collectors.into_iter().zip(begun) {
        let output = collector.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!([begun, output.stdout].concat() == all);
    }
    assert_eq!(post.list()[0]["complete"], true);
}

#[test]
fn sender_that_is_killed_leaves_nothing_that_looks_complete() {
    let post = Post::start();
    let (mut sender, code) = begun(&mut post.sender(&["-", "--name", "pipe"]));
    let mut pipe = sender.stdin.take().unwrap();
    pipe.write_all(&content(2_000_000)).unwrap();
    wait(|| post.list().iter().any(|kept| kept["bytes"].as_u64() > Some(0)));
    sender.kill().unwrap();
    sender.wait().unwrap();
    assert!(post.list().iter().all(|kept| kept["complete"] == false));
    let mut collector = post.collector(&code, &[]).spawn().unwrap();
    sleep(Duration::from_millis(1500));
    assert!(!post.there().join("pipe").exists(), "it has no end");
    collector.kill().unwrap();
    collector.wait().unwrap();
    // One that is stopped takes back what is there.
    let (mut sender, _) = begun(&mut post.sender(&["-"]));
    let mut pipe = sender.stdin.take().unwrap();
    pipe.write_all(&content(100_000)).unwrap();
    wait(|| post.list().len() == 2);
    kill("TERM", sender.id());
    let (code, said) = refusal(&sender.wait_with_output().unwrap());
    assert!(code == 143 && said.contains("nothing is kept"), "{code}: {said}");
    wait(|| post.list().len() == 1);
}

#[test]
fn wrong_code_expired_and_dropped_sessions_are_refused_alike() {
    let post = Post::start();
    fs::write(post.here().join("set"), "short").unwrap();
    let kept = post.leave(&["set"]);
    let wrong = format!("{}{}", &kept.code[..23], if kept.code.ends_with('0') { "1" } else { "0" });
    let refused = |code: &str| refusal(&post.collector(code, &[]).output().unwrap());
    let (code, expected) = refused(&wrong);
    assert!(code == 1 && expected.contains("no such session"), "{code}: {expected}");
    assert!(expected.contains("has expired or was dropped"), "{expected}");
    let expired = post.leave(&["set", "--keep", "1s"]);
    sleep(Duration::from_millis(2100));
    let (code, said) = refused(&expired.code);
    assert!(code == 1 && said.contains("expired"), "{code}: {said}");
    let session = kept.report["session"].as_str().unwrap();
    let dropped = text(&post.owner(&["drop", session], &[]).stdout);
    assert_eq!(dropped, format!("{session}: removed\n"));
    assert_eq!(refused(&kept.code), (1, expected));
    assert_eq!(names(&post.there()), [""; 0]);
    let again = post.owner(&["drop", session], &[]);
    assert!(text(&again.stderr).contains("no such session"), "{}", text(&again.stderr));
}

#[test]
fn owner_lists_and_extends_what_was_left() {
    let post = Post::start();
    let none = post.owner(&["list"], &[]);
    let (code, said) = refusal(&none);
    assert!(code == 2 && said.contains("no owner's key"), "{code}: {said}");
    fs::write(post.here().join("set"), content(100_000)).unwrap();
    let left = post.leave(&["set", "--keep", "1h"]);
    let session = left.report["session"].as_str().unwrap();
    let [kept] = &post.list()[..] else { panic!("one session") };
    assert_eq!((&kept["session"], &kept["complete"]), (&session.into(), &true.into()));
    assert!(kept["bytes"].as_u64() > Some(100_000) && kept["damage"].is_null(), "{kept}");
    let seconds = |of: &Value, key: &str| of[key].as_u64().unwrap();
    assert!(seconds(&left.report, "expires_s").abs_diff(seconds(kept, "expires_s")) <= 2);
    let life = seconds(kept, "expires_s") - seconds(kept, "created_s");
    assert!((3590..=3610).contains(&life), "{life}");
    // By its name or by its code.
    for (name, keep) in [(session, "2h"), (&left.code, "3h")] {
        let extended = report(&post.owner(&["extend", name], &["--json", "--keep", keep]));
        assert!(seconds(&extended, "expires_s") > seconds(kept, "expires_s") + 3000);
    }
    let table = text(&post.owner(&["list"], &[]).stdout);
    let line = table.lines().find(|line| line.starts_with(session));
    assert!(line.is_some_and(|line| line.contains(" complete ")), "{table}");
    let (code, said) = refusal(&post.owner(&["extend", session], &["--keep", "9999h"]));
    assert!(code == 1 && !said.is_empty(), "{code}: {said}");
    // Another key sees nothing, and can do nothing.
    let key = post.root.path().join("other.key");
    fs::write(&key, [7; 32]).unwrap();
    let mut other = command(&["session", "drop", session], &post.depot.listen);
    let open = { other.arg("--owner-key").arg(&key) }.output().unwrap();
    assert!(text(&open.stderr).contains("chmod 600"), "{}", text(&open.stderr));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let (code, said) = refusal(&other.output().unwrap());
    assert!(code == 1 && said.contains("no such session"), "{code}: {said}");
    let mut other = command(&["session", "list", "--json"], &post.depot.listen);
    let listed = report(&other.arg("--owner-key").arg(&key).output().unwrap());
    assert_eq!(listed["sessions"], Value::Array(Vec::new()));
    post.collect(&left.code, &[]);
}

#[test]
fn store_has_no_plain_bytes_unless_asked_for() {
    let post = Post::start();
    let secret = "what a depot may not know\n".repeat(20_000);
    fs::write(post.here().join("hidden-name.txt"), &secret).unwrap();
    let left = post.leave(&["hidden-name.txt"]);
    for hidden in [&b"may not know"[..], b"hidden-name", left.code.as_bytes()] {
        assert!(!post.store_has(hidden), "{}", hidden.escape_ascii());
    }
    let session = left.report["session"].as_str().unwrap();
    let by_owner = |session: &str, more: &[&str]| {
        let mut command = command(&["recv", "--stored", session], &post.depot.listen);
        command.arg("--json").arg("--owner-key").arg(post.key()).args(more);
        command.current_dir(post.there()).output().unwrap()
    };
    let (code, said) = refusal(&by_owner(session, &[]));
    assert!(code == 2 && said.contains("its code is needed"), "{code}: {said}");

    let plain = post.leave(&["hidden-name.txt", "--no-encryption"]);
    assert!(post.store_has(b"may not know") && post.store_has(b"hidden-name"));
    assert_eq!(plain.report["encrypted"], false);
    // A code does not open what the depot could have made up, unless that is wanted.
    let (code, said) = refusal(&post.collector(&plain.code, &[]).output().unwrap());
    assert!(code == 4 && said.contains("--no-encryption"), "{code}: {said}");
    let received = post.collect(&plain.code, &["--no-encryption"]);
    assert_eq!(
        (&received["encrypted"], &received["blake3"]),
        (&false.into(), &plain.report["blake3"])
    );
    let received = report(&by_owner(plain.report["session"].as_str().unwrap(), &["--overwrite"]));
    assert_eq!(received["blake3"], plain.report["blake3"]);
    assert_eq!(fs::read_to_string(post.there().join("hidden-name.txt")).unwrap(), secret);
}

#[test]
fn session_is_left_and_collected_through_another_depot() {
    let post = Post::start();
    let near = Depot::named("near", &OPEN);
    let via = format!("{},{}", near.listen, post.depot.listen);
    fs::write(post.here().join("set"), content(1_000_000)).unwrap();
    let mut sender = command(&["send", "--detach", "--json", "set"], &via);
    sender.arg("--owner-key").arg(post.key()).current_dir(post.here());
    let left = left(&sender.output().unwrap());
    assert_eq!(left.report["hops"][0]["depot"], "near", "{}", left.report);
    let mut collector = command(&["recv", "--json", &left.code], &via);
    report(&collector.current_dir(post.there()).output().unwrap());
    assert!(fs::read(post.there().join("set")).unwrap() == content(1_000_000));
    let mut lister = command(&["session", "list", "--json"], &via);
    let listed = report(&lister.arg("--owner-key").arg(post.key()).output().unwrap());
    assert_eq!(listed["sessions"], Value::Array(post.list()));
    assert_eq!(post.list().len(), 1);
}

#[test]
fn refusals_of_a_depot_name_a_remedy() {
    let post = Post::start();
    fs::write(post.here().join("set"), "short").unwrap();
    let plain = Depot::named("plain", &OPEN);
    let began = Instant::now();
    let leave = |via: &str, more: &[&str]| {
        let mut command = command(&["send", "set", "--detach"], via);
        let key = command.arg("--owner-key").arg(post.key()).args(more);
        refusal(&key.current_dir(post.here()).output().unwrap())
    };
    let (code, said) = leave(&plain.listen, &[]);
    assert!(code == 1 && said.contains("[store]"), "{code}: {said}");
    assert!(began.elapsed() < Duration::from_secs(15), "it is not tried again");
    let far = &post.depot.listen;
    for (more, expected, why) in [
        (&["--keep", "9999h"][..], 1, "s after they begin"),
        (&["--keep", "0s"], 2, "--keep"),
        (&["--code", "k3v9-x2mq-7f4t-pd8w"], 2, "20 characters"),
        (&["--digest", "md5"], 2, "--digest"),
        (&["host:1"], 2, "HOST:PORT"),
    ] {
        let (code, said) = leave(far, more);
        assert!(code == expected && said.contains(why), "{more:?}: {code}: {said}");
    }
    // The sender of another content does not replace what is there.
    let given = ["--code", "k3v9-x2mq-7f4t-pd8w-z0y1"];
    assert_eq!(leave(far, &given).0, 0);
    fs::write(post.here().join("set"), "other").unwrap();
    let (code, said) = leave(far, &given);
    assert!(code != 0 && said.contains("--code"), "{code}: {said}");
    let usage = |arguments: &[&str]| refusal(&longhaul().args(arguments).output().unwrap());
    for arguments in [
        &["send", "set", "--detach"][..],
        &["send", "set", "--keep", "1h", "--via", far],
        &["send", "set", "--owner-key", "k", "--via", far],
        &["send", "set", "--via", far, "--code", given[1]],
        &["recv", given[1]],
        &["recv", "--stored", "00112233445566778899aabbccddeeff"],
        &["recv", "--no-encryption", "--via", far, "k3v9-x2mq-7f4t-pd8w"],
        &["session", "drop", "0011", "--via", far],
    ] {
        let (code, said) = usage(arguments);
        assert!(code == 2 && said.contains("--"), "{arguments:?}: {code}: {said}");
    }
}
