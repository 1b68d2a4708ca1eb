// SPDX-License-Identifier: GPL-2.0-or-later
//! The tests of the Python package, which pytest runs with what `requirements-test.txt` pins.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};
use tempfile::TempDir;

fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo puts libraries and programs.
fn built() -> PathBuf {
    let own = env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().to_owned()
}

/// The package as it is installed: Python's part and the compiled one.
fn package() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("longhaul");
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(sources().join("longhaul")).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    // Here is a library that Cargo makes only because tests need it.
    fs::copy(built().join("deps/lib_longhaul.so"), to.join("_longhaul.abi3.so")).unwrap();
    folder
}

fn checked(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// What the tests use besides the package, installed once in this process.
static REQUIREMENTS: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let mut install = Command::new("pip3");
    install.args(["install", "--quiet", "--disable-pip-version-check", "--no-compile", "--target"]);
    install.arg(folder.path()).arg("--requirement").arg(sources().join("requirements-test.txt"));
    checked(install);
    folder
});

/// Runs these files of tests.
fn pytest(files: &[&str]) {
    let package = package();
    let path = env::join_paths([package.path(), REQUIREMENTS.path()]).unwrap();
    // A test that hangs shall be a test that fails.
    let mut tests = Command::new("timeout");
    tests.args([
        "--kill-after=5",
        "400",
        "python3",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-W",
        "error",
    ]);
    tests.args(files.iter().map(|file| sources().join("tests").join(file)));
    tests.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("LONGHAUL", built().join("longhaul")).env("LONGHAUL_SOURCES", sources().join(".."));
    tests.current_dir(package.path());
    let output = checked(tests);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("skipped"), "{text}");
}

#[test]
fn scenarios_records_and_captures() {
    pytest(&["test_scenario.py", "test_records.py", "test_capture.py", "test_guide.py"]);
}

#[test]
fn runs_in_this_process() {
    pytest(&["test_running.py", "test_control.py"]);
}

#[test]
fn runs_in_other_processes() {
    pytest(&["test_elsewhere.py"]);
}

#[test]
fn runs_on_dask() {
    pytest(&["test_dask.py"]);
}

#[test]
fn types_are_complete() {
    pytest(&["test_types.py"]);
}
