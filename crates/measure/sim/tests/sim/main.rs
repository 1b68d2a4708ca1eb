// SPDX-License-Identifier: GPL-2.0-or-later
//! Simulated TCP against closed forms, published cells and its own earlier results.

mod capture;
mod common;
mod determinism;
mod golden;
mod impairments;
mod kept;
mod kernel;
mod limits;
mod ns2;
mod pacing;
mod protocol;
mod queue;
mod response;
mod theory;
mod traffic;
mod validation_page;
