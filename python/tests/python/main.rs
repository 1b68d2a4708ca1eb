// SPDX-License-Identifier: GPL-2.0-or-later
//! The tests of the Python package, which pytest runs with what `requirements-test.txt` pins.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};
use tempfile::TempDir;
use testkit::with_kernel_names;

fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo puts libraries and programs.
fn built() -> PathBuf {
    let own = env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().to_owned()
}

/// The compiled part. Here is a library that Cargo makes only because tests need it.
fn library() -> PathBuf {
    built().join("deps/lib_longhaul.so")
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
    fs::copy(library(), to.join("_longhaul.abi3.so")).unwrap();
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
    let requirements = sources().join("requirements-test.txt");
    install(folder.path(), |pip| pip.arg("--requirement").arg(requirements));
    folder
});

/// Has pip install something into a directory.
fn install(into: &Path, what: impl FnOnce(&mut Command) -> &mut Command) {
    let mut pip = Command::new("pip3");
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-compile", "--target"]);
    what(pip.arg(into));
    checked(pip);
}

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
        // Dask leaves some to Python's collector, which closes them.
        "-W",
        "ignore:unclosed <socket.socket:ResourceWarning",
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
fn files_through_depots() {
    pytest(&["test_files.py"]);
}

#[test]
fn runs_of_the_command() {
    let _turn = with_kernel_names();
    pytest(&["test_command.py"]);
}

#[test]
fn runs_on_slurm() {
    pytest(&["test_slurm.py"]);
}

#[test]
fn notebooks_and_what_they_show() {
    // One of them puts a congestion control into the kernel.
    let _turn = with_kernel_names();
    pytest(&["test_notebooks.py", "test_player.py"]);
}

/// Systems have this C library or a later one: from Ubuntu 22.04, Debian 12, RHEL 9 and Fedora 35 on.
const OLDEST: (u32, u32) = (2, 34);

#[test]
fn wheel_has_its_tag_and_works_once_it_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let mut make = Command::new(sources().join("../scripts/wheel"));
    make.arg("--as-tested").arg(folder.path());
    let said = String::from_utf8(checked(make).stdout).unwrap();
    let wheel = Path::new(said.trim());
    let name = wheel.file_name().unwrap().to_str().unwrap();
    let tag = name.strip_suffix("_x86_64.whl").and_then(|name| name.rsplit_once("-manylinux_"));
    let (before, library) = tag.unwrap_or_else(|| panic!("{name}"));
    assert!(before.ends_with("-cp310-abi3"), "{name}");
    let (major, minor) = library.split_once('_').unwrap();
    let library = (major.parse().unwrap(), minor.parse().unwrap());
    assert!(library <= OLDEST, "{name} needs a later C library than {OLDEST:?}");
    let site = folder.path().join("site");
    install(&site, |pip| pip.arg("--no-deps").arg(wheel));
    let path = env::join_paths([&*site, REQUIREMENTS.path()]).unwrap();
    let mut used = Command::new("python3");
    used.args(["-c", USED]).env("PYTHONPATH", path).current_dir(folder.path());
    checked(used);
}

/// The installed package: compiled part, widget's file, types, and the file system that fsspec finds by its entry point.
const USED: &str = r#"
import importlib.metadata, pathlib
import fsspec, longhaul, longhaul.player
scenario = longhaul.Scenario({"title": "installed", "duration": "1s", "node": [{"name": "a"}, {"name": "b"}],
    "link": [{"between": ["a", "b"], "rate": "1mbit", "delay": "1ms"}], "flow": [{"from": "a", "to": "b"}]})
assert len(scenario.simulate(progress=False)) == 1
package = pathlib.Path(longhaul.__file__).parent
assert (package / "py.typed").exists() and (package / "player.js").exists() and (package / "_longhaul.pyi").exists()
assert importlib.metadata.version("longhaul") == longhaul.__version__
for protocol in ("longhaul+https", "longhaul+http", "longhaulhttps", "longhaulhttp"):
    assert fsspec.get_filesystem_class(protocol).__name__ == "LonghaulFileSystem"
"#;

#[test]
fn types_are_complete() {
    pytest(&["test_types.py"]);
}

/// The library has a description of itself, which the stub is made of. `LONGHAUL_BLESS=1` writes it.
#[test]
fn stub_is_that_of_the_compiled_part() {
    const COMMAND: &str = "LONGHAUL_BLESS=1 cargo test -p longhaul-python stub_is";
    let module = pyo3_introspection::introspect_cdylib(library(), "_longhaul").unwrap();
    let files = pyo3_introspection::module_stub_files(&module);
    let stub = &files[Path::new("__init__.pyi")];
    let text =
        format!("# SPDX-License-Identifier: GPL-2.0-or-later\n# Generated: {COMMAND}\n{stub}");
    let file = sources().join("longhaul/_longhaul.pyi");
    if env::var_os("LONGHAUL_BLESS").is_some() {
        return fs::write(file, text).unwrap();
    }
    assert!(fs::read_to_string(file).unwrap() == text, "it is stale: {COMMAND}");
}
