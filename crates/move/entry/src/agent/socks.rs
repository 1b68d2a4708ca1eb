// SPDX-License-Identifier: GPL-2.0-or-later
//! SOCKS5 (RFC 1928): CONNECT alone, with names, IPv4 and IPv6; name and password by RFC 1929.

use super::{Agent, Failed, HEAD_TIME, config::Login};
use crate::tunnel::tunnel;
use bytes::BytesMut;
use protocol::{Authority, Host, http::ProxyError};
use relay::{guesses::Guesses, tcp::Stream};
use route::Destination;
use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// The first byte of each message.
pub(super) const VERSION: u8 = 5;
/// Of RFC 1929.
const LOGIN_VERSION: u8 = 1;
const NO_LOGIN: u8 = 0;
const BY_LOGIN: u8 = 2;
const NOTHING_ACCEPTABLE: u8 = 255;
const CONNECT: u8 = 1;

const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const EXPIRED: u8 = 6;
const UNKNOWN_COMMAND: u8 = 7;
const UNKNOWN_ADDRESS: u8 = 8;

/// What the client is told before the connection is closed.
enum Ends {
    With(u8),
    Silently(io::Error),
}

impl From<io::Error> for Ends {
    fn from(error: io::Error) -> Self {
        Self::Silently(error)
    }
}

pub(super) async fn serve(agent: &Agent, mut socket: TcpStream, from: SocketAddr) {
    let login = agent.config().login.clone();
    let login =
        login.as_ref().map(|login| Asked { login, guesses: &agent.guesses, client: from.ip() });
    let asked = timeout(HEAD_TIME, asked(&mut socket, login)).await;
    let server = match asked.unwrap_or_else(|late| Err(Ends::Silently(late.into()))) {
        Ok(server) => server,
        Err(Ends::With(code)) => return say(&mut socket, code).await,
        Err(Ends::Silently(error)) => {
            tracing::debug!(%from, %error, "SOCKS5");
            return;
        }
    };
    match agent.open(from, &Destination::Named(server.clone())).await {
        Ok((stream, route)) => {
            let listed = agent.live.list(from, "socks5", &server, route);
            say(&mut socket, SUCCEEDED).await;
            let client = (Stream::new(socket, from), BytesMut::new());
            let passed = &listed.connection.passed;
            let passed = tunnel(client, stream, &agent.resources, passed).await;
            if let Err(error) = passed {
                tracing::debug!(%from, %server, %error, "SOCKS5");
            }
        }
        Err(error) => {
            agent.live.failed();
            tracing::info!(%from, "{server}: {}", error.text);
            say(&mut socket, code(&error)).await;
        }
    }
}

fn code(failed: &Failed) -> u8 {
    match failed.kind {
        ProxyError::ConnectionRefused => REFUSED,
        ProxyError::ConnectionTimeout | ProxyError::DnsTimeout => EXPIRED,
        ProxyError::DnsError | ProxyError::DestinationIpUnroutable => HOST_UNREACHABLE,
        ProxyError::DestinationIpProhibited
        | ProxyError::HttpRequestDenied
        | ProxyError::ProxyLoopDetected => NOT_ALLOWED,
        _ => FAILED,
    }
}

/// The reply to a request. The address that it could tell is none of the client's business.
async fn say(socket: &mut TcpStream, code: u8) {
    let reply = [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0];
    let _ = timeout(HEAD_TIME, socket.write_all(&reply)).await;
}

/// The login that is asked for.
#[derive(Clone, Copy)]
struct Asked<'a> {
    login: &'a Login,
    guesses: &'a Guesses,
    client: IpAddr,
}

/// What the client wants to be connected to. Reads not a byte more than its messages have.
async fn asked<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut S,
    login: Option<Asked<'_>>,
) -> Result<Authority, Ends> {
    let [version, count] = read(socket).await?;
    if version != VERSION {
        return Err(malformed("it is no SOCKS5"));
    }
    let methods = read_some(socket, count).await?;
    let method = if login.is_some() { BY_LOGIN } else { NO_LOGIN };
    if !methods.contains(&method) {
        socket.write_all(&[VERSION, NOTHING_ACCEPTABLE]).await?;
        return Err(malformed("it offers no method that is accepted"));
    }
    socket.write_all(&[VERSION, method]).await?;
    if let Some(asked) = login {
        let [version, length] = read(socket).await?;
        let user = read_some(socket, length).await?;
        let [length] = read(socket).await?;
        let password = read_some(socket, length).await?;
        let client = (asked.guesses, asked.client);
        let is_shown = match version {
            LOGIN_VERSION => asked.login.is_shown(client, (&user, &password)).await,
            _ => Ok(false),
        };
        socket.write_all(&[LOGIN_VERSION, u8::from(is_shown != Ok(true))]).await?;
        match is_shown {
            Ok(true) => {}
            Ok(false) => return Err(malformed("name or password is wrong")),
            Err(error) => return Err(malformed(&error.to_string())),
        }
    }
    let [version, command, _, kind] = read(socket).await?;
    if version != VERSION {
        return Err(malformed("its request is no SOCKS5"));
    }
    let host = match kind {
        1 => Host::Ip(Ipv4Addr::from(read::<4, _>(socket).await?).into()),
        4 => Host::Ip(Ipv6Addr::from(read::<16, _>(socket).await?).into()),
        3 => {
            let [length] = read(socket).await?;
            let name = String::from_utf8(read_some(socket, length).await?);
            // Programs also write addresses there.
            let host = name.ok().and_then(|name| name.trim_end_matches('.').parse().ok());
            host.ok_or(Ends::With(FAILED))?
        }
        _ => return Err(Ends::With(UNKNOWN_ADDRESS)),
    };
    let port = u16::from_be_bytes(read(socket).await?);
    match (command, port) {
        (CONNECT, 1..) => Ok(Authority { host, port }),
        (CONNECT, 0) => Err(Ends::With(FAILED)),
        _ => Err(Ends::With(UNKNOWN_COMMAND)),
    }
}

fn malformed(what: &str) -> Ends {
    Ends::Silently(io::Error::new(ErrorKind::InvalidData, what))
}

async fn read<const N: usize, S: AsyncRead + Unpin>(socket: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn read_some(socket: &mut (impl AsyncRead + Unpin), length: u8) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length.into()];
    socket.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;
    use tokio::runtime::{self, Runtime};

    /// What comes of these bytes: where to, or what is said; and what was sent back before.
    async fn given(bytes: &[u8], login: Option<&Login>) -> (String, Vec<u8>) {
        let (mut here, mut there) = tokio::io::duplex(1 << 16);
        here.write_all(bytes).await.unwrap();
        here.shutdown().await.unwrap();
        let guesses = Guesses::default();
        let login = login.map(|login| by(login, &guesses));
        let outcome = match asked(&mut there, login).await {
            Ok(server) => server.to_string(),
            Err(Ends::With(code)) => format!("code {code}"),
            Err(Ends::Silently(error)) => error.to_string(),
        };
        drop(there);
        let mut back = Vec::new();
        here.read_to_end(&mut back).await.unwrap();
        (outcome, back)
    }

    fn by<'a>(login: &'a Login, guesses: &'a Guesses) -> Asked<'a> {
        Asked { login, guesses, client: Ipv4Addr::LOCALHOST.into() }
    }

    #[tokio::test]
    async fn requests_are_read() {
        let hello = [5, 2, 0, 2];
        for (request, outcome) in [
            (&[5, 1, 0, 1, 192, 0, 2, 7, 1, 187][..], "192.0.2.7:443"),
            (&[5, 1, 0, 3, 4, b'H', b'o', b's', b't', 0, 22], "Host:22"),
            (&[5, 1, 0, 3, 5, b'h', b'o', b's', b't', b'.', 0, 22], "host:22"),
            (&[5, 1, 0, 3, 7, b'1', b'0', b'.', b'0', b'.', b'0', b'1', 0, 22], "code 1"),
            (&[5, 1, 0, 3, 0, 0, 22], "code 1"),
            (&[5, 1, 0, 3, 2, 0xff, 0xfe, 0, 22], "code 1"),
            (&[5, 1, 0, 1, 192, 0, 2, 7, 0, 0], "code 1"),
            (&[5, 2, 0, 1, 192, 0, 2, 7, 1, 187], "code 7"),
            (&[5, 3, 0, 1, 192, 0, 2, 7, 1, 187], "code 7"),
            (&[5, 1, 0, 9, 192, 0, 2, 7, 1, 187], "code 8"),
            (&[4, 1, 0, 1, 192, 0, 2, 7, 1, 187], "its request is no SOCKS5"),
        ] {
            let (got, back) = given(&[&hello[..], request].concat(), None).await;
            assert_eq!(
                (got.to_lowercase().as_str(), &back[..]),
                (outcome.to_lowercase().as_str(), &[5, 0][..]),
                "{request:?}"
            );
        }
        let six = [&hello[..], &[5, 1, 0, 4], &Ipv6Addr::LOCALHOST.octets(), &[0, 80]].concat();
        assert_eq!(given(&six, None).await.0, "[::1]:80");
        for length in 0..six.len() {
            given(&six[..length], None).await;
        }
    }

    #[tokio::test]
    async fn login_is_wanted_where_it_is_set() {
        let login = Login { user: "me".into(), password: "secret".into() };
        let request = [5, 1, 0, 1, 192, 0, 2, 7, 1, 187];
        let with = |methods: &[u8], user: &str, password: &str| {
            let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
            [&[5, methods.len() as u8], methods, &[1], &text(user)[..], &text(password), &request]
                .concat()
        };
        let (got, back) = given(&with(&[0, 2], "me", "secret"), Some(&login)).await;
        assert_eq!((got.as_str(), &back[..]), ("192.0.2.7:443", &[5, 2, 1, 0][..]));
        for (user, password) in [("me", "Secret"), ("you", "secret"), ("me", ""), ("", "")] {
            let (got, back) = given(&with(&[2], user, password), Some(&login)).await;
            assert_eq!((got.as_str(), &back[..]), ("name or password is wrong", &[5, 2, 1, 1][..]));
        }
        let (_, back) = given(&with(&[0], "me", "secret"), Some(&login)).await;
        assert_eq!(back, [5, 255]);
    }

    #[tokio::test]
    async fn wrong_passwords_of_one_machine_run_out() {
        let login = Login { user: "me".into(), password: "secret".into() };
        let guesses = Guesses::default();
        let shown = async |client: &str, password: &str| {
            let client = (&guesses, client.parse().unwrap());
            login.is_shown(client, (b"me", password.as_bytes())).await
        };
        for n in 0..200 {
            let tried = shown(&format!("127.0.0.{n}"), "wrong").await;
            assert_eq!(tried.is_ok(), n < 10, "{n}");
        }
        // Also the right one is not tried any more: otherwise guessing could go on.
        assert!(shown("::1", "secret").await.is_err());
        assert_eq!(shown("192.0.2.1", "secret").await, Ok(true));
    }

    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| runtime::Builder::new_current_thread().build().unwrap());

    /// What is taken names a server that can be asked for, and was answered with a method and no more.
    fn socks_input(input: &[u8]) -> bool {
        let login = Login { user: "me".into(), password: "secret".into() };
        let logins = [None, Some(&login)];
        let servers = logins.map(|login| {
            let mut back = Vec::new();
            let mut socket = tokio::io::join(input, &mut back);
            let guesses = Guesses::default();
            let asks = login.map(|login| by(login, &guesses));
            let server = RUNTIME.block_on(asked(&mut socket, asks)).ok()?;
            assert_ne!(server.port, 0);
            assert_eq!(server.to_string().parse(), Ok(server.clone()));
            let method = if login.is_some() {
                &[VERSION, BY_LOGIN, LOGIN_VERSION, 0][..]
            } else {
                &[VERSION, NO_LOGIN]
            };
            assert_eq!(back, method);
            Some(server)
        });
        servers.iter().any(Option::is_some)
    }

    #[test]
    fn mutated_requests_are_read_or_refused() {
        crate::fuzz_tests::run("socks", 100_000, socks_input);
    }
}
