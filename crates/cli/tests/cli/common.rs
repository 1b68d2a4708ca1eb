// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests of the command line share: calling it, and looking at what it leaves behind.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use testkit::draft::Draft;

pub use testkit::{Turn, alone, one_of_two, refusing_address, with_kernel_names};

/// Held by a test that loads congestion controls, whose names are the machine's: none of longhaul's
/// is there before, nor anything of them after.
pub struct Kernel {
    _turn: Turn,
}

impl Kernel {
    pub fn without_ours() -> Self {
        let turn = with_kernel_names();
        assert_eq!(ours(), Vec::<String>::new(), "loaded already; unload them first");
        Self { _turn: turn }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let output = call(&["cc", "unload", "all"]);
        if std::thread::panicking() {
            return;
        }
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(ours(), Vec::<String>::new());
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("a mounted /proc");
        assert!(!mounts.contains("longhaul"), "{mounts}");
        for folder in ["/run/longhaul/bpf", "/sys/fs/bpf/longhaul"] {
            assert!(!Path::new(folder).exists(), "{folder} is left");
        }
    }
}

/// The names in the kernel that longhaul gives.
pub fn ours() -> Vec<String> {
    let names = setting("tcp_available_congestion_control").into_iter();
    let mut ours: Vec<_> = names.filter(|name| name.starts_with("lh_")).collect();
    ours.sort_unstable();
    ours
}

/// The words of one of TCP's settings.
pub fn setting(name: &str) -> Vec<String> {
    let path = Path::new("/proc/sys/net/ipv4").join(name);
    let text = std::fs::read_to_string(path).expect("a mounted /proc");
    text.split_whitespace().map(str::to_owned).collect()
}

/// The command, to be given its arguments.
pub fn longhaul() -> Command {
    Command::new(env!("CARGO_BIN_EXE_longhaul"))
}

/// What a command line ends with.
pub fn call(arguments: &[&str]) -> Output {
    longhaul().args(arguments).output().expect("the binary that cargo built")
}

/// What a command prints that does what it is told.
pub fn done(arguments: &[&str]) -> String {
    let output = call(arguments);
    let err = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{err}", output.status);
    text(&output.stdout)
}

/// The one JSON document that a command prints which measures: on a busy machine it may end with
/// exit code 1, because a run did not count. What it measured is there all the same.
pub fn measured(arguments: &[&str]) -> Value {
    let output = call(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let busy =
        output.status.code() == Some(1) && err.contains("is valid on this machine at present");
    assert!(output.status.success() || busy, "{arguments:?}: {}\n{err}", output.status);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// The one JSON document that a successful command prints.
pub fn json(arguments: &[&str]) -> Value {
    let out = done(arguments);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// Its exit code and what it said on standard error.
pub fn refused(arguments: &[&str]) -> (i32, String) {
    let output = call(arguments);
    assert!(output.stdout.is_empty(), "an error printed results: {}", text(&output.stdout));
    (output.status.code().expect("no signal"), text(&output.stderr))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A scenario of the repository.
pub fn scenario(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    path.to_str().expect("a plain path").to_owned()
}

/// A scenario of the test's own: two nodes, one link.
pub fn two_nodes(folder: &Path) -> PathBuf {
    let path = folder.join("two.toml");
    let text = Draft::new("two", "").nodes(&["a", "b"]).link("a", "b", "rate=100mbit delay=5ms");
    std::fs::write(&path, text.to_string()).expect("a writable folder");
    path
}

/// Network namespaces of others, held open: the kernel would give their numbers again.
pub struct NetworkNamespaces(BTreeMap<PathBuf, File>);

impl NetworkNamespaces {
    /// Those of the processes whose command lines mention `what`: that they are in, or have open. Not the caller's.
    pub fn of_processes_with(what: &str) -> Self {
        let own = std::fs::read_link("/proc/self/ns/net").expect("a mounted /proc");
        let held = processes_with(what).into_keys().flat_map(network_namespaces);
        let others = held.filter(|(name, _)| *name != own);
        Self(others.filter_map(|(name, path)| Some((name, File::open(path).ok()?))).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a process other than this one still holds one.
    pub fn are_in_use(&self) -> bool {
        others().flat_map(network_namespaces).any(|(name, _)| self.0.contains_key(&name))
    }
}

/// The names of those that a process is in or has open, and where to open them.
fn network_namespaces(pid: u32) -> Vec<(PathBuf, PathBuf)> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let open = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let paths = open.map(|fd| fd.path()).chain([process.join("ns/net")]);
    let named = paths.filter_map(|path| Some((std::fs::read_link(&path).ok()?, path)));
    named.filter(|(name, _)| name.to_string_lossy().starts_with("net:[")).collect()
}

/// The processes of the machine without this one.
fn others() -> impl Iterator<Item = u32> {
    let processes = std::fs::read_dir("/proc").expect("a mounted /proc").flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id())
}

/// The command lines of other processes that mention `what`.
pub fn processes_with(what: &str) -> BTreeMap<u32, String> {
    let line = |pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((pid, text(&line).replace('\0', " ")))
    };
    others().filter_map(line).filter(|(_, line)| line.contains(what)).collect()
}
