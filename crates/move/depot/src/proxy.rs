// SPDX-License-Identifier: GPL-2.0-or-later
//! The depot as an HTTP proxy of its clients (`[proxy]`): CONNECT and absolute URLs of http.
//!
//! ```text
//! access    authentication, and a plan for a session to the server
//! connect   CONNECT: the client has the session's bytes to itself
//! ```
//! Both kinds of request come to the listeners for all other requests: no session, TLS handshake or route looks like
//! CONNECT, and only clients of a proxy send absolute URLs. A separate port would need limits, TLS and admission again.
//! A tunnel is a session that the depot opens itself, as for `[[tcp]]`. A request for a URL is an exchange as for a
//! route ([`crate::http`]), so the same framing rules apply. Its connection leads to the server, or, with `via`, is
//! a session through those depots for this one request.
//!
//! Threats and defences. `tests/depot/proxy` tests each.
//! - Open proxy: each request needs a password or a ticket. A configuration that has neither is refused.
//! - Access to this host or its networks: `allow.servers` must list the server, and its resolved addresses are judged as
//!   for all next hops ([`crate::admission::rules`]). The depot connects to the addresses that were judged.
//! - Loops: the depot's own names and addresses are refused as servers (508), and requests carry `Via`.
//! - Guessing: see [`relay::guesses`]. A wrong name takes as long as a wrong password.
//! - Smuggling: heads are parsed and printed again, CONNECT with a body is refused, and `Host` comes from the URL.
//! - Passwords sent to servers: hop-by-hop fields, `Proxy-Authorization` among them, are not passed on.
//! - Slow heads and many connections: `timeouts.request_head` and `limits`, as for all clients.

mod access;
mod connect;

pub(crate) use access::admit;
pub(crate) use connect::connect;

use crate::config::Config;
use protocol::{Authority, Host, OriginUrl, http::RequestHead};
use relay::tcp::Stream;

/// Whether a request is for the proxy: it has an absolute URL, which is not this depot's own or a site's.
pub(crate) fn is_asked(request: &RequestHead, client: &Stream, config: &Config) -> bool {
    if config.proxy.is_none() {
        return false;
    }
    let url = request.url.as_ref().and_then(|url| OriginUrl::of_proxy(url).ok());
    url.is_some_and(|url| {
        !is_own(url.authority(), client, config) && config.site_of(request).is_none()
    })
}

/// Whether a client that asks this server asks the depot itself. Names that are not in the configuration are not looked
/// up for this: anybody may ask.
fn is_own(server: &Authority, client: &Stream, config: &Config) -> bool {
    let here = client.tcp().local_addr().is_ok_and(|here| {
        let here = (here.ip().to_canonical(), here.port());
        matches!(server.host, Host::Ip(ip) if (ip.to_canonical(), server.port) == here)
    });
    here || config.names.iter().any(|name| name.authority == *server)
}
