// SPDX-License-Identifier: GPL-2.0
/*
 * Decodes the function that a place lies in, and tells whether a jump of the function leads there, and whether the
 * instruction before it may run into it. The client has made sure that neither happens; the driver checks that both
 * agree about the code. Plans go through one function after the other, so the findings about the last one are kept.
 * xrefs.c finds jumps from other functions. ilk_mutex is held.
 *
 * A function is decoded from its start up to bytes that cannot be decoded, or that a kprobe has changed. Nothing is
 * known about the code behind these, nor about the places that its short jumps may reach.
 */
#include <linux/kallsyms.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/sched/signal.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/insn.h>

#include "ilk.h"

#define LARGEST 65536u /* bytes of a function, which has at most half as many jumps */
#define BACK_8 126u /* how many bytes before itself a short jump reaches */

/* Padding: its first byte and its end. The code before it ends in a jump or a return. */
struct rest {
	u32 start, end; /* from known_start */
};

static unsigned long known_start, known_end;
static unsigned long read_end; /* known_end, or the place where decoding has stopped before */
static unsigned long *targets; /* ascending; room for LARGEST / 2 */
static struct rest *rests; /* ascending; room for LARGEST / 2 */
static u32 nr_targets, nr_rests;

int ilk_branch_targets_init(void)
{
	targets = kvmalloc_array(LARGEST / 2, sizeof(*targets), GFP_KERNEL);
	rests = kvmalloc_array(LARGEST / 2, sizeof(*rests), GFP_KERNEL);
	if (targets && rests)
		return 0;
	ilk_branch_targets_exit();
	return -ENOMEM;
}

void ilk_branch_targets_exit(void)
{
	kvfree(targets);
	kvfree(rests);
}

static bool jumps(const struct insn *insn)
{
	u8 first = insn->opcode.bytes[0];

	return first == 0xe9 || first == 0xeb || (first >= 0x70 && first <= 0x7f) ||
	       (first >= 0xe0 && first <= 0xe3) ||
	       (first == 0x0f && (insn->opcode.bytes[1] & 0xf0) == 0x80);
}

/*
 * Whether control never continues behind the instruction. It may behind ud2 (a WARN), int3, hlt and calls, except calls
 * of functions that are known never to return.
 */
static bool ends(const struct insn *insn, unsigned long behind)
{
	u8 first = insn->opcode.bytes[0];
	u8 group = X86_MODRM_REG(insn->modrm.value);

	if (first == 0xe8)
		return ilk_never_returns(behind + insn->immediate.value);
	return first == 0xe9 || first == 0xeb || first == 0xc3 || first == 0xc2 || first == 0xca ||
	       first == 0xcb || first == 0xcf || (first == 0xff && (group == 4 || group == 5));
}

static bool is_padding(const struct insn *insn)
{
	u8 first = insn->opcode.bytes[0];

	return first == 0x90 || first == 0xcc || (first == 0x0f && insn->opcode.bytes[1] == 0x1f);
}

/* Copy the code at `at` as it was before any unit changed it. Returns how many bytes `code` has. */
static u32 original(unsigned long at, u8 *code, u32 most)
{
	const struct ilk_site *site = ilk_site_next(at);

	if (site && site->state != ILK_NEW && site->kind != ILK_FENTRY && site->address <= at) {
		u32 from = at - site->address;

		memcpy(code, site->old + from, site->length - from);
		return site->length - from;
	}
	return copy_from_kernel_nofault(code, (void *)at, most) ? 0 : most;
}

/*
 * Decode the instruction at `at` as it was before any unit changed it. False: it is unknown. Nobody writes text
 * meanwhile.
 */
bool ilk_instruction_at(unsigned long at, unsigned long end, struct insn *insn)
{
	u8 code[ILK_WINDOW];
	u32 there = original(at, code, min_t(unsigned long, 15, end - at));

	return there && !ilk_kprobed(at, at) &&
	       !ilk_kernel.insn_decode(insn, code, there, INSN_MODE_KERN);
}

static void note_target(unsigned long to)
{
	if (to > known_start && to < known_end)
		targets[nr_targets++] = to;
}

static void note_rest(unsigned long from, unsigned long to, bool goes_on)
{
	if (!goes_on)
		rests[nr_rests++] = (struct rest){ from - known_start, from - known_start };
	rests[nr_rests - 1].end = to - known_start;
}

static void collect(void)
{
	unsigned long at = known_start;
	struct insn insn;
	bool resting = false;

	while (at < known_end && ilk_instruction_at(at, known_end, &insn)) {
		unsigned long behind = at + insn.length;

		if (jumps(&insn))
			note_target(behind + insn.immediate.value);
		if (resting && is_padding(&insn)) {
			note_rest(at, behind, true);
		} else {
			resting = ends(&insn, behind);
			if (resting)
				note_rest(behind, behind, false);
		}
		at = behind;
	}
	read_end = min(at, known_end);
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
	if (!ilk_text_hold())
		return false;
	known_start = address - offset;
	known_end = known_start + size;
	nr_targets = nr_rests = 0;
	collect();
	ilk_text_let_go();
	sort(targets, nr_targets, sizeof(*targets), ascending, NULL);
	return true;
}

/* Forget the findings: code may have changed since the last message, as when a module lies where another one was. */
void ilk_branch_targets_forget(void)
{
	known_end = 0;
}

static unsigned long first_target(unsigned long from)
{
	u32 low = 0, high = nr_targets;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (targets[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < nr_targets ? targets[low] : ULONG_MAX;
}

/* Whether a jump of the function leads to one of the bytes from `first` to `last`. */
u32 ilk_branch_target(unsigned long first, unsigned long last, u64 *detail)
{
	if (!known(first)) {
		*detail = first;
		return ILK_UNREAD;
	}
	*detail = first_target(first);
	if (*detail <= last)
		return ILK_LEADER;
	*detail = read_end;
	if (read_end < known_end && last + BACK_8 >= read_end)
		return ILK_UNREAD;
	*detail = 0;
	return ILK_OK;
}

static const struct rest *rest_over(u32 from, u32 to)
{
	u32 low = 0, high = nr_rests;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (rests[middle].end <= from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < nr_rests && rests[low].start <= from && to < rests[low].end ? &rests[low] : NULL;
}

/*
 * Find the padding that has all bytes from `first` to `last`; *start is its beginning. It is refused if code runs into
 * it.
 */
u32 ilk_rest(unsigned long first, unsigned long last, unsigned long *start, u64 *detail)
{
	const struct rest *rest;

	*detail = first;
	if (!known(first))
		return ILK_UNREAD;
	if (read_end <= last && read_end < known_end) {
		*detail = read_end;
		return ILK_UNREAD;
	}
	rest = rest_over(first - known_start, last - known_start);
	if (!rest)
		return ILK_RUN_INTO;
	*start = known_start + rest->start;
	*detail = 0;
	return ILK_OK;
}
