/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Leaf functions that keep their state below the stack pointer across many blocks. */
#include "check.h"

uint64_t redzone_asm(uint64_t x); /* redzone.S: all sixteen slots of the red zone */

/* Fifteen volatile slots: the compiler leaves them under rsp, since nothing is called. */
NOINLINE uint64_t redzone_leaf(uint64_t x);
NOINLINE uint64_t redzone_leaf(uint64_t x)
{
	volatile uint64_t slot[13];
	uint64_t sum = 0;

	for (int i = 0; i < 13; i++)
		slot[i] = x * (uint64_t)(i + 1);
	if (x & 1)
		slot[3] += 5;
	else
		slot[4] ^= 7;
	if (x & 2)
		slot[12] = slot[0] + 1;
	for (int i = 12; i >= 0; i--)
		sum = sum * 31 + slot[i];
	return sum;
}

/* Byte stores and loads, indexed by data. */
NOINLINE uint64_t redzone_bytes(uint64_t x);
NOINLINE uint64_t redzone_bytes(uint64_t x)
{
	volatile unsigned char slot[96];
	uint64_t sum = 0;

	for (unsigned i = 0; i < sizeof slot; i++)
		slot[i] = (unsigned char)(x >> (i & 31));
	for (unsigned i = 0; i < sizeof slot; i++) {
		if (slot[i] & 4)
			slot[slot[i] % sizeof slot] ^= 0x5a;
		sum = sum * 3 + slot[i];
	}
	return sum;
}

static uint64_t leaf_model(uint64_t x)
{
	uint64_t *slot = calloc(13, sizeof *slot), sum = 0;

	for (int i = 0; i < 13; i++)
		slot[i] = x * (uint64_t)(i + 1);
	slot[x & 1 ? 3 : 4] = x & 1 ? slot[3] + 5 : slot[4] ^ 7;
	slot[12] = x & 2 ? slot[0] + 1 : slot[12];
	for (int i = 12; i >= 0; i--)
		sum = sum * 31 + slot[i];
	free(slot);
	return sum;
}

static uint64_t bytes_model(uint64_t x)
{
	unsigned char *slot = malloc(96);
	uint64_t sum = 0;

	for (unsigned i = 0; i < 96; i++)
		slot[i] = (unsigned char)(x >> (i & 31));
	for (unsigned i = 0; i < 96; i++) {
		if (slot[i] & 4)
			slot[slot[i] % 96] ^= 0x5a;
		sum = sum * 3 + slot[i];
	}
	free(slot);
	return sum;
}

static uint64_t asm_model(uint64_t x)
{
	uint64_t sum = x + (x & 1 ? 0x1116 : 0x111a);

	for (uint64_t i = 1; i <= 14; i++)
		sum += x * i;
	return sum;
}

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u;

		CHECK(redzone_leaf(x) == leaf_model(x), "leaf(%#lx) is wrong", (unsigned long)x);
		CHECK(redzone_bytes(x) == bytes_model(x), "bytes(%#lx) is wrong", (unsigned long)x);
		CHECK(redzone_asm(x) == asm_model(x), "asm(%#lx) is wrong", (unsigned long)x);
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "redzone", 2000, one_round);
}
