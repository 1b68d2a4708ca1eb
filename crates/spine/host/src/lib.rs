// SPDX-License-Identifier: GPL-2.0-or-later
//! A Linux host: its network devices, namespaces, settings, users and TCP sockets, what it lacks, and what longhaul keeps
//! on it while it runs.

mod closed_sockets;
mod device;
pub mod ethtool;
pub mod iproute;
mod lack;
mod mac;
mod machine;
mod namespace;
mod nftables;
mod own_address;
mod packet_log;
mod private_mount;
mod processor_time;
mod protocol_counters;
mod random;
mod reloading_file;
mod run_directory;
pub mod settings_file;
mod sock_diag;
mod stop_signal;
mod sys;
pub mod sysctl;
mod tcp_info;
mod tcp_memory;
mod tcp_sockets;
mod user;
mod user_directories;

pub use closed_sockets::{ClosedSocket, ClosedSockets, socket_cookie};
pub use device::{Device, DeviceHandle, Qdisc, device_names, receive_drops, transmit_drops};
pub use iproute::IprouteError;
pub use lack::Lack;
pub use mac::Mac;
pub use machine::Machine;
pub use namespace::Namespace;
pub use nftables::{Nftables, NftablesError};
pub use own_address::is_own_address;
pub use packet_log::PacketLog;
pub use private_mount::private_mount;
pub use processor_time::processor_time;
pub use protocol_counters::ProtocolCounters;
pub use random::random;
pub use reloading_file::{FileError, ReloadingFile, SettingFile};
pub use run_directory::{RUN_DIRECTORY, RunDirectory};
pub use stop_signal::{background_stop_socket, stop_flag, stop_socket};
pub use sys::request_real_time;
pub use tcp_info::{
    Carried, SetBuffers, SocketPacing, TcpInfo, TcpOptions, is_unconnected, set_buffers, tcp_info,
};
pub use tcp_memory::{Pressure, TcpMemory};
pub use tcp_sockets::{TcpSocket, TcpSockets};
pub use user::{User, UserError};
pub use user_directories::{config_directory, state_directory};
