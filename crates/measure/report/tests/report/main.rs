// SPDX-License-Identifier: GPL-2.0-or-later
//! Pages made of records.

mod page;
mod synthetic;
