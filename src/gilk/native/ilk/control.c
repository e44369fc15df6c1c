// SPDX-License-Identifier: GPL-2.0
/*
 * Messages of clients: each is copied in as a whole, checked, answered in place, and copied out as a whole. A handler
 * gets the message and its size, which is at least that in the handler's row (`least`).
 */
#include <linux/fs.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>
#include <asm/msr.h>
#include <asm/tsc.h>

#include "ilk.h"
#include "d/d.h"

/* Whether the message has room for `count` items behind its fixed part. The product cannot overflow. */
static bool fits(u32 size, size_t fixed, u64 count, size_t item)
{
	return count <= (size - fixed) / item;
}

static int hello(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_hello *hello = message;

	*hello = (struct ilk_hello){
		.head = hello->head,
		.protocol = ILK_PROTOCOL,
		.cpus = num_possible_cpus(),
		.message_max = ILK_MESSAGE_MAX,
		.arena_max = ILK_ARENA_MAX,
		.counters_max = ILK_COUNTERS_MAX,
		.fast_counters = ilk_counters_free_near(),
		.units_max = ILK_UNITS_MAX,
		.chunk = ILK_CHUNK,
		.current_gs = (s64)(unsigned long)&ILK_CURRENT_WORD,
		.pid_offset = offsetof(struct task_struct, pid),
		.tsc_khz = tsc_khz,
		.tgid_offset = offsetof(struct task_struct, tgid),
		.preempt_gs = (s32)(unsigned long)&ILK_PREEMPT_WORD,
		.text_start = (u64)(unsigned long)ilk_kernel._stext,
		.text_end = (u64)(unsigned long)ilk_kernel._etext,
	};
	strscpy(hello->release, init_utsname()->release, sizeof(hello->release));
	return 0;
}

static int symbols(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_symbols *symbols = message;
	u32 room = (size - sizeof(*symbols)) / sizeof(symbols->symbol[0]);

	symbols->count = ilk_call_symbols(symbols->symbol, room);
	return symbols->count > room ? -ENOSPC : 0;
}

static int arena(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_arena *arena = message;

	return ilk_arena_create(client, arena->bytes, &arena->bytes, &arena->address);
}

static int fill(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_fill *fill = message;

	if (!fits(size, sizeof(*fill), fill->bytes, 1))
		return -EINVAL;
	return ilk_arena_fill(client, fill->address, fill->content, fill->bytes);
}

static int counters(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_counters *counters = message;
	u32 room = (size - sizeof(*counters)) / sizeof(counters->block[0]);

	return ilk_counters_create(client, counters->count, counters->block, room,
				   &counters->blocks);
}

static int read_counters(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_read *read = message;

	if (!fits(size, sizeof(*read), read->count, sizeof(read->value[0])))
		return -ENOSPC;
	return ilk_counters_read(client, read->first, read->count, read->cpu, read->value);
}

static int records(struct ilk_client *client, void *message, u32 size)
{
	return ilk_buffers_create(client, message);
}

static int filter(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_filter *filter = message;

	if (!fits(size, sizeof(*filter), (u64)filter->add + filter->remove,
		  sizeof(filter->tgid[0])))
		return -EINVAL;
	return ilk_filter_set(client, filter);
}

static int hold(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_hold *wanted = message;

	return ilk_hold(client, wanted->address);
}

static int share(struct ilk_client *client, void *message, u32 size)
{
	return ilk_share(client, message);
}

static int apply(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_apply *apply = message;
	int done;

	if (!fits(size, sizeof(*apply), apply->count, sizeof(apply->unit[0])))
		return -EINVAL;
	done = apply->count ? ilk_apply(client, apply->unit, apply->count) : 0;
	apply->applied = max(done, 0);
	return min(done, 0);
}

static int undo(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_undo *undo = message;
	u32 before = client->nr_units;

	if (!fits(size, sizeof(*undo), undo->count, sizeof(undo->result[0])))
		return -EINVAL;
	if (undo->count) {
		undo->undone = ilk_undo(client, undo->result, undo->count);
	} else {
		if (ilk_d_unforce(client))
			ilk_undo_all(client);
		undo->undone = before - client->nr_units;
	}
	return 0;
}

/* Read both clocks at one moment: the TSC is the mean of a reading before and one after the other clock. */
static void clocks(u64 *tsc, u64 *monotonic)
{
	unsigned long flags;
	u64 before, after;

	local_irq_save(flags);
	before = rdtsc_ordered();
	*monotonic = ktime_get_ns();
	after = rdtsc_ordered();
	local_irq_restore(flags);
	*tsc = before + (after - before) / 2;
}

static int status(struct ilk_client *client, void *message, u32 size)
{
	struct ilk_status *status = message;
	struct ilk_client *each;

	*status = (struct ilk_status){
		.head = status->head,
		.fast_counters = ilk_counters_free_near(),
		.own_units = client->nr_units,
		.traps = atomic64_read(&ilk_traps),
		.missed = ilk_missed_sum(),
		.batches = ilk_batches,
	};
	list_for_each_entry(each, &ilk_clients, list) {
		status->clients += !each->orphan;
		status->units += each->nr_units;
		status->orphans += each->orphan ? each->nr_units : 0;
		status->arena_bytes += each->arena_bytes;
		status->counters += each->nr_counters;
		status->ring_bytes += ilk_buffers_bytes(each);
	}
	ilk_buffers_lost(client, status->lost);
	clocks(&status->tsc, &status->monotonic);
	return 0;
}

/* The same for messages of D, whose handlers take the typed message and check its size themselves. */
#define D_HANDLER(name, call, type)                                                                \
	static int name(struct ilk_client *client, void *message, u32 size)                        \
	{                                                                                          \
		struct type *m = message;                                                          \
		return call;                                                                       \
	}

D_HANDLER(d_program, ilk_d_program_create(client, m, size), ilk_d_program)
D_HANDLER(d_sites, ilk_d_sites_create(client, m), ilk_d_sites)
D_HANDLER(d_attach, ilk_d_attach(client, m, size), ilk_d_attach)
D_HANDLER(d_clock, ilk_d_clock(client, m), ilk_d_clock)
D_HANDLER(d_point, ilk_d_point(client, m), ilk_d_point)
D_HANDLER(d_perf, ilk_d_perf(client, m), ilk_d_perf)
D_HANDLER(d_uprobe, ilk_d_uprobe(client, m, size), ilk_d_uprobe)
D_HANDLER(d_fire, ilk_d_fire(client, m), ilk_d_fire)
D_HANDLER(d_read, ilk_d_read(client, m, size), ilk_d_read)
D_HANDLER(d_lines, ilk_d_lines(client, m, size), ilk_d_lines)
D_HANDLER(d_put, ilk_d_put(client, m, size), ilk_d_put)
D_HANDLER(d_status, ilk_d_status(client, m), ilk_d_status)
D_HANDLER(d_find, ilk_d_find(client, m), ilk_d_find)
D_HANDLER(d_force, ilk_d_force(client, m, size), ilk_d_force)
D_HANDLER(d_originals, ilk_d_originals(client, m, size), ilk_d_originals)
D_HANDLER(d_mapped, ilk_d_mapped(client, m, size), ilk_d_mapped)
D_HANDLER(d_reap, ilk_d_reap(client, m), ilk_d_reap)
D_HANDLER(d_settle, ilk_d_settle(client, m), ilk_d_settle)

static const struct {
	int (*handle)(struct ilk_client *client, void *message, u32 size);
	size_t least;
} handlers[] = {
	[ILK_HELLO & 0xff] = { hello, sizeof(struct ilk_hello) },
	[ILK_SYMBOLS & 0xff] = { symbols, sizeof(struct ilk_symbols) },
	[ILK_ARENA & 0xff] = { arena, sizeof(struct ilk_arena) },
	[ILK_FILL & 0xff] = { fill, sizeof(struct ilk_fill) },
	[ILK_COUNTERS & 0xff] = { counters, sizeof(struct ilk_counters) },
	[ILK_READ & 0xff] = { read_counters, sizeof(struct ilk_read) },
	[ILK_RECORDS & 0xff] = { records, sizeof(struct ilk_records) },
	[ILK_APPLY & 0xff] = { apply, sizeof(struct ilk_apply) },
	[ILK_UNDO & 0xff] = { undo, sizeof(struct ilk_undo) },
	[ILK_STATUS & 0xff] = { status, sizeof(struct ilk_status) },
	[ILK_FILTER & 0xff] = { filter, sizeof(struct ilk_filter) },
	[ILK_HOLD & 0xff] = { hold, sizeof(struct ilk_hold) },
	[ILK_SHARE & 0xff] = { share, sizeof(struct ilk_share) },
	[ILK_D_PROGRAM & 0xff] = { d_program, sizeof(struct ilk_d_program) },
	[ILK_D_SITES & 0xff] = { d_sites, sizeof(struct ilk_d_sites) },
	[ILK_D_ATTACH & 0xff] = { d_attach, sizeof(struct ilk_d_attach) },
	[ILK_D_CLOCK & 0xff] = { d_clock, sizeof(struct ilk_d_clock) },
	[ILK_D_FIRE & 0xff] = { d_fire, sizeof(struct ilk_d_fire) },
	[ILK_D_READ & 0xff] = { d_read, sizeof(struct ilk_d_read) },
	[ILK_D_LINES & 0xff] = { d_lines, sizeof(struct ilk_d_lines) },
	[ILK_D_PUT & 0xff] = { d_put, sizeof(struct ilk_d_put) },
	[ILK_D_STATUS & 0xff] = { d_status, sizeof(struct ilk_d_status) },
	[ILK_D_FIND & 0xff] = { d_find, sizeof(struct ilk_d_find) },
	[ILK_D_FORCE & 0xff] = { d_force, sizeof(struct ilk_d_force) },
	[ILK_D_ORIGINALS & 0xff] = { d_originals, sizeof(struct ilk_d_originals) },
	[ILK_D_REAP & 0xff] = { d_reap, sizeof(struct ilk_d_reap) },
	[ILK_D_SETTLE & 0xff] = { d_settle, sizeof(struct ilk_d_settle) },
	[ILK_D_MAPPED & 0xff] = { d_mapped, sizeof(struct ilk_d_mapped) },
	[ILK_D_POINT & 0xff] = { d_point, sizeof(struct ilk_d_point) },
	[ILK_D_PERF & 0xff] = { d_perf, sizeof(struct ilk_d_perf) },
	[ILK_D_UPROBE & 0xff] = { d_uprobe, sizeof(struct ilk_d_uprobe) },
};

static int check(u32 request, const struct ilk_head *head)
{
	u32 number = request & 0xff;

	if (request != ILK_REQUEST(number) || number >= ARRAY_SIZE(handlers) ||
	    !handlers[number].handle)
		return -ENOTTY;
	if (head->version != ILK_PROTOCOL)
		return -EPROTO;
	if (head->size > ILK_MESSAGE_MAX)
		return -E2BIG;
	return head->size < handlers[number].least ? -EINVAL : 0;
}

static int handle(struct ilk_client *client, u32 request, void *message, u32 size)
{
	int error;

	if (mutex_lock_killable(&ilk_mutex))
		return -EINTR;
	client->silent = 0;
	error = handlers[request & 0xff].handle(client, message, size);
	mutex_unlock(&ilk_mutex);
	return error;
}

long ilk_control(struct file *file, unsigned int request, unsigned long argument)
{
	void __user *user = (void __user *)argument;
	struct ilk_head head;
	void *message;
	int error;

	if (copy_from_user(&head, user, sizeof(head)))
		return -EFAULT;
	error = check(request, &head);
	if (error)
		return error;
	message = kvmalloc(head.size, GFP_KERNEL | __GFP_NOWARN);
	if (!message)
		return -ENOMEM;
	error = -EFAULT;
	if (!copy_from_user(message, user, head.size)) {
		/* the head that was checked: another thread may have changed it in user space since */
		*(struct ilk_head *)message = head;
		error = handle(file->private_data, request, message, head.size);
	}
	if (!error && copy_to_user(user, message, head.size))
		error = -EFAULT;
	kvfree(message);
	return error;
}
