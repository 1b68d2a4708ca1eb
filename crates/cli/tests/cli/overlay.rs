// SPDX-License-Identifier: GPL-2.0-or-later
//! The repository as tests may change and build it.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// The repository where nobody else sees what a test changes: an overlay over it, in a mount namespace of its own. All has
/// the same path and age there, so cargo builds only what was changed.
pub(crate) struct Overlay {
    /// Holds the namespace until this test ends or dies: it ends with its input.
    holder: Child,
    repository: PathBuf,
}

impl Overlay {
    /// Layers are kept in memory, as an overlay's may not be on another overlay. The release build is the one that tests have.
    const MOUNT: &str = "mount -t tmpfs layers $1
        mkdir $1/changed $1/work
        mount -t overlay -o lowerdir=$0,upperdir=$1/changed,workdir=$1/work overlay $0
        mkdir -p $0/target/debug $0/target/release
        mount --bind $0/target/debug $0/target/release
        echo mounted
        exec cat >&2";

    pub(crate) fn new() -> Self {
        let repository =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-euc", Self::MOUNT]);
        command.args([&repository, Path::new(env!("CARGO_TARGET_TMPDIR"))]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().expect("unshare, of util-linux");
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "mounted\n");
        Self { holder, repository }
    }

    /// Where a file is found from outside.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.repository.strip_prefix("/").unwrap()).join(path)
    }

    /// A command line, from the repository's root.
    pub(crate) fn run(&self, line: &str) -> Output {
        // The compiler takes what tests leave that run in real time.
        let shell = if line.contains("cargo ") { "chrt --idle 0 sh" } else { "sh" };
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id())).args(shell.split(' '));
        command.args(["-euc", &format!("cd \"$0\"; {line}")]).arg(&self.repository);
        // Only what is built below the repository is seen.
        command.env_remove("CARGO_TARGET_DIR").env_remove("RUSTC_BOOTSTRAP");
        command.output().unwrap()
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
