// SPDX-License-Identifier: GPL-2.0
/* Gives a client copies of its program's memory, and lets it change the words that belong to consumers (gilk_d.h). */
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "d.h"
#include "../../abi/gilk_atomic.h"

static bool is_within(const struct ilk_program *p, u64 offset, u64 size)
{
	return offset <= p->clauses.layout.size && size <= p->clauses.layout.size - offset;
}

/* How many bytes a message has behind its ranges; less than 0 if it is too short for them. */
static s64 room_behind(const struct ilk_d_read *m, u32 size)
{
	u64 ranges = m->count * (u64)sizeof(m->range[0]);

	return (s64)(size - sizeof(*m)) - (s64)ranges;
}

int ilk_d_read(struct ilk_client *client, struct ilk_d_read *m, u32 size)
{
	struct ilk_program *p = client->program;
	s64 room = room_behind(m, size);
	u8 *to = (u8 *)&m->range[m->count];
	u32 i;

	if (!p)
		return -ENXIO;
	for (i = 0; room >= 0 && i < m->count; i++) {
		const struct ilk_d_range *range = &m->range[i];

		if (!is_within(p, range->offset, range->size))
			return -EINVAL;
		room -= (s64)range->size;
		if (room < 0)
			break;
		memcpy(to, p->clauses.memory + range->offset, range->size);
		to += range->size;
	}
	return room < 0 ? -ENOSPC : 0;
}

int ilk_d_lines(struct ilk_client *client, struct ilk_d_lines *m, u32 size)
{
	struct ilk_program *p = client->program;
	u64 at = m->offset, end = m->offset + m->size;

	if (!p)
		return -ENXIO;
	if (!is_within(p, m->offset, m->size) || m->offset % ILK_D_LINE || m->size % ILK_D_LINE)
		return -EINVAL;
	if (m->room > (size - sizeof(*m)) / sizeof(m->line[0]))
		return -ENOSPC;
	for (m->count = 0; at < end && m->count < m->room; at += ILK_D_LINE) {
		if (at % PAGE_SIZE == 0)
			cond_resched();
		if (!memchr_inv(p->clauses.memory + at, 0, ILK_D_LINE))
			continue;
		m->line[m->count].offset = at;
		memcpy(m->line[m->count++].content, p->clauses.memory + at, ILK_D_LINE);
	}
	m->next = at;
	return 0;
}

static bool is_between(const struct ilk_d_word *word, u64 start, u64 size)
{
	return word->offset >= start && word->offset - start < size && word->width <= size - (word->offset - start);
}

/* Whether the word is the limit of a buffer, which its reader moves. */
static bool is_limit(const struct gd_layout *l, const struct ilk_d_word *word)
{
	u64 at = word->offset - l->buffer_first;

	return word->offset >= l->buffer_first && at / l->buffer_stride < l->buffers && word->width == 8 &&
	       at % l->buffer_stride == offsetof(struct gd_buffer, limit);
}

static bool is_consumers(const struct ilk_program *p, const struct ilk_d_word *word)
{
	const struct gd_layout *l = &p->clauses.layout;

	if ((word->width != 4 && word->width != 8) || word->offset % word->width ||
	    !is_within(p, word->offset, word->width))
		return false;
	return (word->width == 4 && word->offset == offsetof(struct gd_control, state) && word->value <= GD_BEGINNING) ||
	       (word->width == 4 && word->offset == offsetof(struct gd_control, bank)) ||
	       is_between(word, l->generations, l->aggregations * 4) ||
	       is_between(word, l->globals, l->globals_size) || is_limit(l, word) ||
	       is_between(word, l->table_first, GD_BANKS * l->shards * l->table_stride);
}

static void put(struct ilk_program *p, const struct ilk_d_word *word)
{
	if (word->width == 4)
		WRITE_ONCE(*(u32 *)(p->clauses.memory + word->offset), (u32)word->value);
	else
		WRITE_ONCE(*(u64 *)(p->clauses.memory + word->offset), word->value);
}

int ilk_d_put(struct ilk_client *client, struct ilk_d_put *m, u32 size)
{
	struct ilk_program *p = client->program;
	u32 i;

	if (!p)
		return -ENXIO;
	if (m->count > (size - sizeof(*m)) / sizeof(m->word[0]))
		return -EINVAL;
	for (i = 0; i < m->count; i++)
		if (!is_consumers(p, &m->word[i]))
			return -EINVAL;
	for (i = 0; i < m->count; i++)
		put(p, &m->word[i]);
	return 0;
}

int ilk_d_status(struct ilk_client *client, struct ilk_d_status *m)
{
	struct ilk_program *p = client->program;
	int cpu;

	if (!p)
		return -ENXIO;
	m->nested = m->shallow = 0;
	m->shared = ilk_d_shared(client);
	m->aborted = p->aborted;
	m->reserved = 0;
	m->stopped = READ_ONCE(p->deeds.stopped);
	memcpy(m->process, p->deeds.process, sizeof(m->process));
	m->wall = ktime_get_real_ns() - ktime_get_ns();
	for_each_possible_cpu(cpu) {
		m->nested += per_cpu_ptr(p->missed, cpu)[0];
		m->shallow += per_cpu_ptr(p->missed, cpu)[1];
	}
	return 0;
}

/*
 * Move the records of a speculation one by one, so that interrupts are off for one record at a time. Returns how many.
 */
static u64 settle(const struct ilk_clauses *clauses, u64 id)
{
	unsigned long flags;
	u64 at = 0, count = 0;
	bool moved;

	do {
		raw_local_irq_save(flags);
		moved = ilk_d_settle_one(clauses, raw_smp_processor_id(), id, &at);
		raw_local_irq_restore(flags);
		count += moved;
		cond_resched();
	} while (moved);
	return count;
}

int ilk_d_settle(struct ilk_client *client, struct ilk_d_settle *m)
{
	struct ilk_program *p = client->program;
	u64 id;

	if (!p)
		return -ENXIO;
	m->moved = 0;
	for (id = 1; id <= p->clauses.layout.speculations; id++)
		m->moved += settle(&p->clauses, id);
	return 0;
}

/* Whether the task with an identity (ilk_d_identity()) lives; the identities of interrupts always do. */
static bool lives(u64 thread)
{
	struct task_struct *task;
	bool there;

	if (!thread || thread >> 63)
		return true;
	rcu_read_lock();
	task = pid_task(find_pid_ns(thread & 0x3fffff, &init_pid_ns), PIDTYPE_PID);
	there = task && ilk_d_identity(task) == thread;
	rcu_read_unlock();
	return there;
}

int ilk_d_reap(struct ilk_client *client, struct ilk_d_reap *m)
{
	struct ilk_program *p = client->program;
	u64 slot, seen, *word;

	if (!p)
		return -ENXIO;
	m->freed = 0;
	for (slot = 0; slot < p->clauses.layout.dynamic_slots; slot++) {
		word = (u64 *)(p->clauses.memory + p->clauses.layout.dynamic_words) + slot;
		seen = READ_ONCE(*word);
		if ((seen & 7) != GD_MEMBER ||
		    lives(((struct gd_variable *)(p->clauses.memory + p->clauses.layout.dynamic_first +
						  slot * p->clauses.layout.dynamic_stride))->thread))
			continue;
		m->freed += gilk_swap(word, seen, ((seen >> GD_SLOT_VERSION) + 1) << GD_SLOT_VERSION);
	}
	return 0;
}
