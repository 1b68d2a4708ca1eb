// SPDX-License-Identifier: GPL-2.0-or-later
//! Devices that are not there, or no longer; rights that are missing; and what stays behind: nothing.

use super::wire::cable;
use crate::common::{as_nobody, in_own_network, ip, is_once_more, once_more};
use longhaul_kernel::{
    Error,
    monitor::{Monitor, Options},
};
use std::{collections::BTreeSet, fs, process::Stdio, time::Duration};
use testkit::until;
use testkit::with_kernel_names;

#[test]
fn missing_device_error_lists_existing_devices() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        for name in ["middle", "", "a-name-that-no-device-can-have"] {
            let error = Monitor::attach(&Options::of(name)).expect_err("there is none");
            assert!(matches!(error, Error::NoDevice { .. }) && error.is_usage(), "{error:?}");
            let said = error.to_string();
            assert!(said.contains("left") && said.contains("right"), "{said}");
        }
    });
}

#[test]
fn bins_of_no_use_are_refused() {
    let _turn = with_kernel_names();
    for bin in ["0", "9us", "61s"] {
        let bin = bin.parse().expect("a time");
        let error = Monitor::attach(&Options { bin, ..Options::of("lo") }).expect_err("no use");
        assert!(matches!(error, Error::BinWidth { .. }) && error.is_usage(), "{error:?}");
    }
}

#[test]
fn without_root_it_says_so() {
    let _turn = with_kernel_names();
    let error = as_nobody(|| Monitor::attach(&Options::of("lo"))).expect_err("not root");
    assert!(matches!(error, Error::NotRoot) && error.is_lack(), "{error}");
    assert!(error.to_string().contains("sudo"));
}

#[test]
fn without_a_trace_there_is_none() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        let monitor = Monitor::attach(&Options::of("lo")).expect("it attaches");
        assert!(matches!(monitor.trace(drop), Err(Error::NotTraced { .. })));
    });
}

#[test]
fn removed_device_is_noticed_despite_a_new_one_of_its_name() {
    let _turn = with_kernel_names();
    in_own_network(|| {
        cable();
        let mut monitor = Monitor::attach(&Options::of("left")).expect("it attaches");
        assert!(monitor.is_device_there());
        ip(&["link", "delete", "left"]);
        assert!(!monitor.is_device_there());
        cable();
        assert!(!monitor.is_device_there(), "another of the same name");
        monitor.read().expect("what was counted is still there");
    });
}

/// The test starts itself once more, and kills that.
#[test]
fn killed_it_leaves_nothing_in_the_kernel() {
    if is_once_more() {
        let directions =
            vec![longhaul_kernel::monitor::Direction::Out, longhaul_kernel::monitor::Direction::In];
        let options = Options { directions, per_flow: true, trace: true, ..Options::of("lo") };
        let _monitor = Monitor::attach(&options).expect("it attaches");
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let _turn = with_kernel_names();
    let test = "monitor::lacking::killed_it_leaves_nothing_in_the_kernel";
    let mut child = once_more(&[], test).stdout(Stdio::null()).spawn().expect("this binary");
    let held = || programs_of(child.id());
    until("both programs to be attached", || held().len() >= 2);
    let held = held();
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    until("its programs to go", || held.is_disjoint(&all_programs()));
}

/// The numbers of programs that a process's links hold in the kernel.
fn programs_of(pid: u32) -> BTreeSet<u32> {
    let open = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = open.filter_map(|fd| fs::read_to_string(fd.path()).ok());
    let links: Vec<String> = texts.filter(|text| text.contains("link_id:")).collect();
    let lines = links.iter().flat_map(|text| text.lines());
    let numbers = lines.filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    numbers.collect()
}

fn all_programs() -> BTreeSet<u32> {
    libbpf_rs::query::ProgInfoIter::default().map(|info| info.id).collect()
}
