// SPDX-License-Identifier: GPL-2.0-or-later
//! The benchmark: its suite, measures and scores by hand, comparisons, and whether other seeds give the same order.

mod cells;
mod compared;
mod measures;
mod order;
mod scores;
mod suite;
