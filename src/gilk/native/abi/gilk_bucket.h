/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The buckets of quantize: a power of two and all up to the next one have one, and so have their negatives. */
#ifndef GILK_BUCKET_H
#define GILK_BUCKET_H

#include "gilk_abi.h"

#define GILK_BUCKETS 127 /* lang/data.py; the middle one is that of 0 */

static inline gilk_u32 gilk_quantize_bucket(long value)
{
	gilk_u32 log;

	if (!value)
		return GILK_BUCKETS / 2;
	log = 63 - (gilk_u32)__builtin_clzl(value < 0 ? -(gilk_u64)value : (gilk_u64)value);
	if (value > 0)
		return GILK_BUCKETS / 2 + 1 + log;
	return log > GILK_BUCKETS / 2 - 1 ? 0 : GILK_BUCKETS / 2 - 1 - log;
}

#endif
