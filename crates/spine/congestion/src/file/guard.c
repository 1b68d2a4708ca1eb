/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What stands around the algorithm of a user's file, in the same shared object.
 *
 * The algorithm is compiled so that the compiler tells before every access to memory (the interface of its thread
 * sanitizer), at every block of code (that of its coverage) and instead of an undefined operation (that of its undefined
 * behaviour sanitizer). Here are the other ends, in place of the sanitizers' own libraries: they let through what the
 * contract of cc/cc.h allows. What it does not allow does not happen: `raise` unwinds to the caller of the algorithm.
 *
 * An algorithm may write its state and the decision; read besides these the acknowledgement, its parameters and its
 * constants; and use its stack. This file itself is compiled without sanitizers.
 */
#include "ffi.h"

/* Blocks of code in one call. The kernel's verifier goes through a million instructions at most. */
#define STEPS_MAX 1000000
/* Bytes of stack in one call: the kernel gives 512, and the checks themselves take some. */
#define STACK_MAX 65536

enum guard_kind {
	/* 0 to 15: enum ffi_rule */
	GUARD_READ = 16,
	GUARD_WRITE,
	GUARD_ENDLESS,
	GUARD_STACK,
	GUARD_DIVISION,
	GUARD_SHIFT,
	GUARD_OVERFLOW,
	GUARD_BOUNDS,
	GUARD_UNREACHABLE,
};

/* Mirrored in src/file/fault.rs. */
struct guard_fault {
	const void *context;		/* as given to longhaul_cc_open */
	const struct cc_ack *ack;
	u64 place;			/* of the instruction, from the start of the shared object */
	u64 address, size;		/* of the access */
	u64 state, state_bytes, params, params_bytes;	/* where they are */
	struct cc_decision before, after;
	u32 kind, hook, is_static;	/* is_static: the address is a variable of the file */
};

/* A call under way: what it may touch. */
struct guard_call {
	const char *state, *params;
	const struct cc_ack *ack;
	struct cc_decision *decision;
	struct cc_decision before;
	const void *cwnd_writer, *ssthresh_writer;
	u32 hook, steps;
};

/* The table of the algorithm as compiled, and the shared object's ends as the linker gives them. */
extern const struct ffi_algorithm longhaul_cc_unguarded[1] __attribute__((visibility("hidden")));
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

typedef void (*raise_function)(const struct guard_fault *fault) __attribute__((noreturn));

static raise_function raise;
static const void *context;
/* One pointer, so that it fits what the C library keeps for libraries that are loaded later. */
static _Thread_local struct guard_call *current __attribute__((tls_model("initial-exec")));

#define ALGORITHM (&longhaul_cc_unguarded[0])
#define CALLER __builtin_return_address(0)

static __attribute__((noreturn)) void fail(struct guard_call *call, u32 kind, const void *place,
					   const void *address, u64 size)
{
	struct guard_fault fault = {
		.context = context, .ack = call->ack, .place = (const char *)place - __ehdr_start,
		.address = (u64)address, .size = size,
		.state = (u64)call->state, .state_bytes = ALGORITHM->state_bytes, .params = (u64)call->params,
		.params_bytes = ALGORITHM->param_count * sizeof(u32),
		.before = call->before, .after = *call->decision,
		.kind = kind, .hook = call->hook,
		.is_static = (const char *)address >= __ehdr_start && (const char *)address < _end,
	};

	current = 0;
	raise(&fault);
}

static int within(const void *at, u64 size, const void *start, u64 length)
{
	u64 from = (u64)at - (u64)start;

	return from < length && size <= length - from;
}

static void note_writer(struct guard_call *call, const char *at, u64 size, const void *place)
{
	const char *cwnd = (const char *)&call->decision->cwnd;
	const char *ssthresh = (const char *)&call->decision->ssthresh;

	if (at < cwnd + sizeof(u32) && at + size > cwnd)
		call->cwnd_writer = place;
	if (at < ssthresh + sizeof(u32) && at + size > ssthresh)
		call->ssthresh_writer = place;
}

static void access(const void *at, u64 size, u32 write, const void *place)
{
	struct guard_call *call = current;

	/* No call is under way while the library is loaded. */
	if (!call || !size)
		return;
	if (within(at, size, call->state, ALGORITHM->state_bytes))
		return;
	if (within(at, size, call->decision, sizeof(*call->decision))) {
		if (write)
			note_writer(call, at, size, place);
		return;
	}
	/* The stack, from here up to what calls the algorithm. */
	if (within(at, size, __builtin_frame_address(0), (const char *)call - (const char *)__builtin_frame_address(0)))
		return;
	if (!write && (within(at, size, call->ack, sizeof(*call->ack)) ||
		       within(at, size, call->params, ALGORITHM->param_count * sizeof(u32)) ||
		       within(at, size, __ehdr_start, _end - __ehdr_start)))
		return;
	fail(call, write ? GUARD_WRITE : GUARD_READ, place, at, size);
}

static void step(const void *place)
{
	struct guard_call *call = current;

	if (!call)
		return;
	if (++call->steps > STEPS_MAX)
		fail(call, GUARD_ENDLESS, place, 0, 0);
	if ((const char *)call - (const char *)__builtin_frame_address(0) > STACK_MAX)
		fail(call, GUARD_STACK, place, 0, 0);
}

/* At each loop's turn: src/file/compile.rs has put it there, since gcc counts no loop that is empty. */
void guard_step(void) { step(CALLER); }
void __sanitizer_cov_trace_pc(void) { step(CALLER); }

void __tsan_init(void) {}
void __tsan_func_entry(void *pc) {}
void __tsan_func_exit(void) {}

#define ACCESSES(name, bytes) \
	void __tsan_read##name(void *at) { access(at, bytes, 0, CALLER); } \
	void __tsan_write##name(void *at) { access(at, bytes, 1, CALLER); } \
	void __tsan_read_write##name(void *at) { access(at, bytes, 1, CALLER); } \
	void __tsan_unaligned_read##name(void *at) { access(at, bytes, 0, CALLER); } \
	void __tsan_unaligned_write##name(void *at) { access(at, bytes, 1, CALLER); } \
	void __tsan_unaligned_read_write##name(void *at) { access(at, bytes, 1, CALLER); } \
	void __tsan_volatile_read##name(void *at) { access(at, bytes, 0, CALLER); } \
	void __tsan_volatile_write##name(void *at) { access(at, bytes, 1, CALLER); }
ACCESSES(1, 1)
ACCESSES(2, 2)
ACCESSES(4, 4)
ACCESSES(8, 8)
ACCESSES(16, 16)
void __tsan_read_range(void *at, unsigned long size) { access(at, size, 0, CALLER); }
void __tsan_write_range(void *at, unsigned long size) { access(at, size, 1, CALLER); }

/* Compilers call these for copies. Volatile, or the loops would be made into calls of themselves. */
#define COPY(name) \
	void *name(void *to, const void *from, unsigned long size) \
	{ \
		volatile char *t = to; \
		const volatile char *f = from; \
		access(from, size, 0, CALLER); \
		access(to, size, 1, CALLER); \
		if (t < f) \
			for (unsigned long i = 0; i < size; i++) t[i] = f[i]; \
		else \
			for (unsigned long i = size; i-- > 0;) t[i] = f[i]; \
		return to; \
	}
COPY(memcpy)
COPY(memmove)
COPY(__tsan_memcpy)
COPY(__tsan_memmove)
#define FILL(name) \
	void *name(void *to, int value, unsigned long size) \
	{ \
		volatile char *t = to; \
		access(to, size, 1, CALLER); \
		for (unsigned long i = 0; i < size; i++) t[i] = value; \
		return to; \
	}
FILL(memset)
FILL(__tsan_memset)
int memcmp(const void *a, const void *b, unsigned long size)
{
	const unsigned char *x = a, *y = b;

	access(a, size, 0, CALLER);
	access(b, size, 0, CALLER);
	for (unsigned long i = 0; i < size; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

/* An undefined operation. Each handler is given more than is looked at. */
#define UNDEFINED(name, kind) \
	void __ubsan_handle_##name(void *data) \
	{ \
		if (!current) \
			__builtin_trap(); \
		fail(current, kind, CALLER, 0, 0); \
	}
UNDEFINED(divrem_overflow_abort, GUARD_DIVISION)
UNDEFINED(shift_out_of_bounds_abort, GUARD_SHIFT)
UNDEFINED(add_overflow_abort, GUARD_OVERFLOW)
UNDEFINED(sub_overflow_abort, GUARD_OVERFLOW)
UNDEFINED(mul_overflow_abort, GUARD_OVERFLOW)
UNDEFINED(negate_overflow_abort, GUARD_OVERFLOW)
UNDEFINED(out_of_bounds_abort, GUARD_BOUNDS)
UNDEFINED(builtin_unreachable, GUARD_UNREACHABLE)

/* A rule is broken where what it is about was written last; at the function's start if that is not known. */
static void check(struct guard_call *call, const void *function)
{
	enum ffi_rule rule = ffi_broken_rule(ALGORITHM->rate, call->hook, &call->before, call->decision);
	const void *place = rule == FFI_SSTHRESH_SMALL ? call->ssthresh_writer : call->cwnd_writer;

	if (rule != FFI_KEPT)
		fail(call, rule, place ? place : (const char *)function + 1, 0, 0);
}

#define CALL(s, p, a, d, number) { \
	.state = s, .params = (const char *)p, .ack = a, .decision = d, .before = *d, .hook = number, \
}
#define GUARDED(name, number) \
	static void name(void *s, const u32 *p, const struct cc_ack *a, struct cc_decision *d) \
	{ \
		struct guard_call call = CALL(s, p, a, d, number); \
		current = &call; \
		ALGORITHM->name(s, p, a, d); \
		current = 0; \
		check(&call, ALGORITHM->name); \
	}
GUARDED(init, FFI_INIT)
GUARDED(rtt, FFI_RTT)
GUARDED(ack, FFI_ACK)
GUARDED(loss, FFI_LOSS)

static void event(void *s, const u32 *p, const struct cc_ack *a, struct cc_decision *d, u32 what)
{
	struct guard_call call = CALL(s, p, a, d, FFI_EVENT);

	current = &call;
	ALGORITHM->event(s, p, a, d, what);
	current = 0;
	check(&call, ALGORITHM->event);
}

/* The algorithm with these around it; `given` comes back with each fault. */
__attribute__((visibility("default")))
void longhaul_cc_open(struct ffi_algorithm *algorithm, raise_function raiser, const void *given)
{
	raise = raiser;
	context = given;
	*algorithm = *ALGORITHM;
	algorithm->init = init;
	algorithm->rtt = rtt;
	algorithm->ack = ack;
	algorithm->loss = loss;
	algorithm->event = event;
}
