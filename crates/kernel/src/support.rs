// SPDX-License-Identifier: GPL-2.0-or-later
//! What the running kernel, and this process's rights, allow.

use crate::Error;
use libbpf_rs::{
    ReferencesType,
    btf::{Btf, types},
};
use rustix::thread::{CapabilitySet, capabilities};
use std::{fs::File, path::Path};

/// What the running kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// A congestion control can be held by a link (Linux 6.4): it goes when its holder does.
    /// Without, it stays registered after its process was killed.
    pub links: bool,
    /// How rate algorithms are called.
    pub cong_control: CongControl,
}

/// The arguments of `tcp_congestion_ops.cong_control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongControl {
    /// `(sk, rs)`, before Linux 6.10.
    Two,
    /// `(sk, ack, flag, rs)`.
    Four,
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

    /// What a kernel offers that describes its types in that file.
    ///
    /// # Errors
    /// It lacks something.
    pub fn of_btf(path: &Path) -> Result<Self, Error> {
        File::open(path).map_err(|source| Error::NoBtf { path: path.to_owned(), source })?;
        let btf = Btf::from_path(path).map_err(Error::bpf(format!("read {}", path.display())))?;
        let cong_control = cong_control(&btf).ok_or(Error::NoStructOps)?;
        let links = btf.type_by_name::<types::Struct<'_>>("bpf_struct_ops_link").is_some();
        Ok(Self { links, cong_control })
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

/// Whether the calling thread may do what this room does.
pub(crate) fn require_root() -> Result<(), Error> {
    let held = capabilities(None).map_err(|e| Error::system("read capabilities", e))?;
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    if held.effective.contains(needed) { Ok(()) } else { Err(Error::NotRoot) }
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
    fn a_kernel_without_a_tracepoint_is_told_so() {
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
