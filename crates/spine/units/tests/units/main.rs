// SPDX-License-Identifier: GPL-2.0-or-later
//! Quantities are read as they are printed; and what holds for the whole workspace, whose lowest crate
//! this is.

mod architecture;
mod back_off;
mod cycles;
mod links;
mod round_trip;
mod tables;
mod text;
mod workspace;
