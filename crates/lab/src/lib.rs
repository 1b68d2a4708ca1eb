// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a scenario by any method and archives it.
