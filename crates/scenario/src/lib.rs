// SPDX-License-Identifier: GPL-2.0-or-later
//! The scenario file: parse, validate, expand a sweep into concrete runs.
