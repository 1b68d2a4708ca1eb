// SPDX-License-Identifier: GPL-2.0-or-later
//! The engine with a method of its own, and archives.

mod archive;
mod engine;
mod scripted;
