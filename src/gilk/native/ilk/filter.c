// SPDX-License-Identifier: GPL-2.0
/*
 * The processes that a client wants records of (FILTER in ilk_abi.h). Generated code reads one word: 0, or the address
 * of a bitmap: the client's, or an empty one, which consists of one page of zeros that is mapped as often as needed.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/threads.h>
#include <linux/vmalloc.h>

#include "ilk.h"

#define FILTER_BYTES (ILK_TGIDS / 8)
#define FILTER_PAGES (FILTER_BYTES / PAGE_SIZE)
#define FILTER_FLAGS (ILK_FILTER_ON | ILK_FILTER_ONLY | ILK_FILTER_CLEAR | ILK_FILTER_INTERRUPTS)
#define INTERRUPTS 0 /* a bit that no process has */

DEFINE_PER_CPU(u64, ilk_filters[ILK_SETS]);

static unsigned long *nobody;

int ilk_filter_init(void)
{
	struct page **pages = kvmalloc_array(FILTER_PAGES, sizeof(*pages), GFP_KERNEL);
	u32 i;

	BUILD_BUG_ON(PID_MAX_LIMIT > ILK_TGIDS);
	BUILD_BUG_ON(ILK_IN_INTERRUPT != (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET));
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < FILTER_PAGES; i++)
		pages[i] = ZERO_PAGE(0);
	nobody = vmap(pages, FILTER_PAGES, VM_MAP, PAGE_KERNEL_RO);
	kvfree(pages);
	return nobody ? 0 : -ENOMEM;
}

void ilk_filter_exit(void)
{
	vunmap(nobody);
}

static void point_to(u32 set, const unsigned long *bits)
{
	u32 cpu;

	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu(ilk_filters[set], cpu), (u64)(unsigned long)bits);
}

static void change(struct ilk_wanted *wanted, const struct ilk_filter *message)
{
	u32 i;

	if (message->flags & ILK_FILTER_CLEAR) {
		bitmap_zero(wanted->only, ILK_TGIDS);
		wanted->members = 0;
	}
	for (i = 0; i < message->add; i++)
		wanted->members += !test_and_set_bit(message->tgid[i], wanted->only);
	for (; i < message->add + message->remove; i++)
		wanted->members -= test_and_clear_bit(message->tgid[i], wanted->only);
	if (message->flags & ILK_FILTER_INTERRUPTS)
		set_bit(INTERRUPTS, wanted->only);
	else
		clear_bit(INTERRUPTS, wanted->only);
}

static int check(const struct ilk_filter *message)
{
	u32 i;

	if (message->flags & ~FILTER_FLAGS)
		return -EINVAL;
	for (i = 0; i < message->add + message->remove; i++)
		if (!message->tgid[i] || message->tgid[i] >= ILK_TGIDS)
			return -EINVAL;
	return 0;
}

/* The caller has checked that the message contains as many tgids as it says, so the sum does not overflow. */
int ilk_filter_set(struct ilk_client *client, struct ilk_filter *message)
{
	struct ilk_buffers *buffers = client->buffers;
	int error = check(message);

	if (error)
		return error;
	if (!buffers)
		return -ENXIO;
	if (!buffers->wanted.only)
		buffers->wanted.only = vzalloc(FILTER_BYTES);
	if (!buffers->wanted.only)
		return -ENOMEM;
	change(&buffers->wanted, message);
	message->members = buffers->wanted.members;
	if (!(message->flags & ILK_FILTER_ON))
		point_to(buffers->set, nobody);
	else
		point_to(buffers->set,
			 message->flags & ILK_FILTER_ONLY ? buffers->wanted.only : NULL);
	return 0;
}

/* Call this only when no unit of the client is left. */
void ilk_filter_free(struct ilk_wanted *wanted, u32 set)
{
	point_to(set, NULL);
	vfree(wanted->only);
}

bool ilk_filter_wants(u32 set)
{
	const unsigned long *bits = (void *)(unsigned long)this_cpu_read(ilk_filters[set]);

	if (!bits || (current->tgid && test_bit(current->tgid, bits)))
		return true;
	return preempt_count() & ILK_IN_INTERRUPT && test_bit(INTERRUPTS, bits);
}
