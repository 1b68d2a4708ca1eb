// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP signalling and sessions: wire formats and rules of a route through depots. No I/O, no clock.
//!
//! An ordinary client asks the origin; the origin answers 302 with a [`Route`] in the URL; the
//! client asks a depot; each depot takes one [`Step`] along the route: it leads the client on to
//! the next depot, or it fetches through the rest of the chain (Augusto et al., section 4). The
//! module [`http`] says how the heads of requests and responses change on the way and how
//! long a body is. `docs/protocol.md` is the specification; a test holds it to this code.
//!
//! A [`ticket`] does what a route does, signed with a key that the depots trust. [`digest`] reads
//! and prints digests of bodies. [`session`] is for what is not HTTP: sessions (`docs/lsl.md`).
//! An [`announcement`]
//! is what a depot tells others of itself. [`proxy_protocol`] tells a plain server whose connection it has. [`catch_panic`] is for all who answer requests.

pub mod announcement;
mod authority;
mod depot_address;
mod depot_id;
pub mod digest;
pub mod http;
mod origin;
mod panics;
pub mod proxy_protocol;
mod route;
pub mod session;
mod step;
pub mod ticket;

pub use authority::{Authority, AuthorityError, Host, within_url};
pub use depot_address::{DEPOT_PORT, DepotAddress};
pub use depot_id::{DepotId, DepotIdError};
pub use origin::{OriginError, OriginUrl, Scheme, asks_directly};
pub use panics::{Caught, Panicked, catch_panic};
pub use route::{
    Form, MAX_DEPOTS, MAX_ROUTE_LEN, PREFIX, Redirect, Route, RouteError, check_depots,
};
pub use step::{Fetch, Step};
