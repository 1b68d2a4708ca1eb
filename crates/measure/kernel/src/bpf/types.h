/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fixed-size types, by the kernel's names: libbpf's headers need them. linux/types.h has them too,
 * but needs the headers of one architecture.
 */
#ifndef TYPES_H
#define TYPES_H

typedef __UINT8_TYPE__ __u8;
typedef __UINT16_TYPE__ __u16;
typedef __UINT32_TYPE__ __u32;
typedef __INT32_TYPE__ __s32;
typedef __UINT64_TYPE__ __u64;
typedef __INT64_TYPE__ __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#endif
