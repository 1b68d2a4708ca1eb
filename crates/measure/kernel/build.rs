// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the programs of `src/bpf`, the adapters once for each algorithm of `cc/`, for the kernel's
//! virtual machine, and embeds the objects. It takes clang; libbpf's headers are those of libbpf-sys.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, exit},
};

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let house = Path::new(&here).join("../../..");
    println!("cargo::rerun-if-changed={}", house.join("cc").display());
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-env-changed=CLANG");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let listed = fs::read_to_string(house.join("cc/algorithms.h")).expect("cc/algorithms.h");
    let mut table = String::from("pub static OBJECTS: &[(&str, &[u8])] = &[\n");
    for line in listed.lines().filter(|line| line.starts_with("CC_")) {
        let (adapter, name) = entry(line);
        let define = format!("-DALGORITHM={name}");
        let header = format!("{name}.h");
        compile(&house, &format!("{adapter}.bpf.c"), &["-include", &header, &define], name, &out);
        table += &embedded(name);
    }
    for name in ["empty", "monitor", "pace", "sockets"] {
        compile(&house, &format!("{name}.bpf.c"), &[], name, &out);
        table += &embedded(name);
    }
    fs::write(out.join("objects.rs"), table + "];\n").expect("OUT_DIR is writable");
}

/// The adapter and the name of an algorithm.
fn entry(line: &str) -> (&str, &str) {
    let parsed = line.strip_suffix(')').and_then(|line| line.split_once('('));
    match parsed {
        Some(("CC_WINDOW", name)) => ("window", name),
        Some(("CC_RATE", name)) => ("rate", name),
        _ => panic!("cc/algorithms.h: \"{line}\" is not CC_WINDOW(name) or CC_RATE(name)"),
    }
}

fn embedded(name: &str) -> String {
    format!(
        "    (\"{name}\", &Aligned(*include_bytes!(concat!(env!(\"OUT_DIR\"), \
         \"/{name}.bpf.o\"))).0),\n"
    )
}

fn compile(house: &Path, source: &str, more: &[&str], name: &str, out: &Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    // Paths relative to the repository: they end up in the objects.
    let done = Command::new(&clang)
        .current_dir(house)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-fdebug-compilation-dir=."])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .args(["-Icc", "-isystem", &headers])
        .args(more)
        .args(["-c", &format!("crates/measure/kernel/src/bpf/{source}"), "-o"])
        .arg(out.join(format!("{name}.bpf.o")))
        .status();
    match done {
        Ok(status) if status.success() => {}
        Ok(status) => give_up(&format!("{clang} could not compile {source} for {name}: {status}")),
        Err(error) => give_up(&format!(
            "{clang}: {error}\n\
             longhaul's kernel programs are compiled by clang 14 or newer. Install it (Debian, \
             Ubuntu: apt-get install clang; Fedora: dnf install clang) or name another one: \
             CLANG=/path/to/clang cargo build"
        )),
    }
}

fn give_up(why: &str) -> ! {
    for line in why.lines() {
        println!("cargo::error={line}");
    }
    exit(1);
}
