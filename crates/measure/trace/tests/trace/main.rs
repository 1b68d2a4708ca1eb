// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of captures.

mod files;
mod hostile;
mod outputs;
mod reader;
mod rules;
mod script;
mod segments;
mod table;
mod truth;
