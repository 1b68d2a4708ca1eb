// SPDX-License-Identifier: GPL-2.0-or-later
//! Every algorithm of `cc/` against a model of it in floats, written from its paper or RFC alone.
//! See `reference/compare.rs` for what is compared, and how close.

#![allow(clippy::doc_markdown, reason = "W_cubic, BBRSaveCwnd: as the papers write them")]
#![allow(clippy::struct_excessive_bools, reason = "a model's state is what its paper names")]
#![allow(clippy::float_cmp, reason = "whole segments are exact")]

mod bbr;
mod bic;
mod compare;
mod cubic;
mod fast;
mod highspeed;
mod htcp;
mod libra;
mod model;
mod path;
mod recovery;
mod reno;
mod scalable;
