// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzz tests of everything that reads from the network: a bounded number of
//! mutations of the inputs kept in `corpus/`, the same for the same seed.
//!
//! The targets (`fuzz/targets.rs`, `fuzz/fields.rs`, `fuzz/session.rs`, `fuzz/lsl_ends.rs`, `fuzz/parcel.rs`, `fuzz/proxy.rs`) are plain functions of bytes, which `libfuzzer_sys::fuzz_target!`
//! takes as they are. `LONGHAUL_SEED` replays a run, `LONGHAUL_FUZZ_INPUTS` makes it longer. An input
//! that fails is printed; once it is in the corpus, later runs try it first.

mod delimit;
mod fields;
mod lsl_ends;
mod parcel;
mod proxy;
mod session;
mod site;
mod targets;

/// How many mutations each target gets unless told otherwise.
const INPUTS: u64 = 200_000;

macro_rules! fuzz {
    ($module:ident: $($name:ident),*) => { $(
        #[test]
        fn $name() {
            testkit::fuzz::run(stringify!($name), INPUTS, $module::$name);
        }
    )* };
}

fuzz!(fields: via, fields);
fuzz!(session: lsl_header, lsl_request);
fuzz!(lsl_ends: lsl_records, lsl_handshakes);
fuzz!(parcel: lsl_parcel);
fuzz!(proxy: proxy);
fuzz!(site: site);
fuzz!(targets: request, response, receipt, chunked, route, ticket_route, token, announcement, digest, keys, proxy_status);

/// Each input costs four multiplications on a curve.
#[test]
fn lsl_sealed() {
    testkit::fuzz::run("lsl_sealed", INPUTS / 10, lsl_ends::lsl_sealed);
}
