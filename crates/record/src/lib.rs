// SPDX-License-Identifier: GPL-2.0-or-later
//! A run's record: manifest, series, summary; metrics computed from them.
