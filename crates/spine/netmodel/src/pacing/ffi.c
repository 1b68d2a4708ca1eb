/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What src/pacing/ffi.rs calls of cc/pace.h. */
#include "pace.h"

u64 longhaul_pace_target(const struct pace_params *p, const struct pace_flow *f)
{
	return pace_target(p, f);
}

u64 longhaul_pace_capped(const struct pace_params *p, const struct pace_flow *f, struct pace_cap *c,
			 u64 now_ns)
{
	return pace_capped(p, f, c, now_ns);
}

void longhaul_pace_owe(struct pace_wire *w, u64 rate, u32 packet)
{
	pace_owe(w, rate, packet);
}

u32 longhaul_pace_frame(struct pace_wire *w)
{
	return pace_frame(w);
}

u64 longhaul_pace_join(struct pace_sum *s, u64 flow, u64 target, u64 now_ns, u64 stay_ns)
{
	return pace_join(s, flow, target, now_ns, stay_ns);
}

/* So that the mirrors are checked when they are used. */
const u64 longhaul_pace_sizes[] = {
	sizeof(struct pace_params), sizeof(struct pace_flow), sizeof(struct pace_wire),
	sizeof(struct pace_sum), sizeof(struct pace_cap),
};
