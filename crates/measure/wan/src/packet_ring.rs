// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that pass a node's devices, as tcpdump sees them: a packet socket whose packets the kernel puts into a ring
//! shared with this process (`TPACKET_V3`).
//!
//! A packet that is sent is seen when its queueing discipline hands it to the device, before the emulated link; one that
//! is received, when the emulator has written it. The kernel stamps both. It cuts packets to the snap length before it
//! copies them, and hands blocks of packets over when they are full or after [`RETIRE_AFTER`]. If the ring is full,
//! packets are dropped for the ring alone and counted.
//! Source: `linux/if_packet.h`, `Documentation/networking/packet_mmap.rst`.

#![expect(unsafe_code, reason = "the ring is memory that the kernel writes")]

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::netdevice,
};
use socket2::{Domain, SockFilter, Socket, Type};
use std::{
    io,
    mem::offset_of,
    os::fd::AsRawFd,
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Holds a frame of any length; packets of an interval that are few take a block as well, so blocks are small.
const BLOCK: usize = 256 << 10;
/// A block is handed over after this time at the latest.
pub const RETIRE_AFTER: Duration = Duration::from_millis(100);
/// `ETH_P_ALL`, in network byte order.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A packet in the ring.
#[derive(Debug, Clone, Copy)]
pub struct RingPacket<'a> {
    /// The device's number in its namespace.
    pub interface: u32,
    /// When it passed, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Whether the node sent it.
    pub is_outbound: bool,
    /// Its length on the device.
    pub length: u32,
    /// Its first bytes, from the Ethernet header.
    pub data: &'a [u8],
}

/// Memory shared with the kernel.
#[derive(Debug)]
struct Mapping {
    begin: NonNull<u8>,
    length: usize,
}

// SAFETY: it is this process's memory, whichever thread uses it.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing that borrows from it is left.
        unsafe { libc::munmap(self.begin.as_ptr().cast(), self.length) };
    }
}

/// The packets of all Ethernet devices of a namespace.
#[derive(Debug)]
pub struct PacketRing {
    memory: Mapping,
    socket: Socket,
    /// The block that is handed over next.
    next: usize,
}

impl PacketRing {
    /// Opens one in the calling thread's network namespace, of `size` bytes in whole blocks.
    ///
    /// # Errors
    /// Not permitted, or the kernel has no packet sockets or not that much memory.
    pub fn open(size: usize, snap: u32) -> io::Result<Self> {
        // Of no protocol: nothing comes in before all is set.
        let socket = Socket::new(Domain::PACKET, Type::RAW.cloexec(), None)?;
        socket.attach_filter(&ethernet_only(snap))?;
        set(&socket, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V3)?;
        let blocks = (size / BLOCK).max(2);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            // Of this version, frames have the lengths that they need.
            tp_frame_size: BLOCK as u32,
            tp_frame_nr: blocks as u32,
            tp_retire_blk_tov: RETIRE_AFTER.as_millis() as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::PACKET_RX_RING, &request)?;
        let memory = map(&socket, blocks * BLOCK)?;
        bind_to_all(&socket)?;
        Ok(Self { memory, socket, next: 0 })
    }

    /// The number of a device in the ring's namespace.
    ///
    /// # Errors
    /// There is no such device.
    pub fn interface(&self, device: &str) -> io::Result<u32> {
        Ok(netdevice::name_to_index(&self.socket, device)?)
    }

    /// Waits up to `timeout` for packets, and hands all that are there to `each`. Whether there were any.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn read(
        &mut self,
        timeout: Duration,
        mut each: impl FnMut(&RingPacket<'_>),
    ) -> io::Result<bool> {
        if !self.is_handed_over() {
            let timeout = Timespec {
                tv_sec: timeout.as_secs().cast_signed(),
                tv_nsec: timeout.subsec_nanos().into(),
            };
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut polled, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) | Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut any = false;
        // Once around at most, so that the caller gets its turn.
        for _ in 0..self.memory.length / BLOCK {
            if !self.is_handed_over() {
                break;
            }
            any = true;
            read_block(self.block(), &mut each);
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % (self.memory.length / BLOCK);
        }
        Ok(any)
    }

    /// Packets that the ring had no room for, since this was last asked.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn dropped(&self) -> io::Result<u64> {
        let mut statistics =
            libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the option writes one tpacket_stats_v3, whose length is given.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(statistics.tp_drops.into()) }
    }

    /// Who has the next block.
    fn status(&self) -> &AtomicU32 {
        let at = self.next * BLOCK
            + offset_of!(libc::tpacket_block_desc, hdr)
            + offset_of!(libc::tpacket_hdr_v1, block_status);
        // SAFETY: the word is inside the mapping and aligned, and both sides write it as a whole.
        unsafe { AtomicU32::from_ptr(self.memory.begin.add(at).as_ptr().cast()) }
    }

    fn is_handed_over(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The next block, which is ours.
    fn block(&self) -> &[u8] {
        // SAFETY: the block is inside the mapping. The kernel does not write it before it is given back.
        unsafe { slice::from_raw_parts(self.memory.begin.add(self.next * BLOCK).as_ptr(), BLOCK) }
    }
}

/// The packets of a block, one after the other.
fn read_block(block: &[u8], each: &mut impl FnMut(&RingPacket<'_>)) {
    let header = offset_of!(libc::tpacket_block_desc, hdr);
    let count = word(block, header + offset_of!(libc::tpacket_hdr_v1, num_pkts));
    let mut at = word(block, header + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt));
    for _ in 0..count {
        let Some(packet) = block.get(at as usize..) else { return };
        let field = |offset| word(packet, offset);
        // struct sockaddr_ll follows struct tpacket3_hdr, which is aligned already.
        let address = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
        let begin = half(packet, offset_of!(libc::tpacket3_hdr, tp_mac)) as usize;
        let kept = field(offset_of!(libc::tpacket3_hdr, tp_snaplen)) as usize;
        let kind = packet.get(address + offset_of!(libc::sockaddr_ll, sll_pkttype));
        let (Some(kind), Some(data)) = (kind, packet.get(begin..begin + kept)) else { return };
        each(&RingPacket {
            interface: field(address + offset_of!(libc::sockaddr_ll, sll_ifindex)),
            unix_ns: u64::from(field(offset_of!(libc::tpacket3_hdr, tp_sec))) * 1_000_000_000
                + u64::from(field(offset_of!(libc::tpacket3_hdr, tp_nsec))),
            is_outbound: *kind == libc::PACKET_OUTGOING,
            length: field(offset_of!(libc::tpacket3_hdr, tp_len)),
            data,
        });
        at += field(offset_of!(libc::tpacket3_hdr, tp_next_offset));
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_ne_bytes(word.try_into().expect("four")))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |half| u16::from_ne_bytes(half.try_into().expect("two")))
}

/// Passes the first `snap` bytes of what Ethernet devices carry: neither the loopback device's packets, nor those of TUN
/// devices, which are seen again at the device of the link.
fn ethernet_only(snap: u32) -> [SockFilter; 4] {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump_if_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let device_type = (libc::SKF_AD_OFF + libc::SKF_AD_HATYPE).cast_unsigned();
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    [
        SockFilter::new(load, 0, 0, device_type),
        SockFilter::new(jump_if_equal, 0, 1, libc::ARPHRD_ETHER.into()),
        SockFilter::new(answer, 0, 0, snap),
        SockFilter::new(answer, 0, 0, 0),
    ]
}

fn set<T>(socket: &Socket, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the option's value is a `T`, whose length is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn map(socket: &Socket, length: usize) -> io::Result<Mapping> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses an address that is free.
    let begin = unsafe {
        libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, socket.as_raw_fd(), 0)
    };
    if begin == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let begin = NonNull::new(begin.cast()).ok_or_else(io::Error::last_os_error)?;
    Ok(Mapping { begin, length })
}

/// From now on, packets of all devices come in.
fn bind_to_all(socket: &Socket) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data, for which zero is valid, and outlives the call.
    let done = unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = ALL_PROTOCOLS;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
