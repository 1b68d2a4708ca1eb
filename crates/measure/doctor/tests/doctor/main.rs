// SPDX-License-Identifier: GPL-2.0-or-later
//! The doctor in network namespaces that the tests make. Takes root.

mod journal;
mod path;
mod planted;
mod repair;
mod site;
mod tuned;
