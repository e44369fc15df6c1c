/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Addresses of interest: given as (image name, link-time address), found at run time by an exact hash of the
 * program counter, as images come and go.
 */
#ifndef PLACES_H
#define PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct place {
	char *image;
	uint64_t address;
	uint64_t count;
};

struct places {
	struct place *all;
	long count;
	/* Open addressing over run-time addresses; index is -1 where a slot is free. */
	struct slot {
		uint64_t address;
		long index;
	} *slots;
	uint64_t mask;
};

/* Where one executable segment of an image lies. */
struct span {
	uint64_t start, end, bias;
	char *image;
};

struct spans {
	struct span *all;
	long count;
};

/* Reads lines "IMAGE HEXADDRESS"; exits with a message if it cannot. */
void places_read(struct places *places, const char *path);

/* Fills `spans` from /proc/PID/maps: executable mappings of ELF files, named by the last part of their path. */
void spans_read(struct spans *spans, pid_t pid);

/* The span an address is in, or NULL. */
const struct span *spans_find(const struct spans *spans, uint64_t address);

/* Makes the hash anew for images where they are now. */
void places_resolve(struct places *places, const struct spans *spans);

/* Index of the place at run-time address `address`, or -1. */
long places_find(const struct places *places, uint64_t address);

#endif
