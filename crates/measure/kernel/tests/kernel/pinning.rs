// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls that stay.

#![expect(unsafe_code, reason = "a mount namespace of the test")]

use crate::common::{Pair, available, in_own_network, is_once_more, loaded, once_more};
use congestion::Algorithm;
use longhaul_kernel::{
    Error,
    cc::{self, Holder, InForce, Options, Provider},
};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};
use testkit::with_kernel_names;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

fn scalable() -> &'static Algorithm {
    Algorithm::find("scalable").expect("there is Scalable")
}

/// What a test leaves of pins and mounts.
fn traces_of_pins() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("a mounted /proc");
    let mounts = mounts.lines().filter(|line| line.contains("longhaul")).map(str::to_owned);
    let folders = ["/run/longhaul/bpf", "/sys/fs/bpf/longhaul"];
    mounts.chain(folders.into_iter().filter(|f| Path::new(f).exists()).map(str::to_owned)).collect()
}

#[test]
fn pinned_algorithm_stays_until_unloaded() {
    let _turn = with_kernel_names();
    loaded("scalable", &Options::default()).pin().expect("a BPF file system");
    assert!(available().contains(&"lh_scalable".to_owned()));

    let again = loaded("scalable", &Options::default());
    assert_eq!(again.holder(), Holder::Pin);
    again.pin().expect("it is pinned");

    cc::unload(scalable()).expect("it is pinned");
    assert!(!available().contains(&"lh_scalable".to_owned()));
    assert_eq!(traces_of_pins(), Vec::<String>::new());
    assert!(matches!(cc::unload(scalable()), Err(Error::NotLoaded { .. })));
}

#[test]
fn two_pins_share_the_file_system() {
    let _turn = with_kernel_names();
    loaded("scalable", &Options::default()).pin().expect("a BPF file system");
    loaded("reno", &Options::default()).pin().expect("a BPF file system");
    cc::unload(scalable()).expect("it is pinned");
    assert!(available().contains(&"lh_reno".to_owned()), "unloading one took the other");
    cc::unload(Algorithm::find("reno").expect("there is Reno")).expect("it is pinned");
    assert_eq!(traces_of_pins(), Vec::<String>::new());
}

#[test]
fn the_parameters_in_force_are_read_back() {
    let _turn = with_kernel_names();
    for set in &scalable().sets {
        let held = cc::load(&set.params, &Options::default()).expect("it loads");
        held.pin().expect("a BPF file system");
        let in_force = in_force();
        assert_eq!(in_force.set, Some(set.name));
        let values: Vec<u32> = in_force.values.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, set.params.values());
        cc::unload(scalable()).expect("it is pinned");
    }
    let first = scalable().params[0].name;
    let custom = scalable().default_set().clone().with(first, 77).expect("it has that");
    cc::load(&custom, &Options::default()).expect("it loads").pin().expect("a BPF file system");
    let in_force = in_force();
    assert_eq!((in_force.set, in_force.values[0]), (None, (first, 77)));

    let other = cc::load(scalable().default_set(), &Options::default());
    let text = other.expect_err("77 is in force").to_string();
    assert!(text.contains(&format!("{first}=77")) && text.contains("unload"), "{text}");
    assert!(!text.contains("restricted"), "that was as asked for: {text}");
    cc::unload(scalable()).expect("it is pinned");
}

#[test]
fn the_option_that_is_otherwise_is_named() {
    let _turn = with_kernel_names();
    let plain = Options::default();
    let restricted = Options { restricted: true, ..plain.clone() };
    let bounded = Options { initial_ssthresh: Some(50), ..plain.clone() };
    for (pinned, asked, said) in [
        (&plain, &restricted, "(unrestricted, for every user)"),
        (&restricted, &plain, "(restricted)"),
        (&bounded, &plain, "(initial ssthresh 50)"),
        (&plain, &bounded, "(initial ssthresh none)"),
    ] {
        loaded("scalable", pinned).pin().expect("a BPF file system");
        let other = cc::load(scalable().default_set(), asked).expect_err("it is otherwise");
        cc::unload(scalable()).expect("it is pinned");
        assert!(other.to_string().contains(said), "{other}");
    }
}

/// As `bpftool link detach` does it: the pin stays.
fn detach() {
    let folders = ["/run/longhaul/bpf", "/sys/fs/bpf"];
    let pins = folders.into_iter().map(|root| Path::new(root).join("longhaul/lh_scalable/link"));
    let pin = pins.into_iter().find(|pin| pin.exists()).expect("it is pinned");
    libbpf_rs::Link::open(pin).expect("a link").detach().expect("it is attached");
    assert!(!available().contains(&"lh_scalable".to_owned()));
}

#[test]
fn a_pin_that_keeps_nothing_any_more_is_none() {
    let _turn = with_kernel_names();
    let restricted = Options { restricted: true, ..Options::default() };
    loaded("scalable", &restricted).pin().expect("a BPF file system");
    detach();
    assert_eq!(cc::provider(scalable()).expect("root"), Provider::None);
    let again = loaded("scalable", &Options::default());
    assert_eq!(again.holder(), Holder::This);
    assert_eq!(traces_of_pins(), Vec::<String>::new());
    again.pin().expect("a BPF file system");
    detach();
    assert!(matches!(cc::unload(scalable()), Err(Error::NotLoaded { .. })));
    assert_eq!(traces_of_pins(), Vec::<String>::new());
}

fn in_force() -> InForce {
    let entries = cc::list().expect("root");
    let entry = entries.into_iter().find(|entry| entry.name == "lh_scalable").expect("listed");
    match entry.provider {
        Provider::Pinned(in_force) => in_force,
        other => panic!("not pinned: {other:?}"),
    }
}

#[test]
fn transfer_continues_after_its_algorithm_is_unloaded() {
    let _turn = with_kernel_names();
    loaded("scalable", &Options::default()).pin().expect("a BPF file system");
    in_own_network(|| {
        let pair = Pair::connect("lh_scalable");
        thread::scope(|scope| {
            let transfer = scope.spawn(|| pair.transfer(400_000_000));
            cc::unload(scalable()).expect("it is pinned");
            assert!(!transfer.is_finished(), "the transfer was too short to tell");
        });
        pair.transfer(1_000_000);
        assert_eq!(pair.congestion_control(), "lh_scalable");
    });
    assert_eq!(traces_of_pins(), Vec::<String>::new());
}

#[test]
fn unloading_resets_the_default_of_namespaces() {
    let _turn = with_kernel_names();
    let machines = fs::read_to_string(DEFAULT).expect("TCP's settings");
    // Not restricted: a restricted one can't be a namespace's default, and trying leaks it.
    loaded("scalable", &Options::default()).pin().expect("a BPF file system");
    in_own_network(|| {
        let namespace = fs::File::open("/proc/thread-self/ns/net").expect("a namespace");
        fs::write(DEFAULT, "lh_scalable").expect("any may be the default here");
        let unloaded = cc::unload(scalable()).expect("it is pinned");
        let now = fs::read_to_string(DEFAULT).expect("TCP's settings");
        assert_eq!(unloaded.defaults.len(), 1, "{unloaded:?}");
        let reset = &unloaded.defaults[0];
        let inode = namespace.metadata().expect("open").ino();
        assert_eq!((reset.namespace, reset.to), (inode, now.trim()));
        assert!(["cubic", "reno"].contains(&reset.to));
    });
    assert_eq!(fs::read_to_string(DEFAULT).expect("TCP's settings"), machines);
}

/// No process is in the namespace, and no socket uses the congestion control: the namespace's setting
/// alone still knows it.
#[test]
fn unloading_a_vanished_algorithm_resets_namespace_defaults() {
    let _turn = with_kernel_names();
    let held = loaded("scalable", &Options::default());
    let namespace = in_own_network(|| {
        fs::write(DEFAULT, "lh_scalable").expect("any may be the default here");
        fs::File::open("/proc/thread-self/ns/net").expect("a namespace")
    });
    drop(held);
    assert!(!available().contains(&"lh_scalable".to_owned()));
    let unloaded = cc::unload(scalable()).expect("it is a default");
    let reset: Vec<_> = unloaded.defaults.iter().map(|reset| reset.namespace).collect();
    assert_eq!(reset, [namespace.metadata().expect("open").ino()]);
    assert!(matches!(cc::unload(scalable()), Err(Error::NotLoaded { .. })));
}

/// The test starts itself once more, as process 1, so that the machine's mounts are its own to
/// compare with.
#[test]
fn pins_are_read_only_in_another_mount_namespace() {
    if is_once_more() {
        assert_eq!(std::process::id(), 1);
        loaded("scalable", &Options::default()).pin().expect("the machine's mounts");
        cc::unload(scalable()).expect("it is pinned");
        thread::scope(|scope| {
            let (ask, asked) = mpsc::sync_channel(0);
            let (tell, told) = mpsc::sync_channel(0);
            let apart = scope.spawn(move || with_own_mounts(&ask, &told));
            if asked.recv() == Ok(()) {
                loaded("scalable", &Options::default()).pin().expect("the machine's mounts");
                tell.send(()).expect("it waits for that");
            }
            let passed = apart.join();
            passed.expect("it passes");
            cc::unload(scalable()).expect("it is pinned");
        });
        return;
    }
    let _turn = with_kernel_names();
    let test = "pinning::pins_are_read_only_in_another_mount_namespace";
    let around = ["unshare", "--pid", "--fork", "--mount-proc"];
    let status = once_more(&around, test).status().expect("unshare, of util-linux");
    assert!(status.success());
    assert_eq!(traces_of_pins(), Vec::<String>::new());
}

fn with_own_mounts(ask: &SyncSender<()>, told: &Receiver<()>) {
    // SAFETY: no memory is involved; only this thread's mounts change.
    let moved = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    assert_eq!(moved, 0, "unshare: {}", io::Error::last_os_error());
    let load = || loaded("scalable", &Options::default());

    let held = load();
    assert_eq!(held.holder(), Holder::This, "unpinned it works");
    assert!(matches!(held.pin(), Err(Error::OwnMounts)));
    assert!(!available().contains(&"lh_scalable".to_owned()));
    assert_eq!(traces_of_pins(), Vec::<String>::new());

    ask.send(()).expect("outside they wait for that");
    told.recv().expect("outside it could be pinned");
    assert_eq!(load().holder(), Holder::Pin);
    assert_eq!(in_force().set, Some(scalable().sets[0].name));
    let error = cc::unload(scalable()).expect_err("mounts of its own");
    assert!(matches!(error, Error::OwnMounts) && !error.is_lack(), "{error}");
    assert!(error.to_string().contains("ip netns exec"), "{error}");
}
