// SPDX-License-Identifier: GPL-2.0-or-later
//! The library as programs in C use it: installed, found by pkg-config, compiled with all warnings.

mod examples;
mod installed;
mod kept;
mod meetings;

use host::Lack;
use std::{
    ffi::OsStr,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

/// Where the crate is.
const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a program, which has to be there and to succeed.
fn run(command: &mut Command, package: &str) -> Output {
    let output = command.output().unwrap_or_else(|error| {
        let program = command.get_program().to_string_lossy();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{program}: {error}");
        panic!("{}", Lack::program(&program, package))
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Where cargo has put the libraries.
fn build() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// The directory into which the library is installed, once for all tests of this process.
fn prefix() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| {
        // It has always the same name, so that no second one of its size is left behind.
        let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("session-c");
        let _ = fs::remove_dir_all(&tree);
        install(&tree, None);
        tree
    })
}

fn install(prefix: &Path, destination: Option<&Path>) {
    let script = Path::new(CRATE).join("../../../scripts/install-lib");
    let mut install = Command::new(script);
    install.arg(build()).arg(prefix);
    if let Some(destination) = destination {
        install.env("DESTDIR", destination);
    }
    run(&mut install, "coreutils");
}

/// What pkg-config says of the library.
fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("longhaul");
    let found = run(command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")), "pkg-config");
    let found = String::from_utf8(found.stdout).unwrap();
    found.split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program.
fn compile(source: &Path) -> PathBuf {
    let program = prefix().join(source.file_stem().unwrap_or(OsStr::new("program")));
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic"]);
    compiler.arg("-o").arg(&program).arg(source).args(pkg_config(&["--cflags", "--libs"]));
    run(&mut compiler, "gcc libc6-dev");
    program
}

/// One of the examples.
fn example(name: &str) -> PathBuf {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let program = prefix().join(name);
    if program.exists() {
        return program;
    }
    compile(&Path::new(CRATE).join(format!("examples-c/{name}.c")))
}

/// The checks of `checks.c`.
fn checks() -> &'static Path {
    static CHECKS: OnceLock<PathBuf> = OnceLock::new();
    CHECKS.get_or_init(|| compile(&Path::new(CRATE).join("tests/session-c/checks.c")))
}

/// A command with the installed library.
fn with_library(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", prefix().join("lib"));
    command
}
