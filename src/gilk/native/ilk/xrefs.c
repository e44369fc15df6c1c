// SPDX-License-Identifier: GPL-2.0
/*
 * Finds out whether other code leads into a window: a jump or call of another function (the cold part of a function
 * jumps back into the middle of it), the fixup of an exception, or the target of a static key. branch_targets.c knows
 * the function's own jumps.
 *
 * All bytes that look like a 32-bit jump are recorded by their target, wherever they begin, and so are jumps that an
 * int3 may hide. So no jump is missed. If a recorded jump is in the way, its function is decoded to find out whether it
 * is a real one. Core text is scanned once, when the driver is loaded; a module's text when a message first asks for
 * it. Short jumps reach other functions in assembler code only. ilk_mutex is held.
 */
#include <linux/extable.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <asm/extable.h>
#include <asm/insn.h>

#include "ilk.h"

#define PIECE 4096u
#define LONGEST 6u /* bytes of a jump */
#define GROUP 64u /* bytes of text whose xrefs are kept together */
#define TABLE (~0u) /* in `from`: the entry comes from a table */
#define NONE (~0u - 1) /* in `from`: it is no jump */
#define READ_AT_ONCE 256u /* instructions between two checks for a signal */

/* Offsets from the start of the span. */
struct xref {
	u32 from, to;
};

struct xrefs {
	struct xref *all;
	u32 count, room;
};

struct span {
	unsigned long start, end;
	struct xref *xrefs; /* group by group */
	u32 *firsts; /* of each group, and the end of the last */
	const struct exception_table_entry *fixups, *fixups_end;
	struct jump_entry *keys, *keys_end;
};

static struct span core, module;

static u32 groups_of(const struct span *span)
{
	return (span->end - span->start) / GROUP + 1;
}

static bool grow(struct xrefs *xrefs)
{
	u32 room = max(2 * xrefs->room, 4096u);
	struct xref *all = kvmalloc_array(room, sizeof(*all), GFP_KERNEL);

	if (!all)
		return false;
	memcpy(all, xrefs->all, xrefs->count * sizeof(*all));
	kvfree(xrefs->all);
	xrefs->all = all;
	xrefs->room = room;
	return true;
}

/* Record a jump. False: no memory. */
static bool note(const struct span *span, struct xrefs *xrefs, u32 from, unsigned long to)
{
	if (to < span->start || to >= span->end)
		return true;
	if (xrefs->count == xrefs->room && !grow(xrefs))
		return false;
	xrefs->all[xrefs->count++] = (struct xref){ from, to - span->start };
	return true;
}

static unsigned long jumps_to(unsigned long at, const u8 *code, u32 front)
{
	s32 distance;

	memcpy(&distance, code + front, sizeof(distance));
	return at + front + sizeof(distance) + distance;
}

/* Scan `count` bytes of text; a jump may begin in the first `starts` of them. An int3 may be a kprobe over a jump. */
static bool look(const struct span *span, struct xrefs *xrefs, unsigned long at, const u8 *code,
		 u32 count, u32 starts)
{
	u32 i;

	for (i = 0; i < starts; i++) {
		bool hidden = code[i] == 0xcc, good = true;
		u32 from = at + i - span->start;

		if (((code[i] & 0xfe) == 0xe8 || hidden) && count - i >= 5)
			good = note(span, xrefs, from, jumps_to(at + i, code + i, 1));
		if ((code[i] == 0x0f || hidden) && count - i >= LONGEST &&
		    (code[i + 1] & 0xf0) == 0x80)
			good = good && note(span, xrefs, from, jumps_to(at + i, code + i, 2));
		if (!good)
			return false;
	}
	return true;
}

static bool may_go_on(void)
{
	cond_resched();
	return !fatal_signal_pending(current);
}

/* Scan the live text, and the original bytes of all units. */
static int look_through(const struct span *span, struct xrefs *xrefs)
{
	static u8 code[PIECE + LONGEST];
	unsigned long at;
	const struct ilk_site *site;

	for (at = span->start; at < span->end; at += PIECE) {
		u32 starts = min_t(u32, PIECE, span->end - at);
		u32 count = min_t(u32, PIECE + LONGEST, span->end - at);

		if (!copy_from_kernel_nofault(code, (void *)at, count) &&
		    !look(span, xrefs, at, code, count, starts))
			return -ENOMEM;
		if (!may_go_on())
			return -EINTR;
	}
	for (site = ilk_site_next(span->start); site && site->address < span->end;
	     site = ilk_site_after(site))
		if (!look(span, xrefs, site->address, site->old, site->length, site->length))
			return -ENOMEM;
	return 0;
}

static unsigned long fixup_of(const struct exception_table_entry *entry)
{
	return (unsigned long)&entry->fixup + entry->fixup;
}

static int look_into_tables(const struct span *span, struct xrefs *xrefs)
{
	const struct exception_table_entry *fixup;
	struct jump_entry *key;
	bool good = true;

	for (fixup = span->fixups; fixup < span->fixups_end; fixup++)
		good = good && note(span, xrefs, TABLE, fixup_of(fixup));
	for (key = span->keys; key < span->keys_end; key++)
		good = good && note(span, xrefs, TABLE, jump_entry_target(key));
	return good ? 0 : -ENOMEM;
}

/*
 * Sort the jumps into groups: first the sizes are counted, then turned into ends, from which groups are filled
 * downwards.
 */
static int arrange(struct span *span, const struct xrefs *found)
{
	u32 groups = groups_of(span), i;

	span->firsts = kvcalloc(groups + 1, sizeof(*span->firsts), GFP_KERNEL);
	span->xrefs = kvmalloc_array(found->count + 1, sizeof(*span->xrefs), GFP_KERNEL);
	if (!span->firsts || !span->xrefs)
		return -ENOMEM;
	for (i = 0; i < found->count; i++)
		span->firsts[found->all[i].to / GROUP]++;
	for (i = 1; i <= groups; i++)
		span->firsts[i] += span->firsts[i - 1];
	for (i = 0; i < found->count; i++)
		span->xrefs[--span->firsts[found->all[i].to / GROUP]] = found->all[i];
	return 0;
}

static int fill(struct span *span)
{
	struct xrefs found = {};
	int error = look_through(span, &found);

	if (!error)
		error = look_into_tables(span, &found);
	if (!error)
		error = arrange(span, &found);
	kvfree(found.all);
	return error;
}

static void empty(struct span *span)
{
	kvfree(span->xrefs);
	kvfree(span->firsts);
	*span = (struct span){};
}

static bool is_long_jump(const struct insn *insn)
{
	u8 first = insn->opcode.bytes[0];

	return (first & 0xfe) == 0xe8 ||
	       (first == 0x0f && (insn->opcode.bytes[1] & 0xf0) == 0x80);
}

/* Whether a 32-bit jump begins at `address`, if decoding starts at `at`. Bytes that cannot be decoded may be one. */
static bool read_up_to(unsigned long at, unsigned long address)
{
	struct insn insn = {};
	u32 count = 0;

	for (; at <= address; at += insn.length) {
		if (!(++count % READ_AT_ONCE) && !may_go_on())
			return true;
		if (!ilk_instruction_at(at, at + 15, &insn))
			return true;
		if (at == address)
			return is_long_jump(&insn);
	}
	return false;
}

static bool is_jump(unsigned long address)
{
	unsigned long size, offset;
	bool found;

	if (!ilk_kernel.kallsyms_lookup_size_offset(address, &size, &offset) || !ilk_text_hold())
		return true;
	found = read_up_to(address - offset, address);
	ilk_text_let_go();
	return found;
}

/* Whether the recorded bytes are a real jump. If not, this is recorded, so that they are not decoded again. */
static bool leads(const struct span *span, struct xref *xref)
{
	if (xref->from == TABLE)
		return true;
	if (xref->from == NONE)
		return false;
	if (is_jump(span->start + xref->from))
		return true;
	xref->from = NONE;
	return false;
}

int ilk_xrefs_init(void)
{
	int error;

	core = (struct span){
		.start = (unsigned long)ilk_kernel._stext,
		.end = (unsigned long)ilk_kernel._etext,
		.fixups = ilk_kernel.__start___ex_table,
		.fixups_end = ilk_kernel.__stop___ex_table,
		.keys = ilk_kernel.__start___jump_table,
		.keys_end = ilk_kernel.__stop___jump_table,
	};
	error = fill(&core);
	if (error)
		empty(&core);
	return error;
}

void ilk_xrefs_exit(void)
{
	empty(&module);
	empty(&core);
}

/* Forget the jumps of modules: a module may lie where another one was. */
void ilk_xrefs_forget(void)
{
	empty(&module);
}

/* The span of a live module's text. The module cannot be unloaded while ilk_mutex is held. */
static struct span *of_module(unsigned long address)
{
	struct module *owner;

	if (address >= module.start && address < module.end)
		return &module;
	ilk_xrefs_forget();
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
		ilk_xrefs_forget();
		return NULL;
	}
	return &module;
}

/* Whether other code leads to one of the bytes from `first` to `last`. */
u32 ilk_xref(unsigned long first, unsigned long last, u64 *detail)
{
	struct span *span = ilk_in_core(first) ? &core : of_module(first);
	u32 from, to, i;

	*detail = first;
	if (!span)
		return ILK_UNREAD;
	from = first - span->start;
	to = min(last, span->end - 1) - span->start;
	for (i = span->firsts[from / GROUP]; i < span->firsts[to / GROUP + 1]; i++) {
		struct xref *xref = &span->xrefs[i];

		if (xref->to < from || xref->to > to || !leads(span, xref))
			continue;
		*detail = span->start + xref->to;
		return ILK_LEADER;
	}
	*detail = 0;
	return ILK_OK;
}
