// SPDX-License-Identifier: GPL-2.0-or-later
//! Downloads and uploads against servers that misbehave by a script.

mod alternatives;
mod answers;
mod attributes;
mod common;
mod disk;
mod faults;
mod manners;
mod many;
mod memory;
mod parallel;
mod parcels;
mod rules;
mod slices;
mod uploads;
mod versions;
