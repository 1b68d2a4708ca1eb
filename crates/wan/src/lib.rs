// SPDX-License-Identifier: GPL-2.0-or-later
//! The netmodel in real time: TAP devices between network namespaces.
