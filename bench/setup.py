# SPDX-License-Identifier: GPL-2.0-or-later
"""What every bench needs of the machine: programs, root, and a build of longhaul.

LONGHAUL_BENCH_PROFILE names the Cargo profile of the build: `release` to measure; `dev` for bench/smoke, which only shows
that benches run.
"""
import contextlib
import os
import shutil
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PROFILE = os.environ.get("LONGHAUL_BENCH_PROFILE", "release")
BUILT = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "debug" if PROFILE == "dev" else PROFILE)
LONGHAUL = os.path.join(BUILT, "longhaul")


def fail(text, status=1):
    print(f"{os.path.relpath(sys.argv[0], ROOT)}: {text}", file=sys.stderr)
    sys.exit(status)


@contextlib.contextmanager
def sshd_directory():
    """What sshd starts in: services of an installed system make it."""
    path = "/run/sshd"
    is_there = os.path.isdir(path)
    os.makedirs(path, exist_ok=True)
    try:
        yield
    finally:
        if not is_there:
            os.rmdir(path)


def example(name):
    """The path of an example of a crate."""
    return os.path.join(BUILT, "examples", name)


def need(*programs, root=False):
    """Ends with status 3 if anything is missing, and names all of it. A name that begins with / is a file."""
    missing = [name for name in programs if not (os.path.exists(name) if name.startswith("/") else shutil.which(name))]
    if missing:
        fail(f"{', '.join(missing)} not installed. Install what benches need: make deps-bench", 3)
    if root and os.geteuid() != 0:
        fail("needs root, for network namespaces", 3)


def build(library=None, **examples):
    """Builds longhaul, the library of a crate, and examples by crate: `build(protocol="hash_groups")`.

    In the dev profile as the tests build it, with the features of the whole workspace: so nothing is built twice.
    """
    crates = ["cli", *([library] if library else []), *examples]
    scope = ["--workspace", "--examples"] if PROFILE == "dev" else [f"--package=longhaul-{name}" for name in crates]
    command = ["cargo", "build", "--locked", "--profile", PROFILE, *scope, "--bin=longhaul", *(["--lib"] if library else []),
               *(f"--example={name}" for name in examples.values())]
    if subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode != 0:
        fail("the build failed")
