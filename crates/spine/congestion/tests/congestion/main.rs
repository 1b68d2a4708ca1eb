// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion controls against references written separately, and their documents.

mod bbr;
mod docs;
mod face;
mod file;
mod path;
mod reference;
mod response;
mod targets;
