// SPDX-License-Identifier: GPL-2.0
/*
 * A test at load: whether this kernel behaves as the driver assumes, tried on functions of our own. Each line of the
 * table is one way to splice; the function must return 2 while it is spliced, and 1 before and after.
 */
#include <linux/printk.h>
#include <linux/string.h>

#include "ilk.h"

int ilk_subject(void);

/* int ilk_subject(void): one 5-byte instruction to splice, then the value 1. */
asm(".pushsection .text\n"
    ".type ilk_subject, @function\n"
    ".global ilk_subject\n"
    "ilk_subject:\n"
    "	.byte 0xb8, 1, 0, 0, 0\n"
    "	" ASM_RET ".size ilk_subject, . - ilk_subject\n"
    ".popsection\n");

static const u8 original[5] = { 0xb8, 1, 0, 0, 0 };

/* patch: mov $2, %eax; jmp behind; copy: the original; jmp behind */
static void emit(unsigned long code, u8 value)
{
	u8 bytes[10] = { 0xb8, value, 0, 0, 0, 0xe9 };
	s32 distance = (unsigned long)ilk_subject + 5 - (code + 10);

	memcpy(bytes + 6, &distance, 4);
	ilk_kernel.text_poke_copy((void *)code, bytes, sizeof(bytes));
}

static void run(struct ilk_site *site, ilk_poke_fn poke)
{
	ilk_text_lock();
	site->status = poke(site);
	ilk_text_unlock();
}

static bool gives(struct ilk_site *site, ilk_poke_fn poke, int value, const char *what)
{
	int got;

	if (poke)
		run(site, poke);
	got = ilk_subject();
	if (site->status == ILK_OK && got == value)
		return true;
	pr_err("ilk: self test: %s: %d, status %u\n", what, got, site->status);
	return false;
}

static bool try_all(struct ilk_site *site)
{
	return gives(site, NULL, 1, "before") && gives(site, ilk_poke_front, 2, "jump") &&
	       gives(site, ilk_poke_back, 1, "jump taken out") &&
	       !memcmp((const void *)ilk_subject, original, sizeof(original));
}

int ilk_selftest(void)
{
	struct ilk_site site = { .kind = ILK_SINGLE,
				 .length = 5,
				 .address = (unsigned long)ilk_subject };
	unsigned long code = (unsigned long)ilk_code_alloc(PAGE_SIZE);
	s32 distance = code - (site.address + 5);
	bool good;

	if (!code)
		return -ENOMEM;
	INIT_LIST_HEAD(&site.guests);
	site.patch = code;
	site.copy = code + 64;
	memcpy(site.old, original, sizeof(original));
	site.new[0] = 0xe9;
	memcpy(site.new + 1, &distance, 4);
	emit(site.patch, 2);
	emit(site.copy, 1);
	good = try_all(&site);
	if (good)
		ilk_code_free((void *)code);
	return good ? 0 : -ENXIO; /* otherwise a CPU may still be sent there */
}
