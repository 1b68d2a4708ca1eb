// SPDX-License-Identifier: GPL-2.0-or-later
//! Capabilities of the running kernel, and rights of this process.

use crate::Error;
use libbpf_rs::{
    ReferencesType,
    btf::{Btf, types},
};
use rustix::thread::{CapabilitySet, capabilities};
use std::{fs::File, path::Path};

/// Capabilities of the running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// A congestion control can be held by a link (Linux 6.4): it goes when its holder does.
    /// Without, it stays registered after its process was killed.
    pub links: bool,
    /// How rate algorithms are called.
    pub cong_control: CongControl,
    /// How algorithms hear of a restart from idle.
    pub restart: Restart,
}

/// The arguments of `tcp_congestion_ops.cong_control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongControl {
    /// `(sk, rs)`, before Linux 6.10.
    Two,
    /// `(sk, ack, flag, rs)`.
    Four,
}

/// The member of `tcp_congestion_ops` that tells of a restart from idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// `cwnd_event`, with `CA_EVENT_TX_START`; before Linux 7.1.
    CwndEvent,
    /// `cwnd_event_tx_start`. There a `cwnd_event` that waits for `CA_EVENT_TX_START` is loaded, and never
    /// hears of it.
    Own,
}

impl Support {
    /// Where the kernel describes its types.
    pub const BTF: &str = "/sys/kernel/btf/vmlinux";

    /// Looks at the running kernel and the rights of the calling thread.
    ///
    /// # Errors
    /// [`Error::NotRoot`], or the kernel lacks something.
    pub fn probe() -> Result<Self, Error> {
        require_root()?;
        Self::of_btf(Path::new(Self::BTF))
    }

    /// Capabilities of a kernel whose types that file describes.
    ///
    /// # Errors
    /// It lacks something.
    pub fn of_btf(path: &Path) -> Result<Self, Error> {
        File::open(path).map_err(|source| Error::NoBtf { path: path.to_owned(), source })?;
        let btf = Btf::from_path(path).map_err(Error::bpf(format!("read {}", path.display())))?;
        let cong_control = cong_control(&btf).ok_or(Error::NoStructOps)?;
        let links = btf.type_by_name::<types::Struct<'_>>("bpf_struct_ops_link").is_some();
        let restart =
            if has_member(&btf, "cwnd_event_tx_start") { Restart::Own } else { Restart::CwndEvent };
        Ok(Self { links, cong_control, restart })
    }
}

/// Whether programs can watch at these tracepoints, by the kernel's description in that file.
pub(crate) fn require_tracepoints(path: &Path, names: &[&'static str]) -> Result<(), Error> {
    File::open(path).map_err(|source| Error::NoBtf { path: path.to_owned(), source })?;
    let btf = Btf::from_path(path).map_err(Error::bpf(format!("read {}", path.display())))?;
    let lacks = |name: &&&str| {
        let handler = format!("btf_trace_{name}");
        btf.type_by_name::<types::Typedef<'_>>(handler.as_str()).is_none()
    };
    match names.iter().find(lacks) {
        Some(tracepoint) => Err(Error::NoTracepoint { tracepoint }),
        None => Ok(()),
    }
}

/// Checks that the calling thread has the rights that this crate needs.
pub(crate) fn require_root() -> Result<(), Error> {
    let held = capabilities(None).map_err(|e| Error::system("read capabilities", e))?;
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    if held.effective.contains(needed) { Ok(()) } else { Err(Error::NotRoot) }
}

/// Whether this kernel's `tcp_congestion_ops` has this member.
fn has_member(btf: &Btf<'_>, name: &str) -> bool {
    let ops = btf.type_by_name::<types::Struct<'_>>("tcp_congestion_ops");
    ops.is_some_and(|ops| ops.iter().any(|member| member.name.is_some_and(|n| n == name)))
}

fn cong_control(btf: &Btf<'_>) -> Option<CongControl> {
    // What the kernel wraps a struct in of which it takes programs.
    btf.type_by_name::<types::Struct<'_>>("bpf_struct_ops_tcp_congestion_ops")?;
    let ops = btf.type_by_name::<types::Struct<'_>>("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|n| n == "cong_control"))?;
    let pointer = btf.type_by_id::<types::Ptr<'_>>(member.ty)?;
    let function = types::FuncProto::try_from(pointer.referenced_type()).ok()?;
    match function.len() {
        2 => Some(CongControl::Two),
        4 => Some(CongControl::Four),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;

    #[test]
    fn restart_callback_is_read_from_kernel_types() {
        let release = host::sysctl::read("kernel.osrelease").expect("a release");
        let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
        let version = (numbers.next().expect("a version"), numbers.next().unwrap_or(0));
        let expected = if version >= (7, 1) { Restart::Own } else { Restart::CwndEvent };
        let support = Support::of_btf(Path::new(Support::BTF)).expect("this kernel's types");
        assert_eq!(support.restart, expected, "{release}");
        // A program's declaration of the struct has both.
        let folder = tempfile::tempdir().expect("a writable folder");
        let path = folder.path().join("types");
        std::fs::write(&path, objects::bytes("bbr")).expect("a writable folder");
        let btf = Btf::from_path(&path).expect("types");
        assert!(has_member(&btf, "cwnd_event_tx_start") && has_member(&btf, "cwnd_event"));
        assert!(!has_member(&btf, "cwnd_event_tx"));
    }

    #[test]
    fn missing_tracepoint_is_reported() {
        let real = require_tracepoints(Path::new(Support::BTF), &["net_dev_start_xmit"]);
        real.expect("this kernel has it");
        let error = require_tracepoints(Path::new(Support::BTF), &["no_such_event"]);
        let error = error.expect_err("no kernel has it");
        assert!(matches!(error, Error::NoTracepoint { .. }) && error.is_lack(), "{error}");
        assert!(error.to_string().contains("no_such_event"), "{error}");
        // A file with types, but no kernel's.
        let folder = tempfile::tempdir().expect("a writable folder");
        let path = folder.path().join("types");
        std::fs::write(&path, objects::bytes(objects::MONITOR)).expect("a writable folder");
        let error = require_tracepoints(&path, &["net_dev_start_xmit"]).expect_err("no kernel");
        assert!(matches!(error, Error::NoTracepoint { .. }), "{error}");
        let error = require_tracepoints(Path::new("/nowhere/vmlinux"), &[]).expect_err("nothing");
        assert!(matches!(error, Error::NoBtf { .. }) && error.is_lack(), "{error}");
    }
}
