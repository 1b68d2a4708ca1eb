// SPDX-License-Identifier: GPL-2.0-or-later
//! Heads of HTTP messages.

pub(crate) use relay::tcp::read_head as read;
use session::message::Fault;

/// Why no head came.
pub(crate) type HeadError = relay::tcp::ReadHeadError<Fault>;
