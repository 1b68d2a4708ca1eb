/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The largest value of a sliding window of rounds, by the three-sample filter of K. Nichols: the best of
 * the window, of what came after the best, and of what came after the second, the latter two taken anew
 * when a quarter and a half of the window have passed since the best without them.
 */
#ifndef CC_WINDOWED_MAX_H
#define CC_WINDOWED_MAX_H

#include "cc.h"

/* A value, and the round that saw it, which wraps. */
struct cc_sample {
	u64 value : 40, round : 24;
};

struct cc_windowed_max {
	struct cc_sample best, second, third;
};

CC_INLINE u32 cc_sample_age(struct cc_sample sample, u32 round)
{
	return (round - (u32)sample.round) & 0xffffff;
}

CC_INLINE void cc_windowed_max_add(struct cc_windowed_max *w, u64 value, u32 round, u32 window)
{
	struct cc_sample new = { .value = value, .round = round };

	if (value >= w->best.value || cc_sample_age(w->third, round) > window) {
		w->best = w->second = w->third = new;
		return;
	}
	if (value >= w->second.value)
		w->second = w->third = new;
	else if (value >= w->third.value)
		w->third = new;
	if (cc_sample_age(w->best, round) > window) {
		w->best = w->second;
		w->second = w->third;
		w->third = new;
		if (cc_sample_age(w->best, round) > window) {
			w->best = w->second;
			w->second = new;
		}
	} else if (w->second.round == w->best.round && cc_sample_age(w->best, round) > window / 4) {
		w->second = w->third = new;
	} else if (w->third.round == w->second.round && cc_sample_age(w->best, round) > window / 2) {
		w->third = new;
	}
}

#endif
