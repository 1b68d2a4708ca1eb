// SPDX-License-Identifier: GPL-2.0-or-later
//! Records to one self-contained HTML page.
