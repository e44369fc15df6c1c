// SPDX-License-Identifier: GPL-2.0
/*
 * Checks a place against the kernel: whether it is live text, and whether anybody else owns it. These facts do not
 * change while a unit is there, except the bytes, which are compared again when they are written.
 */
#include <linux/module.h>
#include <linux/preempt.h>
#include <asm/insn.h>

#include "ilk.h"

static u32 in_module(unsigned long first, unsigned long last)
{
	struct module *module;
	u32 status = ILK_OUTSIDE;

	preempt_disable();
	module = ilk_kernel.__module_text_address(first);
	if (module && ilk_kernel.__module_text_address(last) == module) {
		status = ILK_OK;
		if (within_module_init(first, module) || within_module_init(last, module))
			status = ILK_INIT;
		else if (module == THIS_MODULE || module->state != MODULE_STATE_LIVE)
			status = ILK_MODULE;
	}
	preempt_enable();
	return status;
}

static u32 in_text(unsigned long first, unsigned long last)
{
	unsigned long start = (unsigned long)ilk_kernel._stext;
	unsigned long end = (unsigned long)ilk_kernel._etext;

	if (first >= start && last < end)
		return ILK_OK;
	if (last >= (unsigned long)ilk_kernel._sinittext &&
	    first < (unsigned long)ilk_kernel._einittext)
		return ILK_INIT;
	return in_module(first, last);
}

/* An optimised kprobe may reach up to four bytes into our window from before it. */
static u32 kprobes(unsigned long first, unsigned long last, u64 *detail)
{
	unsigned long address = ilk_kprobed(first - 4, last);

	if (address)
		*detail = address;
	return address ? ILK_KPROBE : ILK_OK;
}

/* The answer for the last function, since plans go through one function after the other. ilk_mutex is held. */
static struct {
	unsigned long start, end;
	bool listed;
} asked;

static bool blacklisted(unsigned long first, unsigned long last)
{
	unsigned long size, offset;

	if (first >= asked.start && last < asked.end)
		return asked.listed;
	asked.end = 0;
	if (!ilk_in_core(first) || !ilk_kernel.kallsyms_lookup_size_offset(first, &size, &offset) ||
	    last - first >= size - offset)
		return ilk_kernel.within_kprobe_blacklist(first) ||
		       ilk_kernel.within_kprobe_blacklist(last);
	asked.start = first - offset;
	asked.end = asked.start + size;
	asked.listed = ilk_kernel.within_kprobe_blacklist(first) ||
		       ilk_kernel.within_kprobe_blacklist(asked.end - 1);
	return asked.listed;
}

/* Whether the site gets an int3 of ours, if only for a while. */
static bool traps(const struct ilk_site *site)
{
	return site->kind == ILK_TRAP || site->kind == ILK_MULTI || site->flags & ILK_SEVERAL;
}

static u32 owned_in_module(unsigned long first, unsigned long last)
{
	u32 status = ILK_OK;

	ilk_kernel.jump_label_lock();
	if (ilk_kernel.jump_label_text_reserved((void *)first, (void *)last))
		status = ILK_STATIC_KEY;
	else if (ilk_kernel.static_call_text_reserved((void *)first, (void *)last))
		status = ILK_STATIC_CALL;
	ilk_kernel.jump_label_unlock();
	return status;
}

static u32 reserved(unsigned long first, unsigned long last)
{
	u32 status;

	if (blacklisted(first, last))
		return ILK_BLACKLIST;
	if (ilk_kernel.ftrace_text_reserved((void *)first, (void *)last))
		return ILK_FTRACE;
	status = ilk_in_core(first) ? ilk_reserved_core(first, last) : owned_in_module(first, last);
	if (status == ILK_OK) {
		mutex_lock(ilk_kernel.text_mutex);
		if (ilk_kernel.alternatives_text_reserved((void *)first, (void *)last + 1))
			status = ILK_ALTERNATIVE;
		mutex_unlock(ilk_kernel.text_mutex);
	}
	return status;
}

static u32 instructions(const struct ilk_site *site, u64 *detail)
{
	struct insn insn;
	u32 at = 0;

	while (at < site->length) {
		*detail = site->address + at;
		if (ilk_kernel.search_exception_tables(*detail))
			return ILK_EXCEPTION;
		if (ilk_kernel.insn_decode(&insn, site->old + at, site->length - at,
					   INSN_MODE_KERN))
			return ILK_DECODE;
		at += insn.length;
	}
	*detail = 0;
	return ILK_OK;
}

static u32 led_to(unsigned long first, unsigned long last, u64 *detail)
{
	u32 status = ilk_branch_target(first, last, detail);

	return status == ILK_OK ? ilk_xref(first, last, detail) : status;
}

/* Whether the jump that ends at `last` stays one: that of a static key may become a nop. */
static bool stays_a_jump(unsigned long last)
{
	if (ilk_in_core(last))
		return ilk_reserved_core(last, last) != ILK_STATIC_KEY;
	return owned_in_module(last, last) != ILK_STATIC_KEY;
}

/* ILK_OK if control cannot reach the padding: it does not run into it, and no jump leads to a byte up to `last`. */
static u32 reached(unsigned long first, unsigned long last, u64 *detail)
{
	unsigned long start;
	u32 status = ilk_rest(first, last, &start, detail);

	if (status != ILK_OK)
		return status;
	*detail = start - 1;
	return stays_a_jump(start - 1) ? led_to(start, last, detail) : ILK_RUN_INTO;
}

/* ILK_OK if no jump leads into the window: to the middle of several instructions, or to any byte of padding. */
static u32 led_into(const struct ilk_site *site, u64 *detail)
{
	unsigned long first = site->address, last = first + site->length - 1;

	if (site->kind == ILK_PAD)
		return reached(first, last, detail);
	if (site->kind == ILK_TRAP || !traps(site))
		return ILK_OK;
	return led_to(first + 1, last, detail);
}

/* Check the place of a site. If it is refused, `detail` is the address to blame, where that is not the whole window. */
u32 ilk_verify(const struct ilk_site *site, u64 *detail)
{
	unsigned long first = site->address, last = first + site->length - 1;
	u32 status = in_text(first, last);

	if (status != ILK_OK || site->host)
		return status;
	if (site->kind == ILK_FENTRY)
		return ilk_kernel.ftrace_location(first) == first ? ILK_OK : ILK_NO_FENTRY;
	/* core text always exists; a module's may have been unloaded since in_text() */
	if (ilk_in_core(first) && !ilk_text_is(first, site->old, site->length))
		status = kprobes(first, last, detail) == ILK_OK ? ILK_STALE : ILK_KPROBE;
	if (status == ILK_OK && traps(site) && (ilk_on_the_way(first) || ilk_on_the_way(last)))
		status = ILK_BLACKLIST;
	if (status == ILK_OK)
		status = reserved(first, last);
	if (status == ILK_OK)
		status = kprobes(first, last, detail);
	if (status == ILK_OK && site->kind != ILK_PAD)
		status = instructions(site, detail);
	if (status == ILK_OK)
		status = led_into(site, detail);
	return status;
}
