// SPDX-License-Identifier: GPL-2.0-or-later
//! A network namespace with a tuned host in it: a veth pair `v0`, `v1` whose second end is nobody's, and a default route.

use crate::tuned;
use host::{Namespace, iproute, sysctl};
use longhaul_doctor::{
    Target,
    facts::{Facts, Host},
};
use std::io;

/// What each test is for.
pub fn target() -> Target {
    "1gbit@90ms".parse().unwrap()
}

/// Runs a test in a namespace of its own with a tuned host.
pub fn tuned<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    let namespace = Namespace::new().expect("root");
    let ran = namespace.run(|| {
        // An address of IPv6 comes late, and brings routes.
        sysctl::write("net.ipv6.conf.all.disable_ipv6", "1")?;
        // Those that this kernel does not have are left out.
        for (key, value) in tuned::OF_NAMESPACE {
            if sysctl::read(key).is_ok() {
                sysctl::write(key, value).unwrap_or_else(|error| panic!("{key}: {error}"));
            }
        }
        ip("link add v0 type veth peer name v1");
        ip("address add 10.9.0.1/24 dev v0");
        ip("link set lo up");
        ip("link set v0 up");
        ip("link set v1 up");
        ip("route add default via 10.9.0.2 dev v0");
        Ok(test())
    });
    ran.expect("a thread in the namespace")
}

/// Runs `ip` with these words.
pub fn ip(words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    iproute::ip(&words).unwrap_or_else(|error| panic!("{error}"));
}

/// Runs `tc` with these words.
pub fn tc(words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    iproute::tc(&words).unwrap_or_else(|error| panic!("{error}"));
}

/// Gives a setting of this namespace a value.
pub fn set(key: &str, value: &str) {
    let written: io::Result<()> = sysctl::write(key, value);
    written.unwrap_or_else(|error| panic!("{key}: {error}"));
}

/// The facts of the calling thread's namespace.
pub fn facts() -> Facts {
    Facts { host: Host::gather(None), ..Facts::default() }
}
