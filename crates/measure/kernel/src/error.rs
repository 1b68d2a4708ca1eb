// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors, with their causes and remedies.

use crate::pace;
use host::{IprouteError, Lack};
use std::{io, path::PathBuf};
use units::{ClassifyFailure, Duration, FailureClass};

/// Why a program could not be brought into the kernel, or out of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process may not load BPF programs.
    #[error("longhaul's kernel programs require root (CAP_SYS_ADMIN and CAP_NET_ADMIN): use sudo")]
    NotRoot,
    /// The kernel takes no BPF programs even from root.
    #[error(
        "the kernel refuses BPF programs even of root here: by lockdown (kernel_lockdown(7); \
         /sys/kernel/security/lockdown says whether), by a security module, or because this is the \
         root of a container (a user namespace) only"
    )]
    Forbidden,
    /// The kernel does not describe its own types.
    #[error(
        "this kernel does not describe its types ({}: {source}); longhaul's programs need a kernel \
         built with CONFIG_DEBUG_INFO_BTF=y, as Debian's, Ubuntu's and Fedora's are", .path.display()
    )]
    NoBtf {
        /// Where it should.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The kernel takes no congestion controls from programs.
    #[error(
        "this kernel takes no congestion control as a BPF program (struct_ops of \
         tcp_congestion_ops); it needs Linux 5.6 or newer, 6.1 to be supported, built with \
         CONFIG_BPF_SYSCALL=y, CONFIG_BPF_JIT=y and CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoStructOps,
    /// The kernel has no such tracepoint, or lets no program watch at it.
    #[error(
        "this kernel lets no program watch at the tracepoint {tracepoint}; it needs Linux 5.5 or \
         newer, 6.1 to be supported, built with CONFIG_BPF_EVENTS=y and CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoTracepoint {
        /// Which.
        tracepoint: &'static str,
    },
    /// There is no such device where this runs.
    #[error(
        "there is no device {device} in this network namespace; there are: {}", .there.join(", ")
    )]
    NoDevice {
        /// The name that was given.
        device: String,
        /// The names of those that there are.
        there: Vec<String>,
    },
    /// The monitor can't make bins of that width.
    #[error("bins of {bin} can't be had: from {least} to {most}")]
    BinWidth {
        /// The requested width.
        bin: Duration,
        /// The narrowest.
        least: Duration,
        /// The widest.
        most: Duration,
    },
    /// The kernel's just-in-time compiler is off.
    #[error(
        "this kernel runs no struct_ops program, because its BPF compiler is off: \
         sysctl net.core.bpf_jit_enable=1, or a kernel built with CONFIG_BPF_JIT=y"
    )]
    NoJit,
    /// The kernel refused a program; a mistake of longhaul's or of an algorithm's.
    #[error("the kernel refused {name}: {source}\n{log}")]
    Refused {
        /// The algorithm.
        name: String,
        /// The kernel's error.
        source: libbpf_rs::Error,
        /// The verifier's log.
        log: String,
    },
    /// It is loaded already, with other parameters or options.
    #[error("{name} is loaded already, but otherwise ({}); unload it first", .with.join(", "))]
    OtherParameters {
        /// The algorithm.
        name: String,
        /// Settings in force that differ from the requested ones: parameters as `name=value`, options in words.
        with: Vec<String>,
    },
    /// Another process holds it, and only its own copy can do what was asked for.
    #[error("{name} is in the kernel already, held by another process; let that end first")]
    HeldElsewhere {
        /// The algorithm.
        name: String,
    },
    /// Mounts of this process are not the machine's, so neither would be its pins.
    #[error(
        "this runs with mounts of its own, as inside `ip netns exec`, `unshare --mount` or a service \
         with a sandbox: what is kept in the kernel would go with them. Run it outside"
    )]
    OwnMounts,
    /// It is not loaded.
    #[error("{name} is not loaded")]
    NotLoaded {
        /// The algorithm.
        name: String,
    },
    /// It was loaded without a trace, or by another process.
    #[error("{name} was not loaded with a trace by this process")]
    NotTraced {
        /// The algorithm.
        name: String,
    },
    /// The machine lacks something else.
    #[error(transparent)]
    Lacks(Lack),
    /// A device's packets can't be paced so.
    #[error(transparent)]
    Pacing(#[from] pace::Refusal),
    /// The operating system refused something.
    #[error("can't {doing}: {source}")]
    System {
        /// The operation that failed.
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// libbpf or the kernel's BPF refused something.
    #[error("can't {doing}: {source}")]
    Bpf {
        /// The operation that failed.
        doing: String,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
}

impl Error {
    /// Whether the machine, or the user's rights on it, lack something: nothing that longhaul did
    /// or was told is wrong.
    pub fn is_lack(&self) -> bool {
        match self {
            Self::NotRoot
            | Self::Forbidden
            | Self::NoBtf { .. }
            | Self::NoStructOps
            | Self::NoTracepoint { .. }
            | Self::NoJit
            | Self::Lacks(_) => true,
            Self::Pacing(refusal) => refusal.is_lack(),
            _ => false,
        }
    }

    /// Whether it was asked for in the wrong way.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::NoDevice { .. } | Self::BinWidth { .. } => true,
            Self::Pacing(refusal) => refusal.is_usage(),
            _ => false,
        }
    }

    pub(crate) fn system(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { doing: doing.into(), source: source.into() }
    }

    pub(crate) fn bpf(doing: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        let doing = doing.into();
        |source| Self::Bpf { doing, source }
    }
}

impl ClassifyFailure for Error {
    fn failure_class(&self) -> FailureClass {
        if self.is_lack() {
            FailureClass::Lacks
        } else if self.is_usage() {
            FailureClass::Usage
        } else {
            FailureClass::Failed
        }
    }
}

impl From<IprouteError> for Error {
    fn from(error: IprouteError) -> Self {
        match error {
            IprouteError::Missing(lack) => Self::Lacks(lack),
            IprouteError::Start { command, error } => Self::system(format!("run {command}"), error),
            IprouteError::Refused { command, message } => {
                Self::system(format!("run {command}"), io::Error::other(message))
            }
            IprouteError::Unreadable { error, .. } => {
                Self::system("understand what iproute2 says", error)
            }
        }
    }
}
