// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line as a person would call it, also wrongly, with real programs on an emulated
//! network. Takes root.

mod common;
mod demo;
mod lab;
mod wan;
