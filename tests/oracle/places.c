/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "places.h"

#include <elf.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void places_read(struct places *places, const char *path)
{
	FILE *file = fopen(path, "r");
	char name[512];
	unsigned long address;
	long room = 0;

	if (!file)
		err(125, "%s", path);
	while (fscanf(file, "%511s %lx", name, &address) == 2) {
		if (places->count == room)
			places->all = realloc(places->all, (size_t)(room = room * 2 + 64) * sizeof *places->all);
		places->all[places->count++] = (struct place){ strdup(name), address, 0 };
	}
	if (!feof(file))
		errx(125, "%s: line %ld is not `image hexaddress`", path, places->count + 1);
	fclose(file);
}

/* Difference between where the segment at file offset `offset` was linked and where it is mapped, or -1. */
static uint64_t bias_of(const char *path, uint64_t offset, uint64_t start)
{
	Elf64_Ehdr header;
	uint64_t bias = UINT64_MAX;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return bias;
	if (read(fd, &header, sizeof header) == sizeof header && !memcmp(header.e_ident, ELFMAG, SELFMAG)) {
		for (int i = 0; i < header.e_phnum && bias == UINT64_MAX; i++) {
			Elf64_Phdr segment;
			off_t at = (off_t)(header.e_phoff + (uint64_t)i * header.e_phentsize);

			if (pread(fd, &segment, sizeof segment, at) != sizeof segment)
				break;
			if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && offset >= (segment.p_offset & ~4095ul) &&
			    offset < segment.p_offset + segment.p_filesz)
				bias = start - (segment.p_vaddr - segment.p_offset + offset);
		}
	}
	close(fd);
	return bias;
}

static void spans_add(struct spans *spans, uint64_t start, uint64_t end, uint64_t offset, const char *path)
{
	uint64_t bias = bias_of(path, offset, start);
	const char *slash = strrchr(path, '/');

	if (bias == UINT64_MAX)
		return;
	spans->all = realloc(spans->all, (size_t)(spans->count + 1) * sizeof *spans->all);
	spans->all[spans->count++] = (struct span){ start, end, bias, strdup(slash + 1) };
}

void spans_read(struct spans *spans, pid_t pid)
{
	char line[4096 + 128], path[4096], name[64], permissions[8];
	unsigned long start, end, offset;
	FILE *maps;

	while (spans->count)
		free(spans->all[--spans->count].image);
	snprintf(name, sizeof name, "/proc/%d/maps", pid);
	maps = fopen(name, "r");
	if (!maps)
		return;
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4095[^\n]", &start, &end, permissions, &offset, path) == 5 &&
		    permissions[2] == 'x' && *path == '/')
			spans_add(spans, start, end, offset, path);
	fclose(maps);
}

const struct span *spans_find(const struct spans *spans, uint64_t address)
{
	for (long i = 0; i < spans->count; i++)
		if (address >= spans->all[i].start && address < spans->all[i].end)
			return &spans->all[i];
	return NULL;
}

static uint64_t hash(uint64_t address)
{
	return (address * 0x9e3779b97f4a7c15u) >> 20;
}

static void insert(struct places *places, uint64_t address, long index)
{
	uint64_t at = hash(address) & places->mask;

	while (places->slots[at].index >= 0)
		at = (at + 1) & places->mask;
	places->slots[at] = (struct slot){ address, index };
}

void places_resolve(struct places *places, const struct spans *spans)
{
	if (!places->slots) {
		for (places->mask = 1023; places->mask < (uint64_t)places->count * 4;)
			places->mask = places->mask * 2 + 1;
		places->slots = malloc((places->mask + 1) * sizeof *places->slots);
	}
	for (uint64_t at = 0; at <= places->mask; at++)
		places->slots[at].index = -1;
	for (long i = 0; i < places->count; i++)
		for (long k = 0; k < spans->count; k++) {
			const struct span *span = &spans->all[k];
			uint64_t address = places->all[i].address + span->bias;

			if (address >= span->start && address < span->end && !strcmp(span->image, places->all[i].image)) {
				insert(places, address, i);
				break;
			}
		}
}

long places_find(const struct places *places, uint64_t address)
{
	uint64_t at = hash(address) & places->mask;

	for (; places->slots[at].index >= 0; at = (at + 1) & places->mask)
		if (places->slots[at].address == address)
			return places->slots[at].index;
	return -1;
}
