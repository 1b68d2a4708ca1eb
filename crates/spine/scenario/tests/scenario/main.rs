// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenario files: what they mean, what is refused and how, and how they expand into runs.

mod capture;
mod count;
mod discipline;
mod event;
mod expand;
mod expanded;
mod files;
mod hostile;
mod impairments;
mod pacing;
mod refused;
mod routes;
mod tcp;
mod traffic;
