// SPDX-License-Identifier: GPL-2.0
/*
 * Whether a jump of the same function leads into a window. The client has seen to
 * that: this checks that its idea of the code and ours agree. Plans go through function after function, so what was
 * found in the one before is kept. What comes from elsewhere inbound.c knows.
 * ilk_mutex holds.
 */
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/insn.h>

#include "ilk.h"

#define LARGEST 65536u /* bytes of a function; half of them at most are jumps */

static unsigned long known_start, known_end;
static unsigned long *targets; /* ascending; room for LARGEST / 2 */
static u32 nr_targets;

int ilk_leaders_init(void)
{
	targets = kvmalloc_array(LARGEST / 2, sizeof(*targets), GFP_KERNEL);
	return targets ? 0 : -ENOMEM;
}

void ilk_leaders_exit(void)
{
	kvfree(targets);
}

static bool jumps(const struct insn *insn)
{
	u8 first = insn->opcode.bytes[0];

	return first == 0xe9 || first == 0xeb || (first >= 0x70 && first <= 0x7f) ||
	       (first >= 0xe0 && first <= 0xe3) ||
	       (first == 0x0f && (insn->opcode.bytes[1] & 0xf0) == 0x80);
}

/* The code at `at` as it was before any unit: how many bytes of it are in `code`. */
u32 ilk_leaders_code(unsigned long at, u8 *code, u32 most)
{
	const struct ilk_site *site = ilk_site_next(at);

	if (site && site->state != ILK_NEW && site->kind != ILK_FENTRY && site->kind != ILK_PAD &&
	    site->address <= at) {
		u32 from = at - site->address;

		memcpy(code, site->old + from, site->length - from);
		return site->length - from;
	}
	return copy_from_kernel_nofault(code, (void *)at, most) ? 0 : most;
}

static bool kprobed(unsigned long at)
{
	bool there;

	preempt_disable();
	there = ilk_kernel.get_kprobe((void *)at);
	preempt_enable();
	return there;
}

/* Up to what cannot be decoded, or a kprobe has changed: behind that, nothing is known. */
static void collect(unsigned long start, unsigned long end)
{
	u8 code[ILK_WINDOW];
	unsigned long at = start;
	struct insn insn;

	nr_targets = 0;
	while (at < end) {
		u32 there = ilk_leaders_code(at, code, min_t(u32, 15, end - at));
		unsigned long to;

		if (!there || kprobed(at) ||
		    ilk_kernel.insn_decode(&insn, code, there, INSN_MODE_KERN))
			return;
		at += insn.length;
		to = at + insn.immediate.value;
		if (jumps(&insn) && to > start && to < end)
			targets[nr_targets++] = to;
	}
}

static int ascending(const void *left, const void *right)
{
	unsigned long a = *(const unsigned long *)left, b = *(const unsigned long *)right;

	return a < b ? -1 : a > b;
}

static bool known(unsigned long address)
{
	unsigned long size, offset;

	if (address >= known_start && address < known_end)
		return true;
	known_end = 0;
	if (!ilk_kernel.kallsyms_lookup_size_offset(address, &size, &offset) || size > LARGEST)
		return false;
	known_start = address - offset;
	known_end = known_start + size;
	collect(known_start, known_end);
	sort(targets, nr_targets, sizeof(*targets), ascending, NULL);
	return true;
}

/* Code may have changed since the last message: a module may lie where another was. */
void ilk_leaders_forget(void)
{
	known_end = 0;
}

/* An address behind `first`, up to `last`, that a jump leads to; or 0. */
unsigned long ilk_leader(unsigned long first, unsigned long last)
{
	u32 low = 0, high;

	if (!known(first))
		return 0;
	high = nr_targets;
	while (low < high) {
		u32 middle = (low + high) / 2;

		if (targets[middle] <= first)
			low = middle + 1;
		else
			high = middle;
	}
	return low < nr_targets && targets[low] <= last ? targets[low] : 0;
}
