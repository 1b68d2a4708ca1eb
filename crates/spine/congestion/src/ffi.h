/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What src/ffi.rs sees of an algorithm: its description, parameter sets and functions. The structs
 * are mirrored there, field by field. No header of the system: files of users are compiled without. */
#ifndef FFI_H
#define FFI_H
#include "contract.h"

struct ffi_param {
	const char *name, *unit, *what;
};

struct ffi_set {
	const char *name, *source;
	const u32 *values;	/* one for each parameter */
};

struct ffi_algorithm {
	const char *name, *title, *rule, *source;
	const struct ffi_param *params;
	const struct ffi_set *sets;
	u64 param_count, set_count, state_bytes;
	u32 rate;
	void (*init)(void *, const u32 *, const struct cc_ack *, struct cc_decision *);
	void (*rtt)(void *, const u32 *, const struct cc_ack *, struct cc_decision *);
	void (*ack)(void *, const u32 *, const struct cc_ack *, struct cc_decision *);
	void (*loss)(void *, const u32 *, const struct cc_ack *, struct cc_decision *);
	void (*event)(void *, const u32 *, const struct cc_ack *, struct cc_decision *, u32);
};

#define FFI_CALL(name, hook) \
	static void name##_##hook(void *s, const u32 *p, const struct cc_ack *a, struct cc_decision *d) \
	{ \
		cc_##name##_##hook(s, (const struct cc_##name##_params *)p, a, d); \
	}
/* The empty string before each text makes the compiler refuse what is not a string. */
#define FFI_PARAM(name, unit, what) { #name, "" unit, "" what },
/* FFI_PARAMS is defined as the algorithm's params struct while its lists are expanded. */
#define FFI_SET(set, from, ...) \
	{ #set, "" from, (const u32 *)&(const struct FFI_PARAMS){ __VA_ARGS__ } },

#define FFI_DEFINE(name) \
	FFI_CALL(name, init) FFI_CALL(name, rtt) FFI_CALL(name, ack) FFI_CALL(name, loss) \
	static void name##_event(void *s, const u32 *p, const struct cc_ack *a, \
				 struct cc_decision *d, u32 event) \
	{ \
		cc_##name##_event(s, (const struct cc_##name##_params *)p, a, d, event); \
	} \
	static const struct ffi_param name##_params[] = { cc_##name##_param_list(FFI_PARAM) }; \
	static const struct ffi_set name##_sets[] = { cc_##name##_set_list(FFI_SET) }; \
	_Static_assert(sizeof(struct cc_##name##_params) == \
		4 * sizeof(name##_params) / sizeof(name##_params[0]), "parameters are u32");

/* cc_NAME_kind as a number; an identifier that is not a macro is 0 to #if. */
#define FFI_KIND_window 1
#define FFI_KIND_rate 2
#define FFI_PASTE(kind) FFI_KIND_##kind
#define FFI_KIND(kind) FFI_PASTE(kind)

/* An algorithm of cc/algorithms.h, which says the kind to the kernel's build. */
#define FFI_LISTED(name, macro, kind) \
	_Static_assert(FFI_KIND(cc_##name##_kind) == FFI_KIND_##kind, \
		"cc/algorithms.h says " #macro "(" #name "): cc_" #name "_kind in cc/" #name \
		".h has to be " #kind);

#define FFI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FFI_ENTRY(name) \
	{ #name, "" cc_##name##_title, "" cc_##name##_rule, "" cc_##name##_source, name##_params, name##_sets, \
	  FFI_COUNT(name##_params), FFI_COUNT(name##_sets), sizeof(struct cc_##name), \
	  FFI_KIND(cc_##name##_kind) == FFI_KIND_rate, \
	  name##_init, name##_rtt, name##_ack, name##_loss, name##_event },

#endif
