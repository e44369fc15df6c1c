/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The segments of the running thread, alike in all hosts. Need: the types of gilk_abi.h. */
#ifndef GILK_HOST_SEGMENTS_H
#define GILK_HOST_SEGMENTS_H

#include "../abi/gilk_abi.h"

enum host_segment { HOST_CS, HOST_SS, HOST_DS, HOST_ES, HOST_FS };

/* Load the selector of a segment, or of FS the base. Returns 0 if there is no such segment. */
static inline int host_segment(gilk_u64 which, gilk_u64 *to)
{
	switch (which) {
	case HOST_CS:
		__asm__ volatile("mov %%cs, %0" : "=r"(*to));
		return 1;
	case HOST_SS:
		__asm__ volatile("mov %%ss, %0" : "=r"(*to));
		return 1;
	case HOST_DS:
		__asm__ volatile("mov %%ds, %0" : "=r"(*to));
		return 1;
	case HOST_ES:
		__asm__ volatile("mov %%es, %0" : "=r"(*to));
		return 1;
	case HOST_FS:
		__asm__ volatile("rdfsbase %0" : "=r"(*to));
		return 1;
	}
	return 0;
}

#endif
