/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the monitor keeps of each direction, and how a packet changes it. The loader's side is
 * src/monitor/layout.rs; sizes and order are the same there.
 *
 * Packets of one device come from several processors, so all figures of a direction stand under one
 * lock and are read under it: they always agree with each other. The time of a packet is read before
 * the lock is taken; one that was overtaken meanwhile gets the time of the other, so that gaps are
 * never negative and bins are filled in order.
 */
#ifndef MONITOR_H
#define MONITOR_H

#include "frames.h"

/* Log-linear histograms: 32 slots for each power of two, below 32 one for each value. */
#define SLOT_BITS 5
#define GAP_SLOTS 1152		/* up to 2^40 ns, 18 minutes; what is longer counts there */
#define BURST_SLOTS 512		/* up to 2^20 packets */

#define RING_BINS 32768		/* a power of two; src/monitor.rs: how often they are read */

struct bpf_spin_lock {		/* linux/bpf.h */
	__u32 val;
};

struct bin {
	__u64 number;
	__u64 bytes;
	__u64 gap_bytes;
};

struct ring {
	struct bin bins[RING_BINS];
};

struct figures {
	struct bpf_spin_lock lock;
	__u32 gap_since_packet;		/* a gap frame came after the last packet */
	__u64 entries;			/* packets and gap frames as they came, for the trace */
	__u64 now_ns;			/* when the last of them came */
	__u64 packets;
	__u64 bytes;
	__u64 handovers;		/* packets, where a super-packet is one */
	__u64 super_handovers;
	__u64 super_packets;		/* what they make on the wire */
	__u64 gap_frames;
	__u64 gap_bytes;
	__u64 unspaced;			/* handed over with no gap frame since the packet before */
	__u64 first_ns;
	__u64 last_ns;
	/* The bin that is being filled; one that is full goes to the ring. */
	__u64 bin;
	__u64 bin_ends_ns;
	__u64 bin_bytes;
	__u64 bin_gap_bytes;
	__u64 gap_sum_ns;
	__u64 gap_squares_low;		/* 128 bits in all */
	__u64 gap_squares_high;
	__u64 gap_least_ns;
	__u64 gap_most_ns;
	/* The burst that goes on is in none of the figures of bursts. */
	__u64 burst_packets;
	__u64 burst_bytes;
	__u64 bursts;
	__u64 bursts_most_packets;
	__u64 bursts_most_bytes;
	__u64 gap_counts[GAP_SLOTS];
	__u64 burst_counts[BURST_SLOTS];
};

/* The place of the highest bit; clang 14 does not end on __builtin_clzll for this machine. */
static __always_inline __u32 log2_of(__u64 value)
{
	__u32 place = 0;

	for (__u32 step = 32; step; step >>= 1) {
		if (value >> step) {
			value >>= step;
			place += step;
		}
	}
	return place;
}

static __always_inline __u32 slot_of(__u64 value, __u32 slots)
{
	__u32 shift, slot;

	if (value >> SLOT_BITS == 0)
		return value;
	shift = log2_of(value) - SLOT_BITS;
	slot = (shift << SLOT_BITS) + (value >> shift);
	return slot < slots ? slot : slots - 1;
}

/* Adds a square to the sum. */
static __always_inline void add_square(struct figures *figures, __u64 value)
{
	__u64 low = value & 0xffffffff, high = value >> 32;
	__u64 cross = 2 * low * high;		/* value < 2^63: this fits */
	__u64 square = low * low;
	__u64 sum = square + (cross << 32);
	__u64 carry = sum < square;

	figures->gap_squares_low += sum;
	carry += figures->gap_squares_low < sum;
	figures->gap_squares_high += high * high + (cross >> 32) + carry;
}

/* Goes on to the bin of that time. */
static __always_inline void turn_bin(struct figures *figures, struct ring *ring, __u64 now_ns,
				     __u64 width_ns)
{
	struct bin *full;

	if (now_ns < figures->bin_ends_ns)
		return;
	if (figures->bin_bytes || figures->bin_gap_bytes) {
		full = &ring->bins[figures->bin & (RING_BINS - 1)];
		full->number = figures->bin;
		full->bytes = figures->bin_bytes;
		full->gap_bytes = figures->bin_gap_bytes;
	}
	figures->bin = now_ns / width_ns;
	figures->bin_ends_ns = (figures->bin + 1) * width_ns;
	figures->bin_bytes = 0;
	figures->bin_gap_bytes = 0;
}

static __always_inline void end_burst(struct figures *figures)
{
	__u32 slot = slot_of(figures->burst_packets, BURST_SLOTS);

	if (slot < BURST_SLOTS)		/* for the verifier */
		figures->burst_counts[slot]++;
	figures->bursts++;
	if (figures->burst_packets > figures->bursts_most_packets)
		figures->bursts_most_packets = figures->burst_packets;
	if (figures->burst_bytes > figures->bursts_most_bytes)
		figures->bursts_most_bytes = figures->burst_bytes;
	figures->burst_packets = 0;
	figures->burst_bytes = 0;
}

/* The gap before a packet: from the hand-over of the one before to its own. */
static __always_inline void add_gap(struct figures *figures, __u64 gap_ns, __u64 burst_gap_ns)
{
	__u32 slot = slot_of(gap_ns, GAP_SLOTS);

	if (slot < GAP_SLOTS)		/* for the verifier */
		figures->gap_counts[slot]++;
	figures->gap_sum_ns += gap_ns;
	add_square(figures, gap_ns);
	if (figures->handovers == 1 || gap_ns < figures->gap_least_ns)
		figures->gap_least_ns = gap_ns;
	if (gap_ns > figures->gap_most_ns)
		figures->gap_most_ns = gap_ns;
	if (!figures->gap_since_packet)
		figures->unspaced++;
	if (figures->gap_since_packet || gap_ns > burst_gap_ns)
		end_burst(figures);
}

static __always_inline void add_packet(struct figures *figures, const struct frame *frame,
				       __u64 burst_gap_ns)
{
	if (figures->handovers)
		add_gap(figures, figures->now_ns - figures->last_ns, burst_gap_ns);
	else
		figures->first_ns = figures->now_ns;
	figures->last_ns = figures->now_ns;
	figures->gap_since_packet = 0;
	figures->handovers++;
	figures->packets += frame->frames;
	figures->bytes += frame->bytes;
	figures->bin_bytes += frame->bytes;
	figures->burst_packets += frame->frames;
	figures->burst_bytes += frame->bytes;
	if (frame->frames > 1) {
		figures->super_handovers++;
		figures->super_packets += frame->frames;
	}
}

static __always_inline void add_gap_frame(struct figures *figures, const struct frame *frame)
{
	figures->gap_since_packet = 1;
	figures->gap_frames += frame->frames;
	figures->gap_bytes += frame->bytes;
	figures->bin_gap_bytes += frame->bytes;
}

#endif
