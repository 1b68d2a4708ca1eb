// SPDX-License-Identifier: GPL-2.0-or-later
//! Pages made of records.

mod congestion_pictures;
mod page;
mod synthetic;
