// SPDX-License-Identifier: GPL-2.0-or-later
//! How many TCP sockets use which congestion control (`sock_diag`, what `ss` uses).

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP},
    inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags, nlas::Nla},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use std::{collections::BTreeMap, io};

/// Adds those of the calling thread's network namespace.
pub fn count(into: &mut BTreeMap<String, u64>) -> io::Result<()> {
    let mut netlink = Socket::new(NETLINK_SOCK_DIAG)?;
    netlink.bind_auto()?;
    netlink.connect(&SocketAddr::new(0, 0))?;
    for (family, socket_id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
        let request = InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::CONG,
            states: StateFlags::all(),
            socket_id,
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut packet = vec![0; message.buffer_len()];
        message.serialize(&mut packet);
        netlink.send(&packet, 0)?;
        while answers(&netlink, |response| {
            for nla in response.nlas {
                if let Nla::Congestion(name) = nla {
                    *into.entry(name).or_default() += 1;
                }
            }
        })? {}
    }
    Ok(())
}

/// Takes one packet of answers, and says whether there are more.
fn answers(netlink: &Socket, mut take: impl FnMut(InetResponse)) -> io::Result<bool> {
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{error:?}"));
    let mut buffer = Vec::with_capacity(64 * 1024);
    netlink.recv(&mut buffer, 0)?;
    let mut rest = &buffer[..];
    while !rest.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(damaged)?;
        // Messages are padded to a multiple of four bytes.
        rest = rest.get((message.header.length as usize).next_multiple_of(4)..).unwrap_or_default();
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                take(*response);
            }
            NetlinkPayload::Done(_) => return Ok(false),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => {}
        }
    }
    Ok(true)
}
