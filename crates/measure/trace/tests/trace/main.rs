// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of captures.

mod compared;
mod curves;
mod files;
mod fuzz;
mod hostile;
mod limits;
mod outputs;
mod reader;
mod rules;
mod script;
mod segments;
mod table;
mod truth;
