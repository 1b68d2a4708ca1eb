// SPDX-License-Identifier: GPL-2.0-or-later
//! Records as they are written, read again and summed up.

mod folder;
mod metrics;
