// SPDX-License-Identifier: GPL-2.0
/*
 * Whether anything else leads into a window: a jump or call of another function
 * (a function's cold part goes back into the middle of it), the fixup of an
 * exception, the target of a static key. leaders.c knows the function's own jumps.
 *
 * One bit for every byte of text: something may lead here. Whatever looks like a
 * jump of 32 bits counts, wherever it begins; so nothing is missed, and of the few
 * that are none it is found out when one is in the way. Core text is gone through
 * once, at load; a module's, when a message first asks for it. A jump of 8 bits
 * reaches another function only in assembler. ilk_mutex holds.
 */
#include <linux/bitmap.h>
#include <linux/extable.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <asm/extable.h>
#include <asm/insn.h>

#include "ilk.h"

#define PIECE 4096u
#define LONGEST 6u /* bytes of a jump */

struct span {
	unsigned long start, end;
	unsigned long *marks;
	const struct exception_table_entry *fixups, *fixups_end;
	struct jump_entry *keys, *keys_end;
};

struct search {
	struct span *span;
	unsigned long wanted; /* 0: mark everything */
	bool seen; /* something that looks like a jump there */
	bool real; /* that is one */
};

static struct span core, module;

/* How many bytes there are before the distance; 0: no jump. */
static u32 jump_at(const u8 *code, u32 left)
{
	if ((code[0] & 0xfe) == 0xe8 && left >= 5)
		return 1;
	if (code[0] == 0x0f && left >= LONGEST && (code[1] & 0xf0) == 0x80)
		return 2;
	return 0;
}

/* Whether an instruction begins there, as the function was before any unit. */
static bool begins(unsigned long address)
{
	unsigned long size, offset, at;
	u8 code[ILK_WINDOW];
	struct insn insn;

	if (!ilk_kernel.kallsyms_lookup_size_offset(address, &size, &offset))
		return true;
	for (at = address - offset; at < address; at += insn.length) {
		u32 there = ilk_leaders_code(at, code, 15);

		if (!there || ilk_kernel.insn_decode(&insn, code, there, INSN_MODE_KERN))
			return true;
	}
	return at == address;
}

static void found(struct search *search, unsigned long from, unsigned long to)
{
	const struct span *span = search->span;

	if (to < span->start || to >= span->end)
		return;
	if (!search->wanted) {
		__set_bit(to - span->start, span->marks);
	} else if (to == search->wanted) {
		search->seen = true;
		search->real = search->real || begins(from);
	}
}

static void look(struct search *search, unsigned long at, const u8 *code, u32 count, u32 starts)
{
	u32 i;

	for (i = 0; i < starts; i++) {
		u32 front = jump_at(code + i, count - i);
		s32 distance;

		if (!front)
			continue;
		memcpy(&distance, code + i + front, sizeof(distance));
		found(search, at + i, at + i + front + sizeof(distance) + distance);
	}
}

/* Live text, and what units have taken the place of. */
static void look_through(struct search *search)
{
	static u8 code[PIECE + LONGEST];
	unsigned long at, end = search->span->end;
	const struct ilk_site *site;

	for (at = search->span->start; at < end; at += PIECE) {
		u32 starts = min_t(u32, PIECE, end - at);
		u32 count = min_t(u32, PIECE + LONGEST, end - at);

		if (!copy_from_kernel_nofault(code, (void *)at, count))
			look(search, at, code, count, starts);
		cond_resched();
	}
	for (site = ilk_site_next(search->span->start); site && site->address < end;
	     site = ilk_site_after(site))
		look(search, site->address, site->old, site->length, site->length);
}

static unsigned long fixup_of(const struct exception_table_entry *entry)
{
	return (unsigned long)&entry->fixup + entry->fixup;
}

static void mark(const struct span *span, unsigned long to)
{
	if (to >= span->start && to < span->end)
		__set_bit(to - span->start, span->marks);
}

static int fill(struct span *span)
{
	const struct exception_table_entry *fixup;
	struct search search = { .span = span };
	struct jump_entry *key;

	span->marks = kvcalloc(BITS_TO_LONGS(span->end - span->start), sizeof(long), GFP_KERNEL);
	if (!span->marks)
		return -ENOMEM;
	look_through(&search);
	for (fixup = span->fixups; fixup < span->fixups_end; fixup++)
		mark(span, fixup_of(fixup));
	for (key = span->keys; key < span->keys_end; key++)
		mark(span, jump_entry_target(key));
	return 0;
}

static bool in_tables(const struct span *span, unsigned long address)
{
	const struct exception_table_entry *fixup;
	struct jump_entry *key;

	for (fixup = span->fixups; fixup < span->fixups_end; fixup++)
		if (fixup_of(fixup) == address)
			return true;
	for (key = span->keys; key < span->keys_end; key++)
		if (jump_entry_target(key) == address)
			return true;
	return false;
}

/* What looked like a jump and is none is forgotten. What can no longer be found was one. */
static bool real(struct span *span, unsigned long address)
{
	struct search search = { .span = span, .wanted = address };

	if (in_tables(span, address))
		return true;
	look_through(&search);
	if (search.real || !search.seen)
		return true;
	__clear_bit(address - span->start, span->marks);
	return false;
}

int ilk_inbound_init(void)
{
	core = (struct span){
		.start = (unsigned long)ilk_kernel._stext,
		.end = (unsigned long)ilk_kernel._etext,
		.fixups = ilk_kernel.__start___ex_table,
		.fixups_end = ilk_kernel.__stop___ex_table,
		.keys = ilk_kernel.__start___jump_table,
		.keys_end = ilk_kernel.__stop___jump_table,
	};
	return fill(&core);
}

void ilk_inbound_exit(void)
{
	ilk_inbound_forget();
	kvfree(core.marks);
}

/* A module may lie where another was. */
void ilk_inbound_forget(void)
{
	kvfree(module.marks);
	module = (struct span){};
}

/* The caller has seen that it is live; it cannot go while ilk_mutex is held. */
static struct span *of_module(unsigned long address)
{
	struct module *owner;

	if (address >= module.start && address < module.end)
		return &module;
	ilk_inbound_forget();
	preempt_disable();
	owner = ilk_kernel.__module_text_address(address);
	preempt_enable();
	if (!owner)
		return NULL;
	module = (struct span){
		.start = (unsigned long)owner->core_layout.base,
		.end = (unsigned long)owner->core_layout.base + owner->core_layout.text_size,
		.fixups = owner->extable,
		.fixups_end = owner->extable + owner->num_exentries,
		.keys = owner->jump_entries,
		.keys_end = owner->jump_entries + owner->num_jump_entries,
	};
	if (address < module.start || address >= module.end || fill(&module)) {
		ilk_inbound_forget();
		return NULL;
	}
	return &module;
}

/* An address from `first` to `last` that something leads to; or 0. */
unsigned long ilk_inbound(unsigned long first, unsigned long last)
{
	struct span *span = ilk_in_core(first) ? &core : of_module(first);
	unsigned long at, end;

	if (!span)
		return 0;
	end = min(last + 1, span->end) - span->start;
	for (at = find_next_bit(span->marks, end, first - span->start); at < end;
	     at = find_next_bit(span->marks, end, at + 1))
		if (real(span, span->start + at))
			return span->start + at;
	return 0;
}
