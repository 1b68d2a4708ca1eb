// SPDX-License-Identifier: GPL-2.0-or-later
//! Both ends over real connections, with writes and joins of any size and order.

use super::{Arrivals, Asker, Joined, Joins, Offers, Reader, Token, Writer};
use crate::tcp::{Connection, Stream};
use bytes::{Buf, BytesMut};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::{net::IpAddr, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};

const WELCOME: &[u8] = b"blocks follow\n";
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Both ends of a connection, of which one is to be slow where its buffers are that small.
async fn connection(small: bool) -> (Stream, Stream) {
    let listener = TcpListener::bind((HERE, 0)).await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, address) = listener.accept().await.unwrap();
    if small {
        socket2::SockRef::from(&far).set_send_buffer_size(64 << 10).unwrap();
        socket2::SockRef::from(&near).set_recv_buffer_size(64 << 10).unwrap();
    }
    let to = near.peer_addr().unwrap();
    (Stream::new(far, address), Stream::new(near, to))
}

/// A further connection, of which both ends learn.
async fn another(
    offers: &Offers,
    token: Token,
    joins: &mpsc::Sender<(Connection, BytesMut)>,
    small: bool,
) {
    let (far, mut near) = connection(small).await;
    let stream = far.into_connection();
    let joined = Joined { stream, ahead: BytesMut::new(), over: oneshot::channel().0 };
    assert!(offers.join(Some(token), HERE, joined).is_ok());
    let joins = joins.clone();
    tokio::spawn(async move {
        let mut ahead = BytesMut::new();
        let (mut source, _) = near.split();
        while ahead.len() < WELCOME.len() {
            // One that comes too late is let go.
            if !matches!(source.read(&mut ahead, 1 << 14).await, Ok(1..)) {
                return;
            }
        }
        assert_eq!(&ahead[..WELCOME.len()], WELCOME);
        ahead.advance(WELCOME.len());
        let _ = joins.send((near.into_connection(), ahead)).await;
    });
}

#[tokio::test]
async fn striped_bytes_are_read_as_written() {
    let seed = std::env::var("LONGHAUL_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("LONGHAUL_SEED={seed}");
    for case in 0..40 {
        let mut random = Pcg64Mcg::seed_from_u64(seed + case);
        let mut body = vec![0; random.next_u64() as usize % 2_000_000];
        random.fill_bytes(&mut body);
        let (mut far, mut near) = connection(case % 3 == 0).await;
        let offers = Arc::new(Offers::default());
        let offered = offers.offer(Asker { peer: HERE, client: HERE }, 15).unwrap();
        let (token, (sender, joins)) = (offered.token, Joins::by_hand());
        let offered = Arrivals::offered(offered, WELCOME.into(), Box::new(|_| Ok(())));
        let asked = Arrivals::asked(joins, Box::new(|_| Ok(())));
        // Either end may open them.
        let (to_writer, to_reader) =
            if case % 2 == 0 { (offered, asked) } else { (asked, offered) };
        let mut by_reader = Pcg64Mcg::seed_from_u64((!seed).wrapping_add(case));
        let write = async {
            let (_, mut sink) = far.split();
            sink.stripe(Writer::new(to_writer));
            let (mut left, mut joined) = (&body[..], 0);
            while !left.is_empty() {
                if joined < 15 && random.next_u32().is_multiple_of(4) {
                    another(&offers, token, &sender, random.next_u32().is_multiple_of(2)).await;
                    joined += 1;
                }
                let most = 1 + random.next_u64() as usize % 200_000;
                let written = sink.write(&left[..most.min(left.len())]).await.unwrap();
                left = &left[written..];
            }
            drop(sender);
            if random.next_u32().is_multiple_of(2) {
                tokio::task::yield_now().await;
            }
            sink.unstripe().await.unwrap();
        };
        let read = async {
            let (mut source, _) = near.split();
            let mut reader = Reader::new(BytesMut::new());
            reader.let_join(to_reader);
            source.stripe(reader);
            let mut got = BytesMut::new();
            loop {
                let most = 1 + by_reader.next_u64() as usize % 300_000;
                match source.read(&mut got, most).await.unwrap() {
                    0 => break,
                    read => assert!(read <= most),
                }
                if by_reader.next_u32().is_multiple_of(8) {
                    tokio::task::yield_now().await;
                }
            }
            assert!(source.unstripe().await.unwrap().is_empty());
            got
        };
        let ((), got) = tokio::join!(write, read);
        assert!(got == body, "case {case}: {} bytes became {}", body.len(), got.len());
    }
}
