/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * second ADDRESS BYTES: a second client, which puts a jump over these bytes of kernel text, given as hexadecimal digits;
 * the instructions run anywhere. Prints what the driver says, status and detail, and ends with its input.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "ilk_abi.h"

static void jump(unsigned char *at, __u64 from, __u64 to)
{
	int distance = to - from - 5;

	at[0] = 0xe9;
	memcpy(at + 1, &distance, 4);
}

int main(int argc, char **argv)
{
	static unsigned char fill_message[sizeof(struct ilk_fill) + 64];
	static unsigned char apply_message[sizeof(struct ilk_apply) + sizeof(struct ilk_unit)];
	struct ilk_fill *fill = (void *)fill_message;
	struct ilk_apply *apply = (void *)apply_message;
	struct ilk_unit *unit = apply->unit;
	struct ilk_arena arena = { { sizeof(arena), ILK_PROTOCOL }, 4096, 0 };
	int driver = open(ILK_DEVICE, O_RDWR), length = 0;

	if (argc < 3 || driver < 0 || ioctl(driver, ILK_ARENA, &arena))
		return 1;
	unit->address = strtoull(argv[1], NULL, 16);
	for (const char *digits = argv[2]; sscanf(digits, "%2hhx", &unit->old[length]) == 1 && length < ILK_WINDOW - 1; digits += 2)
		length++;
	unit->patch = unit->copy = arena.address;
	unit->id = 1;
	unit->kind = ILK_MULTI;
	unit->length = length;
	memset(unit->new, 0x90, length);
	jump(unit->new, unit->address, unit->patch);
	fill->head = (struct ilk_head){ sizeof(fill_message), ILK_PROTOCOL };
	fill->address = arena.address;
	fill->bytes = length + 5;
	memcpy(fill->content, unit->old, length);
	jump(fill->content + length, unit->patch + length, unit->address + length);
	apply->head = (struct ilk_head){ sizeof(apply_message), ILK_PROTOCOL };
	apply->count = 1;
	if (ioctl(driver, ILK_FILL, fill) || ioctl(driver, ILK_APPLY, apply))
		return 2;
	printf("%u %llx\n", unit->status, (unsigned long long)unit->detail);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
