// SPDX-License-Identifier: GPL-2.0-or-later
//! What is compared with what, what it is called, and what is refused.
