// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions to servers that know nothing of them.

use super::peers::{Acceptor, echo, echoes, id, open_tcp, opened, refused};
use crate::common::{PATIENCE, process::Daemon};
use protocol::session::{Open, Target};
use socket2::{Domain, Socket, Type};
use std::{
    io::Read,
    net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    time::Duration,
};

#[test]
fn last_depot_connects_to_a_plain_server() {
    let depots = [1, 2].map(|n| Daemon::depot(&format!("id = \"d{n}\"")));
    let server = Acceptor::raw(echo);
    let (client, answer) = opened(&depots[0], &open_tcp(server.address));
    echoes(&client);
    assert_eq!((answer.by.as_str(), answer.hops.len()), ("d1", 1));
    let hops = vec![super::peers::hop(depots[1].address)];
    let (client, answer) = opened(&depots[0], &Open { hops, ..open_tcp(server.address) });
    echoes(&client);
    assert_eq!((answer.by.as_str(), answer.hops.len()), ("d2", 2));
}

/// The header that a server gets, without its signature, and what follows.
fn introduced(listener: &TcpListener, depot: &Daemon) -> (Vec<u8>, SocketAddr) {
    let server = listener.local_addr().unwrap();
    let target = Target::Tcp { server: server.into(), proxy_protocol: true };
    let (client, _) = opened(depot, &Open::new(id(9), Vec::new(), target));
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head[..12], b"\r\n\r\n\0\r\nQUIT\n");
    let mut addresses = vec![0; usize::from(u16::from_be_bytes([head[14], head[15]]))];
    stream.read_exact(&mut addresses).unwrap();
    let own = client.local_addr().unwrap();
    let (sender, done) = mpsc::channel();
    std::thread::spawn(move || {
        echo(stream);
        sender.send(()).unwrap();
    });
    echoes(&client);
    drop(client);
    done.recv_timeout(PATIENCE).unwrap();
    addresses.splice(0..0, [head[12], head[13]]);
    (addresses, own)
}

#[test]
fn server_learns_the_client_by_proxy_protocol() {
    let depot = Daemon::depot("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (header, client) = introduced(&listener, &depot);
    let ports = [client.port().to_be_bytes(), depot.address.port().to_be_bytes()].concat();
    assert_eq!(header, [&[0x21, 0x11, 127, 0, 0, 1, 127, 0, 0, 1][..], &ports].concat());

    let depot = Daemon::depot_with(
        "listen = [\"[::1]:0\"]\n[allow]\nclients = [\"::1/128\"]\nservers = [\"::1/128:*\"]\nlocal = true",
    );
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let (header, client) = introduced(&listener, &depot);
    let loopback = Ipv6Addr::LOCALHOST.octets();
    let ports = [client.port().to_be_bytes(), depot.address.port().to_be_bytes()].concat();
    assert_eq!(header, [&[0x21, 0x21][..], &loopback, &loopback, &ports].concat());
}

#[test]
fn session_to_unlisted_private_address_is_refused() {
    let depot = Daemon::depot(
        "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"0.0.0.0/0:*\"]\n\
         servers = [\"0.0.0.0/0:*\", \"localhost:*\"]",
    );
    let server = Acceptor::raw(echo);
    let named = Target::Tcp {
        server: format!("localhost:{}", server.address.port()).parse().unwrap(),
        proxy_protocol: false,
    };
    for open in [
        open_tcp(server.address),
        super::peers::open(&[server.address]),
        Open::new(id(1), Vec::new(), named),
        open_tcp("10.0.0.1:80".parse().unwrap()),
        open_tcp("169.254.169.254:80".parse().unwrap()),
    ] {
        let answer = refused(&depot, &open.to_bytes().unwrap());
        assert_eq!(answer.status, 403, "{open:?}: {answer:?}");
        assert_eq!(answer.error.as_deref(), Some("destination_ip_prohibited"));
    }
}

/// Else clients could send anything to what `allow.upstreams` lists, in the depot's name.
#[test]
fn http_upstreams_are_not_session_servers() {
    let server = Acceptor::raw(echo);
    let depot = Daemon::depot(
        "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true",
    );
    let answer = refused(&depot, &open_tcp(server.address).to_bytes().unwrap());
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(answer.error.as_deref(), Some("destination_ip_prohibited"));
}

/// What a program asks for that has looked the name up, and what its depot's own look-up does not find.
#[test]
fn address_of_a_listed_name_is_a_listed_server() {
    let server = Acceptor::raw(echo);
    let port = server.address.port();
    let lists = |servers: &str, more: &str| {
        let allow = format!("clients = [\"127.0.0.0/8\"]\nservers = {servers}");
        Daemon::depot(&format!("[allow]\n{allow}\n{more}"))
    };
    let depot = lists("[\"no-such-name.invalid:*\", \"localhost:*\"]", "local = true");
    for spelling in ["127.0.0.1", "[::ffff:127.0.0.1]"] {
        let address = format!("{spelling}:{port}").parse().unwrap();
        echoes(&opened(&depot, &open_tcp(address)).0);
    }
    let refuses = |depot: &Daemon, address: &str, why: &str| {
        let answer = refused(depot, &open_tcp(address.parse().unwrap()).to_bytes().unwrap());
        assert!(answer.status == 403 && answer.text.contains(why), "{address}: {answer:?}");
    };
    let own = "`allow.servers` does not list it, and this depot's own look-ups";
    for address in ["127.0.0.2:80", "192.0.2.1:80", "[2001:db8::1]:80"] {
        refuses(&depot, address, own);
    }
    // A name is listed with its ports, and leads to no inner address.
    let other_port = lists("[\"localhost:1\"]", "local = true");
    refuses(&other_port, &server.address.to_string(), "`allow.servers` does not list it");
    let inner = lists("[\"localhost:*\"]", "");
    refuses(&inner, &server.address.to_string(), "a loopback address");
    // Names of next hops are no servers.
    let upstream = Daemon::depot(
        "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"localhost:*\"]\nlocal = true",
    );
    refuses(&upstream, &server.address.to_string(), "`allow.servers` does not list it");
}

/// The last depot answers in the time that the client gives, and before the depot in front of it.
#[test]
fn answer_comes_within_the_time_that_the_client_waits() {
    let depots = [1, 2].map(|n| Daemon::depot(&format!("id = \"d{n}\"")));
    // Its system takes no connection and refuses none.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let silent = listener.local_addr().unwrap().as_socket().unwrap();
    let connect = || TcpStream::connect_timeout(&silent, Duration::from_millis(300)).ok();
    let _waiting: Vec<_> = std::iter::from_fn(connect).take(100).collect();
    for hops in [vec![], vec![super::peers::hop(depots[1].address)]] {
        let last = if hops.is_empty() { "d1" } else { "d2" };
        let answer_within = Some(Duration::from_secs(2));
        let open = Open { hops, answer_within, ..open_tcp(silent) };
        let answer = refused(&depots[0], &open.to_bytes().unwrap());
        assert_eq!(answer.by.as_str(), last, "{answer:?}");
        assert_eq!(answer.error.as_deref(), Some("connection_timeout"), "{answer:?}");
    }
    // A client without patience is no reason to think ill of the next depot.
    let open = open_tcp(silent);
    let hops = vec![super::peers::hop(depots[1].address)];
    let hurried = Open { hops, answer_within: Some(Duration::ZERO), ..open };
    refused(&depots[0], &hurried.to_bytes().unwrap());
    let server = Acceptor::raw(echo);
    let hops = vec![super::peers::hop(depots[1].address)];
    echoes(&opened(&depots[0], &Open { hops, ..open_tcp(server.address) }).0);
}
