// SPDX-License-Identifier: GPL-2.0-or-later
//! The relay daemon: listeners, admission, relay engine; and a small origin server.
