// SPDX-License-Identifier: GPL-2.0-or-later
//! Heads of HTTP messages.

use protocol::http::Fault;
pub(crate) use relay::tcp::read_head as read;

/// Why no head came.
pub(crate) type HeadError = relay::tcp::ReadHeadError<Fault>;
