// SPDX-License-Identifier: GPL-2.0-or-later
//! Programs of the kernel's for users without rights, on kernels that don't describe their types, and
//! built without clang: what is missing is named, and how to get it.

use crate::{
    common::{Kernel, call, longhaul, scenario, text},
    overlay::Overlay,
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output},
};

/// The binary where anybody may run it.
struct ForAll {
    _folder: tempfile::TempDir,
    binary: PathBuf,
}

impl ForAll {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let binary = folder.path().join("longhaul");
        fs::copy(longhaul().get_program(), &binary).unwrap();
        Self { _folder: folder, binary }
    }

    fn as_nobody(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(&self.binary).args(arguments).output().expect("setpriv, of util-linux")
    }
}

/// Where the kernel's description of its types should be, there is nothing.
fn without_btf(arguments: &[&str]) -> Output {
    let script = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(longhaul().get_program());
    command.args(arguments).output().expect("unshare, of util-linux")
}

/// Asserts that a command was not done because something is lacking, and said so.
fn lacks(output: &Output, expected: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(expected), "{expected} is missing: {said}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

const IN_THE_KERNEL: [&[&str]; 8] = [
    &["cc", "list"],
    &["cc", "list", "--json"],
    &["cc", "load", "bic"],
    &["cc", "unload", "bic"],
    &["monitor", "lo", "--duration", "1s"],
    &["pace", "add", "lo", "--auto"],
    &["pace", "show"],
    &["pace", "del", "lo"],
];

#[test]
fn commands_that_need_root_say_so_and_others_work() {
    let for_all = ForAll::new();
    for arguments in IN_THE_KERNEL {
        lacks(&for_all.as_nobody(arguments), "use sudo");
    }
    for arguments in
        [&["cc", "show", "bic"][..], &["cc", "show", "bic", "--json"], &["cc", "plot", "bic"]]
    {
        let output = for_all.as_nobody(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(output.stdout, call(arguments).stdout, "{arguments:?}");
    }
}

#[test]
fn without_type_information_the_kernel_option_is_named() {
    let _kernel = Kernel::without_ours();
    for arguments in IN_THE_KERNEL {
        lacks(&without_btf(arguments), "CONFIG_DEBUG_INFO_BTF");
    }
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    let run = ["lab", "run", &scenario("demo.toml"), "--variant", "direct", "--repeat", "1"];
    let options = ["--set", "flow.transfer.cc=lh_bic", "--out", out.to_str().unwrap()];
    let output = without_btf(&[&run[..], &options].concat());
    lacks(&output, "CONFIG_DEBUG_INFO_BTF");
    let records = record::find_records(&out).unwrap();
    assert!(records.is_empty(), "no record of what did not take place: {records:?}");
}

#[test]
fn without_clang_the_build_says_how_to_get_it() {
    let output = Overlay::new().run("CLANG=/nonexistent/clang cargo build --workspace --locked");
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for part in ["/nonexistent/clang", "clang 14 or newer", "apt-get install clang", "CLANG="] {
        assert!(said.contains(part), "{part} is missing:\n{said}");
    }
}
