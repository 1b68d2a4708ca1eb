// SPDX-License-Identifier: GPL-2.0-or-later
//! Machines and users that lack something.

use crate::common::{as_nobody, clang, is_once_more, once_more};
use congestion::Algorithm;
use longhaul_kernel::{
    Error, Support,
    cc::{self, Options},
};
use std::{fs, path::Path};
use testkit::with_kernel_names;

#[test]
fn this_machine_lacks_nothing() {
    Support::probe().expect("the tests need what the program needs");
}

#[test]
fn without_root_it_says_so() {
    let reno = Algorithm::find("reno").expect("there is Reno");
    let error =
        as_nobody(|| cc::load(reno.default_set(), &Options::default())).expect_err("not root");
    assert!(matches!(error, Error::NotRoot) && error.is_lack(), "{error}");
    assert!(error.to_string().contains("sudo"));
    let error = as_nobody(|| cc::unload(reno)).expect_err("not root");
    assert!(matches!(error, Error::NotRoot), "{error}");
    let error = as_nobody(cc::list).expect_err("not root");
    assert!(matches!(error, Error::NotRoot), "{error}");
    let error = as_nobody(|| cc::provider(reno)).expect_err("not root");
    assert!(matches!(error, Error::NotRoot), "{error}");
}

/// The test starts itself once more, as root of a user namespace: it has all capabilities, but not
/// of the machine, and the kernel's answer is that of lockdown.
#[test]
fn refused_root_gets_possible_causes() {
    if is_once_more() {
        let reno = Algorithm::find("reno").expect("there is Reno");
        let error =
            cc::load(reno.default_set(), &Options::default()).expect_err("not the machine's");
        assert!(matches!(error, Error::Forbidden) && error.is_lack(), "{error:?}");
        assert!(error.to_string().contains("lockdown"), "{error}");
        return;
    }
    // What another test has loaded would be found, and nothing refused.
    let _turn = with_kernel_names();
    let test = "lacking::refused_root_gets_possible_causes";
    let status = once_more(&["unshare", "--user", "--map-root-user"], test).status();
    assert!(status.expect("unshare, of util-linux").success());
}

#[test]
fn missing_btf_error_names_the_kernel_option() {
    let error = Support::of_btf(Path::new("/nowhere/vmlinux")).expect_err("there is none");
    assert!(matches!(error, Error::NoBtf { .. }) && error.is_lack(), "{error}");
    assert!(error.to_string().contains("CONFIG_DEBUG_INFO_BTF"), "{error}");
}

#[test]
fn without_struct_ops_it_names_what_it_needs() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let (source, object) = (folder.path().join("none.c"), folder.path().join("none.o"));
    fs::write(&source, "struct none { int none; } none;").expect("a writable folder");
    let compiled = clang().args(["-g", "-c"]).arg(&source).arg("-o").arg(&object).status();
    assert!(compiled.expect("clang").success());
    let error = Support::of_btf(&object).expect_err("the object is not a kernel");
    assert!(matches!(error, Error::NoStructOps) && error.is_lack(), "{error}");
}
