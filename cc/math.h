/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * math.h: logarithms, powers and the cube root in integers. Qn means scaled by 2^n.
 *
 * No table, no loop, and no division but where one is named, so that the kernel's verifier takes
 * it all. The errors stated are bounds over the whole valid range.
 */
#ifndef CC_MATH_H
#define CC_MATH_H

#include "cc.h"

#define CC_ONE_Q16 65536
#define CC_LN2_Q16 45426	/* ln 2 = 0.693147 */
#define CC_LOG2_E_Q16 94548	/* 1 / ln 2 = 1.442695 */

/* floor(log2 x), 0 for 0. By halving: __builtin_clzll crashes clang 14 for BPF. */
CC_INLINE u32 cc_log2_floor(u64 x)
{
	u32 bits = 0, step;

	step = (x >> 32 != 0) << 5; x >>= step; bits += step;
	step = (x >> 16 != 0) << 4; x >>= step; bits += step;
	step = (x >> 8 != 0) << 3; x >>= step; bits += step;
	step = (x >> 4 != 0) << 2; x >>= step; bits += step;
	step = (x >> 2 != 0) << 1; x >>= step; bits += step;
	return bits + (x >> 1 != 0);
}

/*
 * log2 x in Q16, for every x from 1; 0 for 0. Error below 1 / 2^16. One division.
 * With x = m 2^n, 1 <= m < 2: log2 m = 2/ln 2 (z + z^3/3 + z^5/5 ...), z = (m-1)/(m+1) <= 1/3.
 */
CC_INLINE u32 cc_log2(u64 x)
{
	u32 n = cc_log2_floor(x);
	u64 m = x << (63 - n) >> 32;	/* Q31 */
	u64 z = ((m - (1ull << 31)) << 32) / (m + (1ull << 31));	/* Q32 */
	u64 z2 = z * z >> 32, sum;

	if (!x)
		return 0;
	sum = 1376961782ull;			/* 2/ln 2 / (2k+1) in Q32, k from 4 down to 0 */
	sum = 1770379434ull + (sum * z2 >> 32);
	sum = 2478531207ull + (sum * z2 >> 32);
	sum = 4130885346ull + (sum * z2 >> 32);
	sum = 12392656037ull + (sum * z2 >> 32);	/* below 2^34, z below 2^31 */
	return (n << 16) + (((sum >> 2) * z + (1ull << 45)) >> 46);
}

/*
 * 2^x, x in Q16 from -32 up to below 32 (CC_ONE_Q16 times that); the result is in Q32, so from 1 to
 * below 2^64. Error below 2^-23 of the result, and rounding down to 1 / 2^32.
 */
CC_INLINE u64 cc_exp2(s32 x)
{
	u32 shifted = (u32)x + 32 * CC_ONE_Q16;
	u64 f = shifted & 0xffff, sum;

	sum = 1453058ull;			/* (ln 2)^k / k! in Q40, k from 8 down to 0 */
	sum = 16770558ull + (sum * f >> 16);
	sum = 169363608ull + (sum * f >> 16);
	sum = 1466040222ull + (sum * f >> 16);
	sum = 10575244791ull + (sum * f >> 16);
	sum = 61027412866ull + (sum * f >> 16);
	sum = 264131837702ull + (sum * f >> 16);
	sum = 762123384786ull + (sum * f >> 16);
	sum = 1099511627776ull + (sum * f >> 16);	/* from 1 to below 2 */
	return sum << 23 >> (63 - (shifted >> 16 & 63));
}

/*
 * e^-x in Q32, x in Q16, every x; 0 where e^-x is below 2^-32. Error below 2^-14 of the result (from
 * x log2 e in Q16), and rounding down to 1 / 2^32.
 */
CC_INLINE u64 cc_exp_neg(u32 x)
{
	u64 halvings = (u64)x * CC_LOG2_E_Q16 >> 16;

	return halvings <= 32 * CC_ONE_Q16 ? cc_exp2(-(s32)halvings) : 0;
}

/*
 * The cube root, rounded down or up: off by less than 1, for every x. Two divisions.
 * 2^(log2(x) / 3) is within 2^-15 of it; one step of Newton squares that error.
 */
CC_INLINE u32 cc_cbrt(u64 x)
{
	u64 y = (cc_exp2(cc_log2(x) * 21846ull >> 16) + (1ull << 31)) >> 32;

	if (!x)
		return 0;
	return (2 * y + x / (y * y)) / 3;
}

/* Microseconds, up to 2^41 of them (25 days), as seconds in Q10, rounded down. */
CC_INLINE u64 cc_seconds(u64 us)
{
	return us * 4398047 >> 32;	/* 2^42 / 10^6 */
}

#endif
