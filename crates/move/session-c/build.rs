// SPDX-License-Identifier: GPL-2.0-or-later
//! Names the shared object as `scripts/install-lib` installs it. Programs load it by this name.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblonghaul.so.1");
}
