/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an algorithm may leave in force, whatever it was told: the rules of cc/cc.h that can be checked. src/trial.rs
 * holds the algorithms of cc/ to them, src/file/guard.c those of users' files, at every call.
 */
#ifndef CONTRACT_H
#define CONTRACT_H
#include "cc.h"

/* In the order of struct ffi_algorithm. */
enum ffi_hook { FFI_INIT, FFI_RTT, FFI_ACK, FFI_LOSS, FFI_EVENT };

enum ffi_rule {
	FFI_KEPT,
	FFI_CWND_ZERO,		/* cwnd is at least 1 */
	FFI_CWND_SHRUNK,	/* a window algorithm's _ack does not make it smaller */
	FFI_CWND_MOVED,		/* nor does its _loss touch it */
	FFI_SSTHRESH_SMALL,	/* ssthresh is CC_MIN_CWND or more after a loss */
};

/* The first rule that a call has broken. */
CC_INLINE enum ffi_rule ffi_broken_rule(u32 rate, enum ffi_hook hook, const struct cc_decision *before,
					const struct cc_decision *after)
{
	if (!after->cwnd)
		return FFI_CWND_ZERO;
	if (!rate && hook == FFI_ACK && after->cwnd < before->cwnd)
		return FFI_CWND_SHRUNK;
	if (!rate && hook == FFI_LOSS && after->cwnd != before->cwnd)
		return FFI_CWND_MOVED;
	if (hook == FFI_LOSS && after->ssthresh < CC_MIN_CWND)
		return FFI_SSTHRESH_SMALL;
	return FFI_KEPT;
}

#endif
