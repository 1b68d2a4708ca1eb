// SPDX-License-Identifier: GPL-2.0-or-later
//! Access control: which clients the depot serves, and which next hops it connects to.

pub(crate) mod address_class;
pub(crate) mod allowance;
pub(crate) mod denied;
pub(crate) mod identity;
pub(crate) mod limit_reached;
pub(crate) mod limits;
pub(crate) mod listed_names;
pub(crate) mod logins;
pub(crate) mod passwords;
pub(crate) mod rules;
pub(crate) mod ticket_client;
pub(crate) mod trust;
pub(crate) mod verdict;
